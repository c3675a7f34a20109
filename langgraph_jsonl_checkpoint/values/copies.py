"""Copies of what was written: live values are compared with them.

A *copy* has such a shape that `copy == look(value)` tells, mostly in C and by comparing pointers, whether an object
that was written still is what it was. Another object is compared leaf by leaf with the copy of what stood at its
place (`is_written_so`), or it is frozen and its text is compared. So only a change in place can hide behind equality.
That is why 0 and 1 compare with their type (`1 == True` must not pass), a container that JSON does not have compares
with its own, and what cannot be compared equals nothing. docs/decisions.md lists the changes that still go unseen.
"""

from __future__ import annotations

from array import array
from operator import attrgetter, is_
from typing import Any

from langgraph_jsonl_checkpoint.values import messages, types

EMPTY: dict[type, Any] = {list: [], dict: {}}
"""The copies of empty containers: there are many, and none is ever changed, so they are shared."""

TEXT = frozenset({str})
SCALARS = frozenset({int, float, bool, type(None)})
LEAVES = SCALARS | TEXT
"""The types of what JSON has that is no container."""

_state = attrgetter("__class__", "__dict__", "__pydantic_extra__")


class Is:
    """The copy of a leaf: equal to that very object, or to one of the same type that is written the same."""

    __slots__ = ("leaf",)

    def __init__(self, leaf: object) -> None:
        self.leaf = leaf

    def __eq__(self, other: object) -> bool:
        leaf = self.leaf
        if other is leaf:
            return True
        kind = type(leaf)
        if kind is not type(other):
            return False
        if kind in SCALARS:
            return other == leaf and (kind is not float or repr(other) == repr(leaf))  # -0.0 == 0.0
        return kind in types.FIXED and is_written_so(payload_of(leaf), payload_of(other))

    __hash__ = None  # type: ignore[assignment]


def copy_of_number(value: float) -> Any:
    """A number's copy: itself, which C compares, unless a bool may equal it."""
    return Is(value) if value in (0, 1) else value


class _Never:
    """The copy of what may change without a trace: it is frozen anew each time."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


NEVER = _Never()


class Shaped:
    """The copy of a container that JSON does not have: equal to one of the same type with the same payload.

    Args:
        kind: The container's type.
        tag: Its tag.
        payload: The copy of what stands behind the tag.
    """

    __slots__ = ("_kind", "payload", "tag")

    def __init__(self, kind: type, tag: str, payload: Any) -> None:
        self._kind = kind
        self.tag = tag
        self.payload = payload

    def __eq__(self, other: object) -> bool:
        return type(other) is self._kind and bool(self.payload == payload_of(other))

    __hash__ = None  # type: ignore[assignment]

    def is_written_so(self, value: Any) -> bool:
        """Whether a container would be written as the one that this is a copy of."""
        return type(value) is self._kind and is_written_so(self.payload, payload_of(value))


def payload_of(value: Any) -> Any:
    """What stands behind a value's tag; `NEVER` if it has none."""
    tagged = types.tagged(value)
    if tagged is None:
        return NEVER
    payload = tagged[1]
    return list(payload) if type(payload) is types.Fields else payload


class Scalars(list[Any]):
    """The copy of a long list of scalars: `Is` for all of them at once."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not list or len(self) != len(other):
            return False
        if all(map(is_, self, other)):
            return True
        if list(map(type, self)) != list(map(type, other)) or not list.__eq__(self, other):
            return False
        return array("d", filter(_is_float, self)).tobytes() == array("d", filter(_is_float, other)).tobytes()

    def __ne__(self, other: object) -> bool:
        return not self == other  # list has one of its own, to which 1 is True

    __hash__ = None


def look(value: Any) -> Any:
    """The side of a live value that its copy is compared with."""
    return _state(value) if type(value) in messages.KNOWN else value


def is_unchanged(copy: Any, value: Any) -> bool:
    """Whether an object still is what its copy was made of, down to the order of a dict's keys."""
    try:
        same: bool = copy == look(value)
    except Exception:  # noqa: BLE001 - what cannot be compared, an array say, took the place of what could
        return False
    return same and (type(copy) is not dict or list(copy) == list(value))


def is_written_so(copy: Any, value: Any) -> bool:
    """Whether a value would be written as what a copy was made of: equal leaves of one type, keys in one order."""
    kind = type(value)
    if kind is str or value is None:
        return bool(copy == value)
    if type(copy) is Shaped:
        return copy.is_written_so(value)
    if kind in EMPTY:
        if type(copy) is not kind or len(copy) != len(value):
            return False
        if kind is list:
            return all(map(is_written_so, copy, value))
        return not value or (
            {*map(type, value)} == TEXT
            and [*copy] == [*value]
            and all(map(is_written_so, copy.values(), value.values()))
        )
    if kind in SCALARS or kind in types.FIXED:
        return bool((copy if type(copy) is Is else Is(copy)) == value)
    return kind in messages.KNOWN and type(copy) is tuple and _is_message_written_so(copy, value)


def _is_message_written_so(copy: tuple[Any, dict[str, Any], dict[str, Any] | None], message: Any) -> bool:
    cls, fields, extra = copy
    now, more = dict(message.__dict__), dict(message.__pydantic_extra__ or {})  # one look
    if cls is not type(message) or fields.keys() != now.keys() or message.__pydantic_private__:
        return False
    for name, field in now.items():
        known = fields[name]
        if known is not field and not is_written_so(known, field):
            return False
    return is_written_so(extra or {}, more)


def _is_float(value: Any) -> bool:
    return type(value) is float
