"""Live channel values → parts: what is to be written, compared with what was written before.

LangGraph saves in background threads while the graph goes on. So a value is frozen before the call returns control to
anyone who could change it, and each container is copied before it is looked at, as another thread may change it now.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage

from langgraph_jsonl_checkpoint.values import bulk, messages, types
from langgraph_jsonl_checkpoint.values.copies import (
    EMPTY,
    NEVER,
    TEXT,
    Is,
    Scalars,
    Shaped,
    copy_of_number,
    is_unchanged,
    is_written_so,
)
from langgraph_jsonl_checkpoint.values.parts import (
    LARGE,
    REFERENCE,
    DictPart,
    Frozen,
    Item,
    ListPart,
    View,
    extra_of,
    is_plain,
    size_of,
    state_of,
    view_of,
)
from langgraph_jsonl_checkpoint.values.stretches import stretches_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langgraph_jsonl_checkpoint.values.known import Known

LARGE_FIELD = 1024  # as LARGE, for a record's own fields, which should stay readable where they are
_FOUND = types.HOLDERS | {list}  # types of a list's elements that are looked up by their identity
_WORTH_FINDING = 48  # bytes from which an element of a list gets a number of its own, which equal elements share


class _MemoryFoundError(Exception):
    """A list holds the session memory, which the saver put there and which is no part of the state."""


class Freezer:
    """Freezes values for one session, in one thread.

    Args:
        known: The session's items by identity.
        serde: Tree for a value that the codec does not know, as the saver's serde stores it.
    """

    def __init__(self, known: Known, serde: Callable[[Any], Any]) -> None:
        self._known = known
        self._serde = serde
        self._nevers = 0  # how many were given out; if none was for an item, its copy is of the whole value

    def _never(self) -> Any:
        self._nevers += 1
        return NEVER

    def _copy_of(self, part: ListPart) -> Any:
        return self._never() if part.messages else part.copy

    def freeze(self, value: Any, before: Any = None) -> Frozen:
        """A live value, frozen; `before` is the part that was written for the same place before."""
        kind = type(value)
        if kind is str:
            return self._text(value)
        if value is None:
            return None, None, 4
        if kind is bool:
            return value, copy_of_number(value), 5
        if kind is int or kind is float:
            return bulk.part_of_scalar(value), copy_of_number(value), 16
        if kind is dict:
            return self._dict(value, before, LARGE)
        if kind is list:
            return self._list(value, before)
        if kind in messages.KNOWN or isinstance(value, BaseMessage):
            if messages.is_lent(value):
                return [], [], 2  # as a write to a list of messages: nothing
            return self._message(value)
        return self._tagged(value, before)

    def fields(self, value: Mapping[str, Any], before: Any) -> Any:
        """The part of a record's fields. A name is a plain string, whatever subclass of it a graph was built with."""
        value = dict(value)
        if (small := bulk.small_dict(value, LARGE_FIELD)) is not None:
            return small[0]
        if not TEXT.issuperset(map(type, value)):
            value = {str.__str__(k) if isinstance(k, str) else k: field for k, field in value.items()}
        return self._dict(value, before, LARGE_FIELD)[0]

    def _text(self, value: str) -> Frozen:
        size = len(value) + 2
        if size < LARGE:
            return value, value, size
        item = self._known.find(value)
        if item is None:
            item = Item("value", value, value, value)
            self._known.add(item, size)
        return item, value, REFERENCE

    def _message(self, value: BaseMessage) -> Frozen:
        known = type(value) in messages.KNOWN
        item = self._known.find(value) if known else None
        if item is None:
            item, size = self._new_message(value) if known else (None, 0)
            if item is None:
                item = Item("message", self._serde(value), self._never(), value, copied=False)
            self._known.add(item, size)
        return item, item.copy, REFERENCE

    def _new_message(self, value: BaseMessage) -> tuple[Item | None, int]:
        cls, fields, extra = type(value), dict(value.__dict__), dict(value.__pydantic_extra__ or {})
        stored = messages.stored(cls, fields, extra)
        if stored is None or value.__pydantic_private__:
            return None, 0
        if (item := self._like(value, cls, fields, extra)) is not None:
            return item, 100
        tree: dict[str, Any] = {"class": cls.__name__, **dict.fromkeys(stored)}
        size, nevers = 40, self._nevers
        for source in (fields, extra):
            for name, field in source.items():
                if field is None or type(field) is str:
                    part, n = field, 4 if field is None else len(field)
                else:
                    part, source[name], n = self._plain(field)
                if name in stored:
                    tree[name] = part
                    size += n
        copies = cls, fields, None if value.__pydantic_extra__ is None else extra or EMPTY[dict]
        return Item("message", tree, copies, value, whole=True, copied=nevers == self._nevers), size

    def _like(
        self, value: BaseMessage, cls: type[BaseMessage], fields: dict[str, Any], extra: dict[str, Any]
    ) -> Item | None:
        """The item of a message that was stored and then changed in a few of its fields: only those are new.

        LangGraph gives a message its id in place, after the writes that hold it.
        """
        old = self._known.last(value)
        if old is None or not old.whole:
            return None
        old_cls, known, old_extra = old.copy
        try:
            changed = [name for name in fields if name not in known or known[name] != fields[name]]
            if old_cls != cls or (old_extra or {}) != extra or fields.keys() != known.keys() or "content" in changed:
                return None
        except Exception:  # noqa: BLE001 - what cannot be compared, an array say, took the place of what could
            return None
        if not changed:
            return old  # another thread froze it since: a task's writes and the next step's put may come together
        tree: dict[str, Any] = {"like": old}
        copies, nevers = dict(known), self._nevers
        for name in changed:
            tree[name], copies[name], _ = self._plain(fields[name])
        return Item("message", tree, (cls, copies, old_extra), value, copied=nevers == self._nevers)

    def _plain(self, value: Any) -> Frozen:
        """`freeze` for what stays inside its message, whatever its size, unless it holds messages itself."""
        kind = type(value)
        if kind is str:
            return value, value, len(value) + 2
        if kind is list or kind is dict:
            if not value:
                return kind(), EMPTY[kind], 2
            if kind is list:
                rows = [self._plain(v) for v in value[:]]
                return [r[0] for r in rows], [r[1] for r in rows], sum(r[2] for r in rows) + len(rows)
            value = dict(value)
            if (small := bulk.small_dict(value, LARGE_FIELD)) is not None:
                return *small, len(small[0])
            if set(map(type, value)) == TEXT and not bulk.looks_like_a_tag(value):
                items = {k: self._plain(v) for k, v in value.items()}
                size = sum(r[2] + len(k) + 4 for k, r in items.items())
                return {k: r[0] for k, r in items.items()}, {k: r[1] for k, r in items.items()}, size
        return self.freeze(value)

    def _dict(self, value: dict[Any, Any], before: Any, large: int) -> Frozen:
        live, value = value, dict(value)
        if not value:
            return {}, {}, 2
        if set(map(type, value)) != TEXT or bulk.looks_like_a_tag(value):
            return self._tagged(value, before)
        if (small := bulk.small_dict(value, large)) is not None:
            text, copy = small
            return before if text == before else text, copy, len(text)
        # The best to compare with is what was written for this very dict, in whatever place; unless its keys changed.
        found = self._known.find_container(live)
        if type(found) is not DictPart or found.parts.keys() != value.keys():
            found = before
        old = found if type(found) is DictPart else None
        old_parts, old_copies, old_objects = (old.parts, old.copies, old.objects) if old else ({}, {}, {})
        parts: dict[str, Any] = {}
        copies: dict[str, Any] = {}
        size, plain, same = 2, True, 0
        for key, member in value.items():
            seen = old_parts.get(key, NEVER)
            if seen is not NEVER and old_objects[key] is member and is_unchanged(old_copies[key], member):
                part, copy, n = seen, old_copies[key], size_of(seen)
            else:
                part, copy, n = self.freeze(member, seen)
            parts[key], copies[key] = part, copy
            same += part is seen and (copy is not NEVER or type(part) is ListPart)
            plain = plain and is_plain(part)
            size += n + len(key) + 4
        if old is not None and same == len(parts) == len(old_parts) and list(parts) == list(old_parts):
            return old, old.copies, size_of(old)
        if size < large and plain:
            return parts, copies, size
        made = DictPart(value, parts, copies, large=size >= large)
        if made.large:
            made.before = old if old is not None and old.large else None
            self._known.add_container(live, made)
        return made, copies, size_of(made) if made.large else size

    def _list(self, value: list[Any], before: Any) -> Frozen:
        value = value[:]
        try:
            return self._list_of(value, before)
        except _MemoryFoundError:
            return self._list_of([v for v in value if not messages.is_lent(v)], before)

    def _list_of(self, value: list[Any], before: Any) -> Frozen:
        if value and type(value[0]) is messages.MemoryMessage:
            del value[0]  # the saver put it there: restored messages begin with it
        if not value:
            return [], [], 2
        if len(value) >= LARGE // 4 and (scalars := bulk.scalars(value)) is not None:
            return scalars if type(before) is not ListPart else bulk.extended(value, before, scalars)
        old = before if type(before) is ListPart else self._known.find_container(value[0])
        if type(old) is not ListPart or type(old.states) is Scalars or 2 * len(value) < old.length:
            # There is nothing to compare with, or so little is left that its elements are found one by one.
            return self._new_list(value, None, [(-1, len(value))])
        stretches = stretches_of(old, view_of(value))
        if not stretches or stretches[0] != (0, old.length):
            return self._new_list(value, old, stretches)
        if len(value) == old.length:
            return old, self._copy_of(old), REFERENCE
        rows = [self._element(element) for element in value[old.length :]]
        made = old.grown(value, [row[0] for row in rows], [row[1] for row in rows])
        self._known.add_container(value[0], made)
        return made, self._copy_of(made), REFERENCE

    def _new_list(self, value: list[Any], old: ListPart | None, stretches: list[tuple[int, int]]) -> Frozen:
        parts: list[Any] = []
        states: list[Any] = []
        extras: list[Any] = []
        size, plain = 2, True
        for begin, length in stretches:
            if begin >= 0 and old is not None:
                parts += old.parts[begin : begin + length]
                states += old.states[begin : begin + length]
                extras += old.extras[begin : begin + length]
                size += LARGE  # what was numbered stays numbered
                continue
            for element in value[len(parts) : len(parts) + length]:
                part, copy, n = self._twin(old, len(parts), element) or self._element(element)
                parts.append(part)
                states.append(state_of(copy))
                extras.append(extra_of(copy))
                plain = plain and is_plain(part)
                size += n + 1
        if size < LARGE and plain:
            return parts, states, size
        made = ListPart(parts, View(value, states, extras))
        made.before, made.stretches = old, stretches
        self._known.add_container(value[0], made)
        return made, self._copy_of(made), REFERENCE

    def _twin(self, old: ListPart | None, at: int, element: Any) -> Frozen | None:
        """The item that was written at an element's place, for the element, if it would be written the same.

        A new run has objects of its own for the state that it restored, so their identity tells nothing.
        """
        item = old.parts[at] if old is not None and at < old.length else None
        if type(item) is not Item or item.object is element:
            return None
        if item.tree is not None or not is_written_so(item.copy, element):
            return None  # its commit is not on the disk: if that fails, another value may get the number
        item = item.of(element)
        self._known.add(item, REFERENCE)
        return item, item.copy, REFERENCE

    def _element(self, element: Any) -> Frozen:
        """An element of a list, as an item with a number of its own if it is worth finding again."""
        if messages.is_lent(element):
            raise _MemoryFoundError
        if type(element) in _FOUND:
            item = self._known.find(element)
            if item is not None:
                return item, item.copy, REFERENCE
        nevers = self._nevers
        part, copy, size = self.freeze(element)
        if type(part) is Item or size < _WORTH_FINDING and is_plain(part):
            return part, copy, size
        item = Item("value", part, copy, element, copied=nevers == self._nevers)
        self._known.add(item, size)
        return item, copy, REFERENCE

    def _tagged(self, value: Any, before: Any) -> Frozen:
        tagged = types.tagged(value)
        if tagged is None:
            tree = self._serde(value)
            size = len(tree["$serde"][1]) + 30 if type(tree) is dict else size_of(tree)
            large = size >= LARGE
            return Item("value", tree, NEVER, value, copied=False) if large else tree, self._never(), min(size, LARGE)
        tag, payload = tagged
        old = before.get(tag, NEVER) if type(before) is dict and len(before) == 1 else NEVER
        part, copy, size = self._payload(payload, old)
        tree = before if part is old else {tag: part}
        size += len(tag) + 5
        copy = Is(value) if type(value) in types.FIXED else Shaped(type(value), tag, copy)
        if size >= LARGE:
            return Item("value", tree, NEVER, None, copied=False), copy, REFERENCE
        return tree, copy, size

    def _payload(self, payload: Any, before: Any) -> Frozen:
        if type(payload) is str:
            return payload, payload, len(payload)
        if type(payload) is not types.Fields:
            return self.freeze(payload, before)
        olds = before if type(before) is list and len(before) == len(payload) else [NEVER] * len(payload)
        rows = [self.freeze(field, old) for field, old in zip(payload, olds, strict=True)]
        parts = [row[0] for row in rows]
        parts = olds if all(map(is_, parts, olds)) else parts
        return parts, [row[1] for row in rows], sum(row[2] + 1 for row in rows)
