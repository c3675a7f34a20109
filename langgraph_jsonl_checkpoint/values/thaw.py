"""JSON text → values: the inverse of freezing and numbering. Every value it makes is the caller's own.

For each level of a value this takes fewer frames of Python's stack than freezing or numbering it, so that what could
be put can be read.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import msgspec

from langgraph_jsonl_checkpoint.errors import CorruptSessionError, SessionError, WrongSerdeError
from langgraph_jsonl_checkpoint.values import messages, ranges
from langgraph_jsonl_checkpoint.values.book import message_of
from langgraph_jsonl_checkpoint.values.seal import SealError
from langgraph_jsonl_checkpoint.values.types import HASHED, UNTAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langgraph_jsonl_checkpoint.values.book import Book
    from langgraph_jsonl_checkpoint.values.seal import Serde

logger = logging.getLogger(__name__)

_TAG = b'{"$'  # without it a text holds no tag and is what it says
_decode = msgspec.json.decode
_REPEATED = 1 << 32  # bytes of text that one value may read again: forged references repeat without end
_EACH, _JUMP = 1 << 10, 1 << 14  # what reading a number, or a range, again costs beside its text


class BadTextError(SessionError):
    """A text of the log that does not stand for a value.

    Attributes:
        says: The error about the log that it comes to.
    """

    says: type[CorruptSessionError] = CorruptSessionError


class _UnopenedTextError(BadTextError):
    says = WrongSerdeError


class Thawer:
    """Reads the values of one session.

    Args:
        book: The session's numbers.
        serde: The saver's serde for the thread.

    Attributes:
        book: The session's numbers.
    """

    def __init__(self, book: Book, serde: Serde) -> None:
        self.book = book
        self._serde = serde
        self._seals = serde.seals
        self._met = ranges.NumberSet()
        self._left = _REPEATED
        self._met_object = False

    def value(self, text: bytes | msgspec.Raw) -> Any:
        """The value of a record's field.

        Raises:
            BadTextError: The text is not what this version and this serde write.
        """
        return self._checked(self._value, text)

    def mapping(self, text: bytes | msgspec.Raw) -> dict[str, Any]:
        """The value of a record's field that holds a dict. Raises what `value` raises."""
        found = self.value(text)
        if not isinstance(found, dict):
            raise BadTextError(f"a dict stands there, and not a {type(found).__name__}")
        return found

    def members(self, text: bytes | msgspec.Raw) -> dict[str, Any]:
        """A record's field that holds a dict, its members as trees. Raises what `value` raises."""
        return self._checked(self._members, text)  # type: ignore[no-any-return]

    def tree(self, text: bytes | msgspec.Raw) -> Any:
        """A record's field as a tree, its references as they are. Raises what `value` raises."""
        return self._checked(lambda t, _: _decode(self._serde.open(bytes(t))), text)

    def entries(self, held: list[ranges.Range]) -> dict[str, Any]:
        """The members, as trees, of the dict whose entries have these numbers. Raises what `value` raises."""
        return self._checked(self._members_of, held)  # type: ignore[no-any-return]

    def built(self, tree: Any) -> Any:
        """The value of a part of a tree. Raises what `value` raises."""
        return self._checked(self._build, tree)

    def number(self, number: int) -> Any:
        """The message or value with that number. Raises what `value` raises."""
        return self._checked(self._number, number)

    def _checked(self, read: Callable[[Any, int], Any], what: Any) -> Any:
        try:
            try:
                return self._bounded(read, what)
            except (RecursionError, msgspec.DecodeError):  # the second is what a line's parser makes of the first
                # The caller's stack may be higher than that of the put: a thread begins with an empty one.
                with ThreadPoolExecutor(1) as thread:
                    return thread.submit(copy_context().run, self._bounded, read, what).result()
        except (SessionError, OSError):  # a BadTextError among them; a disk that cannot be read is no damage
            raise
        except RecursionError:
            raise BadTextError("a value is nested too deeply") from None
        except SealError as error:
            raise _UnopenedTextError(str(error)) from error
        except Exception as error:
            raise BadTextError(f"{type(error).__name__}: {error}") from error

    def _bounded(self, read: Callable[[Any, int], Any], what: Any) -> Any:
        self._met, self._left, self._met_object = ranges.NumberSet(), _REPEATED, False
        return read(what, self.book.next)

    def flat(self, held: list[ranges.Range]) -> Iterator[tuple[int, int]]:
        """Ranges of numbers, those of their stems among them: (first, last)."""
        return ranges.flat(held, self.book.stem)

    def numbers(self, text: bytes | msgspec.Raw) -> set[int]:
        """All numbers that a text needs, directly and through others."""
        return self._checked(self._needed, text)  # type: ignore[no-any-return]

    def _needed(self, text: bytes | msgspec.Raw, below: int) -> set[int]:
        found: set[int] = set()
        texts = [(bytes(text), below)]
        while texts:
            plain, below = texts.pop()
            if not plain.startswith(ranges.BEGINS):
                plain = self._serde.open(plain)
            for number in self._mentioned(_decode(plain), below) - found:
                found.add(number)
                texts.append((bytes(self.book.text(number)[1]), number))
        return found

    def _mentioned(self, tree: Any, below: int) -> set[int]:
        found: set[int] = set()
        trees = [tree]
        while trees:
            each = trees.pop()
            if type(each) is list:
                trees += each
            elif type(each) is dict:
                held = each.get("$list") or each.get("$map")
                if len(each) == 1 and held:
                    found.update(r for r in held if type(r) is int)
                    found.update(n for r in self._ranges(held, below) for n, _, _ in self.book.between(*r))
                elif each.keys() == {"$ref"}:
                    found.add(each["$ref"])
                else:
                    trees += each.values()
        return found

    def _value(self, text: bytes | msgspec.Raw, below: int) -> Any:
        plain = self._serde.open(bytes(text))
        tree = _decode(plain)
        return self._build(tree, below) if _TAG in plain else tree

    def _number(self, number: int, below: int) -> Any:
        if not 0 <= number < below:
            raise BadTextError(f"a reference to number {number} stands before that number")
        self._weigh(number, number)
        _, kind, text = next(self.book.between(number, number))
        return self._value(text, number) if kind == "value" else self._message(text, number)

    def _message(self, text: bytes | msgspec.Raw, number: int) -> Any:
        if (kept := self.book.kept.get(number)) is not None:
            return kept
        fields = self._fields(number, text)
        if len(fields) == 1 and next(iter(fields)).startswith("$"):
            return self._build(fields, number)
        message = messages.build(fields.pop("class"), fields)
        if not self._seals:
            self.book.kept.note(number, message, text)
        return message

    def _fields(self, number: int, line: bytes | msgspec.Raw) -> dict[str, Any]:
        """A message's class and fields; of a message of a class that only the serde knows, its tag."""
        fields = message_of(line, number)
        if b"$" not in bytes(line) and not self._seals:  # one byte is found much faster than a tag
            return fields
        if len(fields) == 1:
            fields = _decode(self._serde.open(msgspec.json.encode(fields)))
        if len(fields) == 1 and "like" not in fields:
            return fields
        like = fields.pop("like", None)
        fields = {k: self._build(t, number) for k, t in fields.items()}
        if like is None:
            return fields
        below = like["$ref"]
        if not 0 <= below < number:
            raise BadTextError(f"a reference to number {below} stands before that number")
        _, kind, line = next(self.book.between(below, below))
        if kind != "message":
            raise BadTextError(f"message {number} is like number {below}, which is none")
        return self._fields(below, line) | fields

    def _build(self, tree: Any, below: int) -> Any:
        # No comprehension: before Python 3.12 it takes a frame.
        if type(tree) is list:
            made = []
            for each in tree:
                made.append(self._build(each, below))  # noqa: PERF401
            return made
        if type(tree) is not dict:
            return tree
        if len(tree) == 1:
            tag, payload = next(iter(tree.items()))
            if tag.startswith("$"):
                return self._untag(tag, payload, below)
        members = {}
        for key, each in tree.items():
            members[key] = self._build(each, below)
        return members

    def _untag(self, tag: str, payload: Any, below: int) -> Any:
        if tag == "$ref":
            return self._number(payload, below)
        if tag == "$list":
            found: list[Any] = []
            for first, last in self._ranges(payload, below):
                self._add_range(found, first, last)
            return found
        if tag == "$map":
            return self._map(payload, below)
        if tag == "$serde":
            self._met_object = True
            return self._serde.value(payload)
        rule = UNTAG.get(tag)
        if rule is None:
            raise BadTextError(f"this version does not know the tag {tag!r}")
        built = self._build(payload, below)
        try:
            return rule(built)
        except RecursionError:
            raise
        except Exception as error:
            # An object that was hashed when it was put may come back as its fields, or with a list for a tuple.
            if not self._met_object or tag not in HASHED:
                raise
            logger.warning("A %s comes back as the list of what it holds: %s", tag[1:], error)
            return built

    def _add_range(self, found: list[Any], first: int, last: int) -> None:
        if kept := self.book.kept.between(first, last):
            found += kept
            return
        for number, kind, text in self.book.between(first, last):
            found.append(self._value(text, number) if kind == "value" else self._message(text, number))

    def _ranges(self, held: list[ranges.Range], below: int) -> Iterator[tuple[int, int]]:
        for first, last in ranges.flat(held, self.book.stem):
            if not 0 <= first <= last < below:
                raise BadTextError(f"a list refers to numbers {first} to {last}, which stand before them")
            self._weigh(first, last)
            yield first, last

    def _weigh(self, first: int, last: int) -> None:
        """Bound what is read again: a few lines of references to references stand for more than any memory holds."""
        if self._met.add(first, last):
            return
        self._left -= _JUMP
        for number, _, text in self.book.between(first, last):
            self._left -= len(text) + _EACH
            if self._left < 0:
                raise BadTextError(f"references repeat more than {_REPEATED} bytes, the last of them number {number}")

    def _members(self, text: bytes | msgspec.Raw, below: int) -> dict[str, Any]:
        tree = _decode(self._serde.open(bytes(text)))
        if type(tree) is not dict:
            raise BadTextError(f"a dict stands there, and not a {type(tree).__name__}")
        if tree.keys() == {"$map"}:
            return self._members_of(tree["$map"], below)
        if tree.keys() != {"$dict"}:
            return tree
        pairs = tree["$dict"]
        if type(pairs) is dict:
            numbers = [n for first, last in self._ranges(pairs["$list"], below) for n in range(first, last + 1)]
            pairs = [_decode(self._serde.open(bytes(self.book.text(n)[1]))) for n in numbers]
        return {self._build(key, below): member for key, member in pairs}

    def _members_of(self, held: list[ranges.Range], below: int) -> dict[str, Any]:
        return {key: member for key, (member, _) in self._entries(held, below).items()}

    def _map(self, held: list[ranges.Range], below: int) -> dict[str, Any]:
        entries = self._entries(held, below)
        return {k: self._build(tree, number) for k, (tree, number) in entries.items()}

    def _entries(self, held: list[ranges.Range], below: int) -> dict[str, tuple[Any, int]]:
        # The last entry of a key tells its value, the first its place; outdated values are not built.
        entries: dict[str, tuple[Any, int]] = {}
        for first, last in self._ranges(held, below):
            for number, kind, text in self.book.between(first, last):
                if kind != "value":
                    raise BadTextError(f"number {number} is an entry of a dict and holds a message")
                entry = _decode(self._serde.open(bytes(text)))
                if type(entry) is not list:
                    raise BadTextError(f"number {number} is no entry of a dict")
                key, *member = entry
                key = self._build(key, number)
                if member:
                    entries[key] = (member[0], number)
                else:
                    entries.pop(key, None)
        return entries
