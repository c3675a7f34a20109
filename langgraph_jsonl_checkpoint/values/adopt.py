"""Values that were read from a log → the parts that they were written from.

So that a run that goes on from a restored state writes what is new, and not the state again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph_jsonl_checkpoint.errors import SessionError
from langgraph_jsonl_checkpoint.values import messages, ranges, types
from langgraph_jsonl_checkpoint.values.bulk import part_of_scalar
from langgraph_jsonl_checkpoint.values.copies import (
    EMPTY,
    LEAVES,
    NEVER,
    SCALARS,
    TEXT,
    Is,
    Scalars,
    Shaped,
    copy_of_number,
    payload_of,
)
from langgraph_jsonl_checkpoint.values.freeze import Freezer
from langgraph_jsonl_checkpoint.values.known import Known
from langgraph_jsonl_checkpoint.values.parts import DictPart, Item, ListPart, View, extra_of, is_plain, state_of
from langgraph_jsonl_checkpoint.values.shadows import NOTHING, Shadow

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

    from langgraph_jsonl_checkpoint.log import records
    from langgraph_jsonl_checkpoint.values.thaw import Thawer

_SIZE = 1024  # bytes of a message's text, about
_OPAQUE = "$serde", "$numpy"  # what they stand for is frozen anew


class Handed:
    """A checkpoint that was handed out, until a run puts its state again.

    Then its text is read once more, to compare the state with: whoever got the values may have changed them.

    Args:
        record: The checkpoint.
        values: What was made of it; the containers may become other ones.
        thaw: Reads its session.
    """

    def __init__(self, record: records.Checkpoint, values: Mapping[str, Any], thaw: Thawer) -> None:
        self._texts = record.channels, record.versions, record.seen
        self._values = [dict(values[k]) for k in ("channel_values", "channel_versions", "versions_seen")]
        self._thaw = thaw

    def adopted(self, before: Shadow, known: Known) -> Shadow:
        """The parts that the checkpoint was written from; `before` is what its session wrote last."""
        adopter = _Adopter(self._thaw, known)
        rows = zip(self._texts, self._values, before, strict=True)
        try:
            return Shadow(*(adopter.part(text, live, old) for text, live, old in rows))
        except (SessionError, RecursionError):
            return NOTHING  # what cannot be read is written anew; the next reader gets the error


class _Adopter:
    """Finds the parts of values that one session's texts stand for."""

    def __init__(self, thaw: Thawer, known: Known) -> None:
        self._thaw = thaw
        self._book = thaw.book
        self._known = known

    def part(self, text: bytes | msgspec.Raw, live: Any, before: Any) -> Any:
        """The part of a live value that was read from `text`; `before` is one of the same place."""
        return self._adopt(self._thaw.tree(text), live, before)[0]

    def _adopt(self, tree: Any, live: Any, before: Any = None) -> tuple[Any, Any]:
        if type(tree) is list:
            return self._plain_list(tree, live)
        if type(tree) is not dict:
            return tree, copy_of(tree)
        if len(tree) == 1:
            tag, payload = next(iter(tree.items()))
            if tag == "$ref":
                return self._item(payload, live)
            if tag == "$list":
                return self._list(tree, live, before)
            if tag == "$map":
                return self._map(tree, live, before)
            if tag.startswith("$"):
                return self._tagged(tree, live, before)
        return self._dict(tree, live, before)

    def _plain_list(self, trees: list[Any], live: Any, before: Any = None) -> tuple[Any, Any]:
        if LEAVES.issuperset(map(type, trees)):
            return trees, [copy_of(leaf) for leaf in trees]
        lives, olds = (v if type(v) is list and len(v) == len(trees) else [None] * len(trees) for v in (live, before))
        rows = [self._adopt(*row) for row in zip(trees, lives, olds, strict=True)]
        return [part for part, _ in rows], [copy for _, copy in rows]

    def _tagged(self, tree: dict[str, Any], live: Any, before: Any) -> tuple[Any, Any]:
        [(tag, payload)] = tree.items()
        if tag in _OPAQUE:
            return tree, NEVER
        value = self._thaw.built(tree)
        if type(value) not in types.HOLDERS:
            return tree, copy_of(value)
        old = before.get(tag) if type(before) is dict else None
        inner = payload_of(live) if type(live) is type(value) else None
        if type(payload) is list:
            part, copy = self._plain_list(payload, inner, old)
        else:
            part, copy = self._adopt(payload, inner, old)
        return {tag: part}, Shaped(type(value), tag, copy)

    def _dict(self, trees: dict[str, Any], live: Any, before: Any) -> tuple[Any, Any]:
        part = self._members(trees, live, before, large=False)
        return trees if all(map(is_plain, part.parts.values())) else part, part.copies

    def _item(self, number: int, live: Any) -> tuple[Any, Any]:
        item = self._new_item(self._book.text(number)[0], copy_of(self._thaw.number(number)), live, number)
        return item, item.copy

    def _new_item(self, kind: str, copy: Any, live: Any, number: int) -> Item:
        item = Item(kind, None, copy, live)
        item.number, item.session = number, self._book.token
        self._known.add(item, _SIZE)
        return item

    def _list(self, tree: dict[str, Any], live: Any, before: Any) -> tuple[Any, Any]:
        held: list[ranges.Range] = tree["$list"]
        same = type(before) is ListPart and before.session is self._book.token and before.ranges == held
        if same and type(live) is list and len(live) == before.length:
            part = before.rebound(live[:])
            for item in part.parts:
                if type(item) is Item:
                    self._known.add(item, _SIZE)
            return self._kept(part)
        value = self._thaw.built(tree)
        lives = live[:] if type(live) is list and len(live) == len(value) else value
        if set(map(type, value)) <= SCALARS:
            part = ListPart([part_of_scalar(v) for v in value], View(lives, Scalars(value), []))
        else:
            numbers = [n for first, last in ranges.flat(held, self._book.stem) for n in range(first, last + 1)]
            parts: list[Any] = []
            copies = [copy_of(v) for v in value]
            for number, each, copy, own in zip(numbers, value, copies, lives, strict=True):
                if type(each) is str or type(each) in SCALARS:
                    parts.append(part_of_scalar(each))
                    continue
                parts.append(self._new_item("message" if type(copy) is tuple else "value", copy, own, number))
            part = ListPart(parts, View(lives, [state_of(c) for c in copies], [extra_of(c) for c in copies]))
        part.stretches, part.ranges, part.session = [], held, self._book.token
        return self._kept(part)

    def _kept(self, part: ListPart) -> tuple[Any, Any]:
        if part.length:
            self._known.add_container(part.objects[0], part)
        return part, part.copy

    def _map(self, tree: dict[str, Any], live: Any, before: Any) -> tuple[Any, Any]:
        held: list[ranges.Range] = tree["$map"]
        part = self._members(self._thaw.entries(held), live, before, large=True)
        part.count = sum(last - first + 1 for first, last in ranges.flat(held, self._book.stem))
        part.ranges, part.session = held, self._book.token
        return part, part.copies

    def _members(self, trees: dict[str, Any], live: Any, before: Any, *, large: bool) -> DictPart:
        """The part of a dict, made of its members."""
        olds = before.parts if type(before) is DictPart else {}
        lives = live if type(live) is dict else {}
        members = {k: self._adopt(t, lives.get(k), olds.get(k)) for k, t in trees.items()}
        parts, copies = ({k: m[i] for k, m in members.items()} for i in (0, 1))
        return DictPart({k: lives.get(k) for k in trees}, parts, copies, large=large)


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
        if kind is list:
            return [_copy(v) for v in value]
        if {*map(type, value)} == TEXT:
            return {k: _copy(v) for k, v in value.items()}
    if kind in messages.KNOWN:
        fields = {k: v if type(v) is str or v is None else _copy(v) for k, v in value.__dict__.items()}
        return kind, fields, _copy(value.__pydantic_extra__)
    if kind in SCALARS:
        return copy_of_number(value)
    if kind in types.FIXED:
        return Is(value)
    if kind in types.HOLDERS and (tagged := types.tagged(value)) is not None:
        return Shaped(kind, tagged[0], _copy(payload_of(value)))
    raise _NeverEqualError


def refrozen(item: Item) -> Any:
    """What to write for an item that was read from a log which has since been replaced by another generation."""
    part = Freezer(Known(), _unknown).freeze(_live(item.copy))[0]
    return part.tree if type(part) is Item else part


def _live(copy: Any) -> Any:
    if type(copy) is Is:
        return copy.leaf
    if type(copy) is Shaped:
        return types.UNTAG[copy.tag](_live(copy.payload))
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
