"""What a frozen value is made of, and what it is compared with.

A frozen value is a *part*, which shares the leaves (strings, numbers) of the live value and none of its containers:

- a scalar, a plain JSON tree, or the text of one, for what is small;
- an `Item` for a message or a large value, which will be written once and has a number from then on;
- a `ListPart` or `DictPart` for a container of such, which knows what it has in common with the part that was written
  for the same place before.

Beside each part stands a *copy* (copies.py), which a live value is compared with.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Raw

from langgraph_jsonl_checkpoint.values import messages
from langgraph_jsonl_checkpoint.values.copies import NEVER

LARGE = 256  # bytes of JSON text from which a value is written once and referred to
REFERENCE = 14  # bytes of a reference's text, about

Frozen = tuple[Any, Any, int]
"""A frozen value: its part, its copy, and the size of the part's text in bytes, about."""


class Item:
    """A message or a large value: written once, then a number.

    Attributes:
        object: The live object that it was made of, or that was read from it. Held, so that no other gets its id.
        kind: "message" or "value": the record type.
        tree: The part that is written. None once it is written, or if it was read from the log: `copy` is enough.
        whole: Whether it is a message that was written with all its fields, so that another can be like it.
        copy: The value to compare with.
        copied: Whether the copy is of the whole value: nothing in it is `NEVER`.
        number: Its number in the session, once it is written; None before.
        session: The token of the session generation that the number belongs to.
    """

    __slots__ = ("copied", "copy", "kind", "number", "object", "session", "tree", "whole")

    def __init__(
        self, kind: str, tree: Any, copy: Any, value: Any, *, whole: bool = False, copied: bool = True
    ) -> None:
        self.object = value
        self.kind = kind
        self.tree = tree
        self.copy = copy
        self.whole = whole
        self.copied = copied
        self.number: int | None = None
        self.session: object = None

    def of(self, value: Any) -> Item:
        """The item of another object that was read as what this one was written as."""
        made = Item(self.kind, self.tree, self.copy, value, whole=self.whole, copied=self.copied)
        made.number, made.session = self.number, self.session
        return made


class View(NamedTuple):
    """A live list as lists that compare in C: its elements, what they are or hold, and messages' extra fields."""

    objects: list[Any]
    states: list[Any]
    extras: list[Any]


class ListPart:
    """A list whose elements are numbered, and where its elements stand in the list before.

    A list that grows shares its columns with the one before, which sees no more of them than its length: comparing a
    long list must not copy it as well.

    Attributes:
        length: How many elements it has; the columns may go on.
        parts: The elements' parts.
        objects: The elements.
        states: The elements' copies, of messages those of their fields.
        extras: Of messages the copies of their extra fields.
        messages: Whether there are messages among the elements.
        before: The part written for this place before, until this one is written.
        stretches: What it is made of: (begin in `before`, length) of elements that were there, (-1, length) of new
            ones.
        ranges: The numbers, once written: [first, last], both included, or a number whose list is spliced in.
        session: As in `Item`.
    """

    __slots__ = (
        *("_may_grow", "before", "extras", "length", "messages", "objects", "parts", "ranges"),
        *("session", "states", "stretches"),
    )

    def __init__(self, parts: list[Any], view: View) -> None:
        self.parts = parts
        self.objects, self.states, self.extras = view
        self.length = len(parts)
        self.messages = not messages.KNOWN.isdisjoint(map(type, view.objects))
        self.before: ListPart | None = None
        self.stretches: list[tuple[int, int]] = [(-1, len(parts))] if parts else []
        self.ranges: list[Any] | None = None
        self.session: object = None
        self._may_grow = [True]

    @property
    def copy(self) -> Any:
        """The list's copy, for the container that it stands in. A list of messages has none: see `view_of`."""
        return NEVER if self.messages else self._states()

    def _states(self) -> list[Any]:
        return type(self.states)(self.states[: self.length])  # a slice of Scalars is a list, to which 1 is True

    def grown(self, value: list[Any], parts: list[Any], copies: list[Any]) -> ListPart:
        """The part of a list that begins with all of this one and goes on with other elements."""
        made = ListPart.__new__(ListPart)
        columns = self.parts, self.objects, self.states, self.extras
        try:
            self._may_grow.pop()  # once: the columns go on in one way only
        except IndexError:
            columns = tuple(column[: self.length] for column in columns)  # type: ignore[assignment]
        made.parts, made.objects, made.states, made.extras = columns
        made.parts += parts
        made.objects += value[self.length :]
        made.states += [state_of(copy) for copy in copies]
        made.extras += [extra_of(copy) for copy in copies]
        made.length = len(value)
        made.messages = self.messages or any(type(copy) is tuple for copy in copies)
        made.before, made.stretches = self, [(0, self.length), (-1, len(parts))]
        made.ranges, made.session = None, None
        made._may_grow = [True]  # noqa: SLF001 - one of its own class
        return made

    def rebound(self, value: list[Any]) -> ListPart:
        """The part of another list that was read as what this one was written as."""
        n = self.length
        parts = [p.of(v) if type(p) is Item else p for p, v in zip(self.parts[:n], value, strict=True)]
        made = ListPart(parts, View(value, self._states(), self.extras[:n]))
        made.stretches, made.ranges, made.session = [], self.ranges, self.session
        return made


def state_of(copy: Any) -> Any:
    """The side of an element's copy that stands among its list's states."""
    return copy[1] if type(copy) is tuple else copy


def extra_of(copy: Any) -> Any:
    """The side of an element's copy that stands among its list's extras."""
    return copy[2] if type(copy) is tuple else None


class DictPart:
    """A dict whose values are parts.

    Attributes:
        objects: The values.
        parts: The values' parts.
        copies: The values' copies.
        large: Whether it is written as numbered entries; if not, where it stands.
        count: How many entries its ranges hold, outdated ones among them.
        before: The part written for this place before, until this one is written.
        ranges: The entries' numbers, once written.
        session: As in `Item`.
    """

    __slots__ = ("before", "copies", "count", "large", "objects", "parts", "ranges", "session")

    def __init__(
        self, objects: dict[str, Any], parts: dict[str, Any], copies: dict[str, Any], *, large: bool
    ) -> None:
        self.objects = objects
        self.parts = parts
        self.copies = copies
        self.large = large
        self.count = 0
        self.before: DictPart | None = None
        self.ranges: list[Any] | None = None
        self.session: object = None


def release(part: Any) -> None:
    """Let go of the live objects that a part was made of: the run that had them is over.

    The copies stay: the next run reads the same values, as other objects.
    """
    if type(part) is Item:
        part.object = None
    elif type(part) is ListPart:
        part.objects = [NEVER] * part.length
        for each in part.parts[: part.length]:
            release(each)
    elif type(part) is DictPart:
        part.objects = dict.fromkeys(part.objects, NEVER)
        for each in part.parts.values():
            release(each)
    elif type(part) is dict:
        release([*part.values()])
    elif type(part) is list:
        for each in part:
            release(each)


def view_of(value: list[Any]) -> View:
    """A live list as its part's columns are compared with it."""
    known = messages.KNOWN
    kinds = list(map(type, value))
    if known.issuperset(kinds):
        return View(value, [v.__dict__ for v in value], [v.__pydantic_extra__ for v in value])
    if known.isdisjoint(kinds):
        return View(value, value, [None] * len(value))
    states = [v.__dict__ if k in known else v for k, v in zip(kinds, value, strict=True)]
    return View(
        value, states, [v.__pydantic_extra__ if k in known else None for k, v in zip(kinds, value, strict=True)]
    )


def is_plain(part: Any) -> bool:
    """Whether a part is a scalar or a plain JSON tree."""
    if type(part) is dict and len(part) == 1:
        [(tag, payload)] = part.items()
        if tag.startswith("$"):
            return all(map(is_plain, payload)) if type(payload) is list else is_plain(payload)
    return type(part) not in (Item, ListPart, DictPart)


def size_of(part: Any) -> int:
    """A stored part's text, about."""
    kind = type(part)
    if kind is str:
        return len(part) + 2
    if kind is Raw:
        return len(part)
    if kind is DictPart:
        return REFERENCE if part.large else 2 + sum(size_of(p) + len(k) + 4 for k, p in part.parts.items())
    if kind is dict:
        return 2 + sum(size_of(p) + len(k) + 4 for k, p in part.items())
    if kind is list:
        return 2 + sum(size_of(p) + 1 for p in part)
    return REFERENCE
