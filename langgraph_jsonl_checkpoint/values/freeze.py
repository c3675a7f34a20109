"""Live channel values → parts: what is to be written, taken in one look, and compared with what was written before.

LangGraph saves in background threads while the graph goes on, so a value is frozen before the call returns control
to anyone who could change it. A frozen value is a *part*, which shares the leaves (strings, numbers) of the live
value and none of its containers:

- a scalar, or a plain JSON tree, for what is small;
- an `Item` for a message or a large value, which will be written once and has a number from then on;
- a `ListPart` or `DictPart` for a container of such, which knows what it has in common with the part that was written
  for the same place before.

Beside each part stands a *copy*: the value again, in the shape that lets `copy == look(value)` tell, mostly in C and by
comparing pointers, whether a live value still is what was written. Numbers compare with their type (`1 == True` must
not pass), and what cannot be compared never equals.
"""

from __future__ import annotations

from array import array
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import BaseMessage

from langgraph_jsonl_checkpoint.values import messages, types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LARGE = 256  # bytes of JSON text from which a value is written once and referred to
LARGE_FIELD = 1024  # the same for a record's own fields, which should stay readable where they are
_WORTH_FINDING = 48  # bytes from which an element of a list gets a number that its equals can share
_REFERENCE = 14  # bytes of a reference's text, about
_INT64 = 1 << 63
_NUMBERS = frozenset({int, float, bool})
_CONTAINERS = 64  # numbered containers that are remembered
_STRAY = 8  # elements of a changed list that are looked for elsewhere in the list before

_state = attrgetter("__class__", "__dict__", "__pydantic_extra__")


class Is:
    """A leaf's place in a copy: equal to that object, or to a number of the same type and value."""

    __slots__ = ("leaf",)

    def __init__(self, leaf: object) -> None:
        self.leaf = leaf

    def __eq__(self, other: object) -> bool:
        leaf = self.leaf
        if other is leaf:
            return True
        kind = type(leaf)
        if kind is not type(other) or kind not in _NUMBERS or other != leaf:
            return False
        return kind is not float or repr(other) == repr(leaf)  # -0.0 == 0.0

    __hash__ = None  # type: ignore[assignment]


class _Never:
    """The copy of what may change without a trace: it is frozen anew each time."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


NEVER = _Never()


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

    __hash__ = None  # type: ignore[assignment]


class Item:
    """A message or a large value: written once, then a number.

    Attributes:
        kind: "message" or "value": the record type.
        tree: What is written: a part. None if the item was read from the log; `copy` tells it then.
        copy: The value to compare with.
        number: Its number in the session, once it is written; None before.
        session: The token of the session generation that the number belongs to.
    """

    __slots__ = ("copy", "kind", "number", "session", "tree")

    def __init__(self, kind: str, tree: Any, copy: Any) -> None:
        self.kind = kind
        self.tree = tree
        self.copy = copy
        self.number: int | None = None
        self.session: object = None


class View(NamedTuple):
    """A list's elements as lists that compare in C: their types, what they are or hold, and messages' extra fields."""

    kinds: list[type]
    states: list[Any]
    extras: list[Any]


class ListPart:
    """A list whose elements are numbered, and where its elements stand in the list before.

    Attributes:
        parts: The elements' parts.
        view: What to compare with.
        before: The part written for this place before, until this one is written.
        runs: For each run of elements: (begin in `before`, length), or (-1, length) for new ones.
        ranges: The numbers, once written: [first, last], both included, or a number whose list is spliced in.
        session: As in `Item`.
    """

    __slots__ = ("before", "parts", "ranges", "runs", "session", "view")

    def __init__(self, parts: list[Any], view: View) -> None:
        self.parts = parts
        self.view = view
        self.before: ListPart | None = None
        self.runs: list[tuple[int, int]] = [(-1, len(parts))] if parts else []
        self.ranges: list[Any] | None = None
        self.session: object = None


    @property
    def copy(self) -> Any:
        """The list's copy, where it stands in another container; of messages a view is taken, not a copy."""
        return NEVER if any(k in messages.KNOWN for k in set(self.view.kinds)) else self.view.states


class DictPart:
    """A dict whose values are parts.

    Attributes:
        parts: The values' parts.
        copies: The values' copies.
        large: Whether it is written as numbered entries; if not, where it stands.
        count: How many entries its ranges hold, outdated ones among them.
        before: The part written for this place before, until this one is written.
        ranges: The entries' numbers, once written.
        session: As in `Item`.
    """

    __slots__ = ("before", "copies", "count", "large", "parts", "ranges", "session")

    def __init__(self, parts: dict[str, Any], copies: dict[str, Any], *, large: bool) -> None:
        self.parts = parts
        self.copies = copies
        self.large = large
        self.count = 0
        self.before: DictPart | None = None
        self.ranges: list[Any] | None = None
        self.session: object = None


class Known:
    """Items by the identity of the live object: finds a message again that put_writes stored before put.

    A match is confirmed by content, so an identity that was given to another object is no danger. Of two
    generations the older is dropped when the younger is full, which bounds what is kept alive.
    """

    def __init__(self, items: int = 4096, size: int = 32 << 20) -> None:
        self._limits = items, size
        self._young: dict[int, Item] = {}
        self._old: dict[int, Item] = {}
        self._containers: dict[int, ListPart | DictPart] = {}
        self._size = 0

    def find(self, value: Any, look: Any) -> Item | None:
        """The item that was written for this object, if the object still is what it was."""
        item = self.last(value)
        return item if item is not None and item.copy == look else None

    def last(self, value: Any) -> Item | None:
        """The item that was last written for this object, whatever the object is now."""
        return self._young.get(id(value)) or self._old.get(id(value))

    def add(self, value: Any, item: Item, size: int) -> None:
        """Remember an object's item; `size` is the text's, about."""
        if len(self._young) >= self._limits[0] or self._size >= self._limits[1]:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[id(value)] = item
        self._size += size

    def find_container(self, key: object) -> ListPart | DictPart | None:
        """The last numbered container with this key: a dict, or a list's first element.

        It is only what to compare with first: a state that is a channel's value, a write and a `Send`'s argument
        is then written once.
        """
        return self._containers.get(id(key))

    def add_container(self, key: object, part: ListPart | DictPart) -> None:
        """Remember a numbered container by its key."""
        if len(self._containers) >= _CONTAINERS:
            self._containers.clear()
        self._containers[id(key)] = part


def look(value: Any) -> Any:
    """What of a live value a copy is compared with."""
    return _state(value) if type(value) in messages.KNOWN else value


class Freezer:
    """Freezes values for one session.

    Args:
        known: The session's items by identity.
        serde: Tree for a value that the codec does not know, as the saver's serde stores it.
    """

    def __init__(self, known: Known, serde: Callable[[Any], Any]) -> None:
        self._known = known
        self._serde = serde

    def freeze(self, value: Any, before: Any = None, large: int = LARGE) -> tuple[Any, Any, int]:
        """A value's part, its copy, and the size of the part's text in bytes, about.

        Args:
            value: The live value.
            before: The part that was written for the same place before.
            large: Size from which a container is written as numbered entries.
        """
        kind = type(value)
        if kind is str:
            return self._text(value)
        if value is None:
            return None, None, 4
        if kind is bool:
            return value, Is(value), 5
        if kind is int:
            return (value if -_INT64 <= value < _INT64 else {"$int": hex(value)}), Is(value), 12
        if kind is float:
            finite = value - value == 0.0
            return (value if finite else {"$float": repr(value)}), Is(value), 18
        if kind is dict:
            return self._dict(value, before, large)
        if kind is list:
            return self._list(value, before)
        if kind in messages.KNOWN or isinstance(value, BaseMessage):
            return self._message(value)
        return self._tagged(value)

    def _text(self, value: str) -> tuple[Any, Any, int]:
        size = len(value) + 2
        if size < LARGE:
            return value, value, size
        item = self._known.find(value, value)
        if item is None:
            item = Item("value", value, value)
            self._known.add(value, item, size)
        return item, value, _REFERENCE

    def _message(self, value: BaseMessage) -> tuple[Any, Any, int]:
        known = type(value) in messages.KNOWN
        item = self._known.find(value, _state(value)) if known else None
        if item is None:
            item, size = self._new_message(value) if known else (None, 0)
            if item is None:
                item = Item("message", self._serde(value), NEVER)
            self._known.add(value, item, size)
        return item, item.copy, _REFERENCE

    def _new_message(self, value: BaseMessage) -> tuple[Item | None, int]:
        # One look: the fields are copied before anything is asked of them.
        cls, fields, extra = type(value), dict(value.__dict__), dict(value.__pydantic_extra__ or {})
        stored = messages.stored(cls, fields, extra)
        if stored is None or value.__pydantic_private__:
            return None, 0
        if (item := self._like(value, cls, fields, extra)) is not None:
            return item, 100
        tree: dict[str, Any] = {"class": cls.__name__, **dict.fromkeys(stored)}
        size = 40
        for source in (fields, extra):
            for name, field in source.items():
                part, source[name], n = self._plain(field)
                if name in stored:
                    tree[name] = part
                    size += n
        return Item("message", tree, (cls, fields, None if value.__pydantic_extra__ is None else extra)), size

    def _like(
        self, value: BaseMessage, cls: type[BaseMessage], fields: dict[str, Any], extra: dict[str, Any]
    ) -> Item | None:
        """The item of a message that was stored and then changed in a few of its fields: only those are new.

        LangGraph gives a message its id in place, after the writes that hold it.
        """
        old = self._known.last(value)
        if old is None or old.kind != "message" or old.copy is NEVER or old.tree is None or "like" in old.tree:
            return None
        known = old.copy[1]
        changed = [name for name in fields if name not in known or known[name] != fields[name]]
        if old.copy[0] != cls or (old.copy[2] or {}) != extra or fields.keys() != known.keys() or "content" in changed:
            return None
        tree: dict[str, Any] = {"like": old}
        copies = dict(known)
        for name in changed:
            tree[name], copies[name], _ = self._plain(fields[name])
        return Item("message", tree, (old.copy[0], copies, old.copy[2]))

    def _plain(self, value: Any) -> tuple[Any, Any, int]:
        """`freeze` for what stays inside its message, whatever its size, unless it holds messages itself."""
        kind = type(value)
        if kind is str:
            return value, value, len(value) + 2
        if kind is list or kind is dict:
            if not value:
                return kind(), kind(), 2
            if kind is list:
                rows = [self._plain(v) for v in value[:]]
                return [r[0] for r in rows], [r[1] for r in rows], sum(r[2] for r in rows) + len(rows)
            value = dict(value)
            if all(type(k) is str for k in value) and not _looks_like_a_tag(value):
                items = {k: self._plain(v) for k, v in value.items()}
                size = sum(r[2] + len(k) + 4 for k, r in items.items())
                return {k: r[0] for k, r in items.items()}, {k: r[1] for k, r in items.items()}, size
        return self.freeze(value)

    def _dict(self, value: dict[Any, Any], before: Any, large: int) -> tuple[Any, Any, int]:
        live, value = value, dict(value)  # one look: another thread may change it meanwhile
        if not value:
            return {}, {}, 2
        if not all(type(k) is str for k in value) or _looks_like_a_tag(value):
            return self._tag("$dict", [[k, v] for k, v in value.items()])
        found = self._known.find_container(live)
        old = found if type(found) is DictPart else before if type(before) is DictPart else None
        old_parts, old_copies = (old.parts, old.copies) if old else ({}, {})
        parts: dict[str, Any] = {}
        copies: dict[str, Any] = {}
        size, plain, same = 2, True, 0
        for key, member in value.items():
            seen = old_parts.get(key, NEVER)
            if seen is not NEVER and old_copies[key] == look(member):
                part, copy, n = seen, old_copies[key], _size(seen)
            else:
                part, copy, n = self.freeze(member, seen)
            parts[key], copies[key] = part, copy
            same += part is seen and copy is not NEVER
            plain = plain and is_plain(part)
            size += n + len(key) + 4
        if old is not None and same == len(parts) == len(old_parts) and list(parts) == list(old_parts):
            return old, old.copies, _size(old)
        if size < large and plain:
            return parts, copies, size
        made = DictPart(parts, copies, large=size >= large)
        if made.large:
            made.before = old if old is not None and old.large else None
            self._known.add_container(live, made)
        return made, copies, _size(made) if made.large else size

    def _list(self, value: list[Any], before: Any) -> tuple[Any, Any, int]:
        value = value[:]  # one look: another thread may append meanwhile
        if not value:
            return [], [], 2
        if len(value) >= LARGE // 4 and (scalars := _scalars(value)) is not None:
            return scalars if type(before) is not ListPart else self._extend(value, before, scalars)
        old = before if type(before) is ListPart else self._known.find_container(value[0])
        if type(old) is not ListPart or type(old.view.states) is Scalars or 2 * len(value) < len(old.parts):
            old = None  # nothing to compare with, or a few elements that are found one by one
        view = view_of(value)
        runs = _runs(old.view, view) if old is not None else [(-1, len(value))]
        if old is not None and runs == [(0, len(old.parts))] and len(value) == len(old.parts):
            return old, old.copy, _REFERENCE
        parts: list[Any] = []
        copies: list[Any] = []
        size, plain = 2, True
        for begin, length in runs:
            if begin >= 0 and old is not None:
                parts += old.parts[begin : begin + length]
                copies += old.view.states[begin : begin + length]
                size += LARGE  # what was numbered stays numbered
                continue
            for element in value[len(parts) : len(parts) + length]:
                part, copy, n = self._element(element)
                parts.append(part)
                copies.append(copy)
                plain = plain and is_plain(part)
                size += n + 1
        if size < LARGE and plain:
            return parts, copies, size
        made = ListPart(parts, kept_view(view, copies))
        made.before, made.runs = old, runs
        self._known.add_container(value[0], made)
        return made, made.copy, _REFERENCE

    def _extend(self, value: list[Any], old: ListPart, scalars: tuple[Any, Any, int]) -> tuple[Any, Any, int]:
        """A long list of scalars whose place holds a numbered list: only what was appended is new."""
        kept = len(old.parts)
        if kept > len(value) or Scalars(old.parts) != value[:kept]:
            return scalars
        if kept == len(value):
            return old, old.copy, _REFERENCE
        made = scalars[0]
        made.before, made.runs = old, [(0, kept), (-1, len(value) - kept)]
        return scalars

    def _element(self, element: Any) -> tuple[Any, Any, int]:
        """An element of a list: a number of its own if it is worth finding again."""
        if type(element) in (dict, list):
            item = self._known.find(element, element)
            if item is not None:
                return item, item.copy, _REFERENCE
        part, copy, size = self.freeze(element)
        if size < _WORTH_FINDING or type(part) is Item:
            return part, copy, size
        item = Item("value", part, copy)
        self._known.add(element, item, size)
        return item, copy, _REFERENCE

    def _tagged(self, value: Any) -> tuple[Any, Any, int]:
        rule = types.TAG.get(type(value), types.tag_numpy)
        tagged = rule(value)
        if tagged is not None:
            part, _, size = self._tag(*tagged)
            fixed = type(value) in types.FIXED
            return part, Is(value) if fixed else NEVER, size
        tree = self._serde(value)
        size = len(tree["$serde"][1]) + 30 if type(tree) is dict else _size(tree)
        return (Item("value", tree, NEVER) if size >= LARGE else tree), NEVER, min(size, LARGE)

    def _tag(self, tag: str, payload: Any) -> tuple[Any, Any, int]:
        part, _, size = self.freeze(payload) if type(payload) is not str else (payload, None, len(payload))
        tree = {tag: part}
        size += len(tag) + 5
        return (Item("value", tree, NEVER), NEVER, _REFERENCE) if size >= LARGE else (tree, NEVER, size)


def view_of(value: list[Any]) -> View:
    """What of a live list its copies are compared with."""
    kinds = list(map(type, value))
    if messages.KNOWN.issuperset(kinds):
        return View(kinds, [v.__dict__ for v in value], [v.__pydantic_extra__ for v in value])
    known = messages.KNOWN
    return View(
        kinds,
        [v.__dict__ if k in known else v for k, v in zip(kinds, value, strict=True)],
        [v.__pydantic_extra__ if k in known else None for k, v in zip(kinds, value, strict=True)],
    )


def kept_view(view: View, copies: list[Any]) -> View:
    """The view of a list that is to be kept, made of its elements' copies."""
    extras = [dict(e) if e else e for e in view.extras]
    states = [c[1] if type(c) is tuple else c for c in copies]
    return View(view.kinds, states, extras)


def _runs(old: View, new: View) -> list[tuple[int, int]]:
    """How a list is made of the one before: (begin, length) of each run that was there, (-1, length) for what is new."""
    both = min(len(old.kinds), len(new.kinds))
    if all(o[:both] == n[:both] for o, n in zip(old, new, strict=True)):
        rest = len(new.kinds) - both
        return [(0, both)] * bool(both) + [(-1, rest)] * bool(rest)
    return [*_merged(_stretches(old, new))]


def _stretches(before: View, after: View) -> Iterator[tuple[int, int]]:
    olds, news = list(zip(*before, strict=True)), list(zip(*after, strict=True))
    old, new, strays = 0, 0, 0
    while new < len(news):
        if old < len(olds) and olds[old] == news[new]:
            yield old, 1
            old, new = old + 1, new + 1
            continue
        at = None
        if old < len(olds) and strays < _STRAY:
            strays += 1
            at = next((i for i in range(old + 1, len(olds)) if olds[i] == news[new]), None)
        if at is None:
            yield -1, 1
            # Changed in place, or put in between? The next one tells.
            follows = new + 1 < len(news) and old + 1 < len(olds) and olds[old + 1] == news[new + 1]
            old, new = old + follows, new + 1
        else:
            old = at


def _merged(stretches: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    begin, length = 0, 0
    for at, n in stretches:
        if length and (at == begin + length if begin >= 0 else at < 0):
            length += n
            continue
        if length:
            yield begin, length
        begin, length = at, n
    if length:
        yield begin, length


def _scalars(value: list[Any]) -> tuple[Any, Any, int] | None:
    """A long list of small scalars, such as an embedding, without a Python step for each; None if it is none."""
    kinds = set(map(type, value))
    if not kinds <= {int, float, bool, type(None)}:
        return None
    if float in kinds and not all(v - v == 0.0 for v in value if type(v) is float):
        return None
    if int in kinds and not all(-_INT64 <= v < _INT64 for v in value if type(v) is int):
        return None
    made = ListPart(value, View(list(map(type, value)), Scalars(value), []))
    return made, made.view.states, _REFERENCE


def _is_float(value: Any) -> bool:
    return type(value) is float


def _looks_like_a_tag(value: dict[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith("$")


def is_plain(part: Any) -> bool:
    """Whether a part is a scalar or a plain JSON tree."""
    return type(part) not in (Item, ListPart, DictPart)


def _size(part: Any) -> int:
    """A stored part's text, about."""
    kind = type(part)
    if kind is str:
        return len(part) + 2
    if kind is DictPart:
        return _REFERENCE if part.large else 2 + sum(_size(p) + len(k) + 4 for k, p in part.parts.items())
    if kind is dict:
        return 2 + sum(_size(p) + len(k) + 4 for k, p in part.items())
    if kind is list:
        return 2 + sum(_size(p) + 1 for p in part)
    return _REFERENCE
