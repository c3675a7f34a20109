"""Values that were read from a log → the parts that they were written from.

So that a run that goes on from a restored state writes what is new, and not the state again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from langgraph_jsonl_checkpoint.values import messages, ranges, types
from langgraph_jsonl_checkpoint.values.freeze import Freezer, part_of_scalar
from langgraph_jsonl_checkpoint.values.known import Known
from langgraph_jsonl_checkpoint.values.parts import (
    EMPTY,
    NEVER,
    DictPart,
    Is,
    Item,
    ListPart,
    Scalars,
    View,
    copy_of_number,
    extra_of,
    is_plain,
    state_of,
)

if TYPE_CHECKING:
    from langgraph_jsonl_checkpoint.values.book import Book
    from langgraph_jsonl_checkpoint.values.seal import Serde

_SCALARS = frozenset({int, float, bool, type(None)})


class Adopter:
    """Finds the parts of values that one session's texts stand for, and remembers the items among them."""

    def __init__(self, book: Book, serde: Serde, known: Known) -> None:
        self._known = known
        self._book = book
        self._serde = serde

    def part(self, text: bytes | msgspec.Raw, value: Any) -> Any:
        """The part of a value that `text` was read as."""
        return self._adopt(msgspec.json.decode(self._serde.open(bytes(text))), value)[0]

    def _adopt(self, tree: Any, value: Any) -> tuple[Any, Any]:
        if type(tree) is not dict:
            return tree, copy_of(value)
        if len(tree) == 1:
            tag, payload = next(iter(tree.items()))
            if tag == "$ref":
                return self._item(payload, value)
            if tag == "$list":
                return self._list(payload, value)
            if tag == "$map":
                return self._map(payload, value)
            if tag.startswith("$"):
                # A tag that may hold references means nothing in another session: it is never kept.
                return tree, copy_of(value) if type(payload) is str else NEVER
        members = {k: self._adopt(t, value[k]) for k, t in tree.items()}
        parts, copies = ({k: m[i] for k, m in members.items()} for i in (0, 1))
        if all(map(is_plain, parts.values())):
            return tree, copies
        return DictPart(dict(value), parts, copies, large=False), copies

    def _item(self, number: int, value: Any) -> tuple[Any, Any]:
        kind, text = self._book.text(number)
        item = Item(kind, None, copy_of(value), value)
        item.number, item.session = number, self._book.token
        self._known.add(item, len(text))
        return item, item.copy

    def _list(self, runs: list[ranges.Range], value: list[Any]) -> tuple[Any, Any]:
        if set(map(type, value)) <= _SCALARS:
            part = ListPart([part_of_scalar(v) for v in value], View(value[:], Scalars(value), []))
        else:
            numbers = (n for first, last in ranges.flat(runs, self._book.stem) for n in range(first, last + 1))
            pairs = [
                (part_of_scalar(v), copy_of(v)) if type(v) is str or type(v) in _SCALARS else self._item(n, v)
                for n, v in zip(numbers, value, strict=True)
            ]
            copies = [p[1] for p in pairs]
            view = View(value[:], [state_of(c) for c in copies], [extra_of(c) for c in copies])
            part = ListPart([p[0] for p in pairs], view)
        part.runs, part.ranges, part.session = [], runs, self._book.token
        if value:
            self._known.add_container(value[0], part)
        return part, part.copy

    def _map(self, runs: list[ranges.Range], value: dict[str, Any]) -> tuple[Any, Any]:
        trees: dict[str, Any] = {}
        count = 0
        for first, last in ranges.flat(runs, self._book.stem):
            count += last - first + 1
            for number in range(first, last + 1):
                key, *member = msgspec.json.decode(self._serde.open(bytes(self._book.text(number)[1])))
                key = key if type(key) is str else types.untag_text(key)
                trees[key] = member[0] if member else None
        members = {k: self._adopt(trees[k], v) for k, v in value.items()}
        parts, copies = ({k: m[i] for k, m in members.items()} for i in (0, 1))
        part = DictPart(dict(value), parts, copies, large=True)
        part.count, part.ranges, part.session = count, runs, self._book.token
        return part, part.copies


def copy_of(value: Any) -> Any:
    """The copy of a value that was read, as freezing it would give; `NEVER` if any of it cannot be compared."""
    try:
        return _copy(value)
    except _NeverEqualError:
        return NEVER


class _NeverEqualError(Exception):
    """Something in a value cannot be compared."""


def _copy(value: Any) -> Any:
    kind = type(value)
    if kind is str or value is None:
        return value
    if kind in EMPTY:
        if not value:
            return EMPTY[kind]
        return {k: _copy(v) for k, v in value.items()} if kind is dict else [_copy(v) for v in value]
    if kind in messages.KNOWN:
        fields = {k: v if type(v) is str or v is None else _copy(v) for k, v in value.__dict__.items()}
        return kind, fields, _copy(value.__pydantic_extra__)
    if kind in _SCALARS:
        return copy_of_number(value)
    if kind in types.FIXED:
        return Is(value)
    raise _NeverEqualError


def refrozen(item: Item) -> Any:
    """What to write for an item that was read from a log which has since been replaced by another generation."""
    part = Freezer(Known(), _unknown).freeze(_live(item.copy))[0]
    return part.tree if type(part) is Item else part


def _live(copy: Any) -> Any:
    if type(copy) is Is:
        return copy.leaf
    if type(copy) is dict:
        return {k: _live(c) for k, c in copy.items()}
    if isinstance(copy, list):
        return [_live(c) for c in copy]
    if type(copy) is tuple:
        cls, fields, extra = copy
        return messages.build(cls.__name__, {**_live(fields), **(_live(extra) or {})})
    return copy


def _unknown(value: Any) -> Any:
    raise TypeError(f"{type(value)} is not compared, so it is not kept")
