"""What the trees of a log refer to, and whether that is there: looked at without building a single value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.values.messages import CLASSES
from langgraph_jsonl_checkpoint.values.ranges import BEGINS, NumberSet
from langgraph_jsonl_checkpoint.values.seal import SEALED, SealError
from langgraph_jsonl_checkpoint.values.types import UNTAG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph_jsonl_checkpoint.values.seal import Serde

Kind = Literal["message", "value"]


class DanglingError(Exception):
    """A tree refers to a number that is not there, or holds what this version does not know."""


class References:
    """The numbers that were given so far, and what refers to them: never to one that is given later.

    Args:
        serde: The saver's serde for the thread.
        opens: Whether texts that were sealed are opened with it; if not they are passed over.

    Attributes:
        next: The next free number.
        sealed: How many sealed texts were passed over.
        opened: How many texts were opened.
        refused: How many the serde could not open.
    """

    def __init__(self, serde: Serde, *, opens: bool) -> None:
        self._serde = serde
        self._opens = opens
        self._all, self._messages, self._values = NumberSet(), NumberSet(), NumberSet()
        self._stems: set[int] = set()
        self.next = 0
        self.sealed = self.opened = self.refused = 0

    @property
    def are_of_another_serde(self) -> bool:
        """Whether there are texts, and the serde can open none."""
        return self.refused > 0 and not self.opened

    def take(self, kind: Kind, number: int, text: bytes | msgspec.Raw) -> None:
        """Take in the next message or value.

        Raises:
            DanglingError: It refers to what is not there, or its number was given before. It is not taken in then.
        """
        if number < self.next:
            raise DanglingError(f"number {number} was given before")
        tree = self._opened(text)
        if kind == "message":
            self._check_message(tree)
        else:
            self._check(tree)
            if type(tree) is dict and len(tree) == 1 and next(iter(tree)) in ("$list", "$map"):
                self._stems.add(number)
        (self._messages if kind == "message" else self._values).add(number, number)
        self._all.add(number, number)
        self.next = number + 1

    def check(self, text: bytes | msgspec.Raw) -> None:
        """Look at a text of a record that has no number.

        Raises:
            DanglingError: It refers to what is not there.
        """
        self._check(self._opened(text))

    def _opened(self, text: bytes | msgspec.Raw) -> Any:
        """A text's tree; None of one that is sealed and cannot be opened."""
        plain = bytes(text)
        if not self._opens and plain.startswith(SEALED):
            self.sealed += 1
            return None
        try:
            if not plain.startswith(BEGINS):
                plain = self._serde.open(plain)
                self.opened += 1
            return msgspec.json.decode(plain)
        except SealError as error:
            self.refused += 1
            raise DanglingError(str(error)) from error
        except Exception as error:
            raise DanglingError(f"{type(error).__name__}: {error}") from error

    def _check_message(self, tree: Any) -> None:
        if tree is None:
            return
        if type(tree) is not dict:
            raise DanglingError("a message is no object")
        if len(tree) == 1 and next(iter(tree)).startswith("$"):
            self._check(tree)
            return
        like = tree.get("like")
        if like is not None:
            below = like.get("$ref") if type(like) is dict else None
            if type(below) is not int or not self._messages.holds(below, below):
                raise DanglingError(f"a message is like {like!r}, which is no message before it")
        elif tree.get("class") not in CLASSES:
            raise DanglingError(f"a message is of class {tree.get('class')!r}, which this version does not know")
        for field in tree.values():
            self._check(field)

    def _check(self, tree: Any) -> None:
        stack = [tree]
        while stack:
            each = stack.pop()
            if type(each) is list:
                stack += each
            elif type(each) is dict:
                tag, payload = next(iter(each.items())) if len(each) == 1 else ("", None)
                if not tag.startswith("$"):
                    stack += each.values()
                elif tag == "$ref":
                    self._check_range(self._all, payload, payload)
                elif tag in ("$list", "$map"):
                    self._check_ranges(tag, payload)
                elif tag in UNTAG:
                    stack.append(payload)
                elif tag != "$serde":
                    raise DanglingError(f"this version does not know the tag {tag!r}")

    def _check_ranges(self, tag: str, ranges: Any) -> None:
        if type(ranges) is not list:
            raise DanglingError(f"a {tag} is made of {ranges!r}")
        among = self._all if tag == "$list" else self._values
        for each in ranges:
            if type(each) is int:
                if each not in self._stems:
                    raise DanglingError(f"a {tag} begins with number {each}, which is no list before it")
            elif type(each) is list and len(each) == 2:  # noqa: PLR2004
                self._check_range(among, each[0], each[1])
            else:
                raise DanglingError(f"a {tag} is made of {each!r}")

    def _check_range(self, among: NumberSet, first: Any, last: Any) -> None:
        if type(first) is not int or type(last) is not int or not among.holds(first, last):
            what = f"number {first!r}, which is" if first == last else f"numbers {first!r} to {last!r}, which are"
            raise DanglingError(f"a reference to {what} not there before it")


def texts_of(record: records.Record | None) -> Iterator[msgspec.Raw]:
    """The texts of a record without a number that may refer to messages and values."""
    found: list[msgspec.Raw] = []
    if isinstance(record, records.Checkpoint):
        found = [record.channels, record.versions, record.seen, record.metadata, record.extra]
    elif isinstance(record, records.Writes):
        found = [text for _, _, text in record.writes]
    elif isinstance(record, records.Terminal):
        found = [record.error]
    elif isinstance(record, records.Tool):
        found = [record.args, record.result, record.error, record.message, record.sent]
    yield from (text for text in found if text is not records.NO_TEXT)
