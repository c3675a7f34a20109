"""The numbers of a session: which message or value has which, and what its text is."""

from __future__ import annotations

import weakref
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import msgspec

from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.values import ranges
from langgraph_jsonl_checkpoint.values.kept import Kept
from langgraph_jsonl_checkpoint.values.numbers import Numbers, no_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langgraph_jsonl_checkpoint.log.lines import Lines
    from langgraph_jsonl_checkpoint.values.page import Page
    from langgraph_jsonl_checkpoint.values.seal import Serde


_IS_MESSAGE = b',"type":"message","ts":"'  # behind a line's seq
_MESSAGE = b',"message":'  # the first one: before it stand only the envelope and `n`


class _Message(msgspec.Struct, gc=False):
    """A `message` record, as a tree."""

    n: int
    message: dict[str, Any]


_decode = msgspec.json.Decoder(_Message).decode


class Book:
    """What is numbered in one generation of a session.

    Args:
        lines: The log's lines.
        numbers: Which of them hold messages and values.

    Attributes:
        token: Stands for this generation: a part's numbers count only here.
        lines: The log's lines.
        numbers: Which lines hold what is numbered.
        kept: The messages that were read lately.
    """

    def __init__(self, lines: Lines, numbers: Numbers | None = None) -> None:
        self.token = object()
        self.numbers = numbers or no_numbers()
        self.lines = lines
        self.kept = Kept()
        self._values: tuple[int, list[msgspec.Raw]] = (-1, [])  # the last line of values that was read
        self._hashes: dict[int, int] = {}
        self._hashed = 0  # up to which seq the hashes are there
        self._stems: dict[int, ranges.Stem] = {}
        self._page: Page | None = None
        # One encoder for all pages: making one costs more than a small text. It must not keep the book alive: a
        # session that is closed gives its memory back at once.
        me = weakref.proxy(self)
        self._encode = msgspec.json.Encoder(enc_hook=lambda part: me.refer(part)).encode  # noqa: PLW0108

    @property
    def next(self) -> int:
        """The next free number."""
        return self.numbers.next

    def text(self, number: int) -> tuple[str, bytes | msgspec.Raw]:
        """The kind ("message" or "value") and the text of a number.

        Raises:
            LookupError: Nothing has this number.
        """
        _, kind, text = next(self.between(number, number))
        return kind, _message_text(bytes(text)) if kind == "message" else text

    def between(self, first: int, last: int) -> Iterator[tuple[int, str, bytes | msgspec.Raw]]:
        """(number, kind, text) of the numbers from `first` to `last`; of messages the lines, for `message_of`.

        Raises:
            LookupError: Nothing has one of them.
        """
        firsts, seqs, line = self.numbers.firsts, self.numbers.seqs, self.lines.text
        at = bisect_right(firsts, first) - 1
        number = first
        while number <= last:
            if not 0 <= at < len(firsts) or number < firsts[at]:
                raise LookupError(f"nothing has number {number}")
            text = line(seqs[at])
            if text.startswith(_IS_MESSAGE, 7 + len(str(seqs[at]))):
                if firsts[at] != number:
                    raise LookupError(f"nothing has number {number}")
                yield number, "message", text
                number += 1
            else:
                known, values = self._values
                if known != seqs[at]:
                    values = _values(text, firsts[at])
                    self._values = seqs[at], values
                for value in values[number - firsts[at] : last + 1 - firsts[at]]:
                    yield number, "value", value
                    number += 1
            at += 1

    def find(self, kind: str, text: bytes, serde: Serde | None) -> int | None:
        """The number of a text, if it is written already."""
        if self._hashed < self.lines.next:
            self._hash_lines()
        # A user's dict may have the same text as a message, so the kind is a part of the key.
        number = self._hashes.get(hash((kind, text)))
        if number is None:
            return None
        own, stored = self.text(number)
        written = bytes(stored) if serde is None else serde.open(bytes(stored))
        return number if (own, written) == (kind, text) else None  # two texts may have one hash

    def _hash_lines(self) -> None:
        seqs, at = self.numbers.seqs, bisect_left(self.numbers.seqs, self._hashed)
        for seq, (kind, text) in enumerate(self.lines.since(self._hashed), self._hashed):
            if at < len(seqs) and seqs[at] == seq:
                texts = [_message_text(text)] if kind == "message" else _values(text, self.numbers.firsts[at])
                for i, each in enumerate(texts, self.numbers.firsts[at]):
                    self._hashes.setdefault(hash((kind, bytes(each))), i)
                at += 1
        self._hashed = self.lines.next

    def stem(self, number: int) -> ranges.Stem:
        """The ranges of the container with that number, for one that begins with it."""
        known, wanted = self._stems, [number]
        while number not in known:
            each = wanted[-1]
            tree = msgspec.json.decode(self.text(each)[1])
            found = tree.get("$list") or tree.get("$map")
            before = [r for r in found if type(r) is int and r not in known]
            if any(r >= each for r in before):
                raise ValueError(f"the list that is number {each} begins with one that stands behind it")
            if before:  # a long chain: a list of scattered numbers has a stem more for each 32 ranges
                wanted.append(before[-1])
            else:
                count = sum(known[r].count if type(r) is int else r[1] - r[0] + 1 for r in found)
                known[wanted.pop()] = ranges.Stem(found, count)
        return known[number]

    def turn(self, page: Page | None) -> Callable[[Any], bytes]:
        """Make a page the one that is being written, or none; returns what encodes its texts."""
        self._page = page
        return self._encode

    def refer(self, part: Any) -> Any:
        """What stands in a text of the page that is being written for a part that JSON does not have."""
        assert self._page is not None  # noqa: S101 - only a page encodes
        return self._page.refer(part)

    def take(self, numbers: dict[tuple[str, bytes], int], stems: dict[int, ranges.Stem], behind: int) -> None:
        """A page's commit is on disk and ends before record `behind`: (kind, text) → number, and its stems."""
        for key, number in numbers.items():
            self._hashes.setdefault(hash(key), number)
        self._stems.update(stems)
        if self._hashed == self.lines.next:
            self._hashed = behind  # all of the commit is in `numbers`


def message_of(line: bytes | msgspec.Raw, number: int) -> dict[str, Any]:
    """The tree of a `message` record's line.

    Raises:
        ValueError: It has another number.
    """
    record = _decode(line)
    if record.n != number:
        raise ValueError(f"number {number} is not where the log's index says that it is")
    return record.message


def _message_text(line: bytes) -> bytes:
    """The text of the message in a `message` record's line, which ends with it and a brace."""
    return line[line.index(_MESSAGE) + len(_MESSAGE) : -1]


def _values(text: bytes, first: int) -> list[msgspec.Raw]:
    record = records.parse_as(records.Value, text)
    if record.n != first:
        raise ValueError(f"number {first} is not where the log's index says that it is")
    return record.values
