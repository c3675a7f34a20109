"""The numbers of a session: which message or value has which, and what its text is.

A `Book` holds what is written. A `Page` is what one commit adds: it turns parts into JSON text, writing what has no
number yet before the text that refers to it, and changes nothing until the commit is on disk.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import msgspec

from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.values import ranges, types
from langgraph_jsonl_checkpoint.values.adopt import refrozen
from langgraph_jsonl_checkpoint.values.kept import Kept
from langgraph_jsonl_checkpoint.values.numbers import Numbers, no_numbers
from langgraph_jsonl_checkpoint.values.parts import NEVER, DictPart, Item, ListPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langgraph_jsonl_checkpoint.log.lines import Lines
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
        _, kind, text = next(self.run(number, number))
        if kind == "message":
            text = bytes(text)
            return kind, text[text.index(_MESSAGE) + len(_MESSAGE) : -1]
        return kind, text

    def run(self, first: int, last: int) -> Iterator[tuple[int, str, bytes | msgspec.Raw]]:
        """(number, kind, text) of the numbers from `first` to `last`; of messages the lines, for `message_of`.

        Raises:
            LookupError: Nothing has one of them.
        """
        firsts, seqs, line = self.numbers.firsts, self.numbers.seqs, self.lines.text
        at = bisect_right(firsts, first) - 1
        number = first
        while number <= last:
            if not 0 <= at < len(firsts) or number < firsts[at]:
                raise LookupError(number)
            text = line(seqs[at])
            if text.startswith(_IS_MESSAGE, 7 + len(str(seqs[at]))):
                if firsts[at] != number:
                    raise LookupError(number)
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
        # A dict of the user's may have the text of a message.
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
                texts = (
                    [text[text.index(_MESSAGE) + len(_MESSAGE) : -1]]
                    if kind == "message"
                    else _values(text, self.numbers.firsts[at])
                )
                for i, each in enumerate(texts, self.numbers.firsts[at]):
                    self._hashes.setdefault(hash((kind, bytes(each))), i)
                at += 1
        self._hashed = self.lines.next

    def stem(self, number: int) -> ranges.Stem:
        """The runs of the container with that number, for one that begins with it."""
        known, wanted = self._stems, [number]
        while number not in known:
            each = wanted[-1]
            tree = msgspec.json.decode(self.text(each)[1])
            runs = tree.get("$list") or tree.get("$map")
            before = [r for r in runs if type(r) is int and r not in known]
            if any(r >= each for r in before):
                raise ValueError(f"the list that is number {each} begins with one that stands behind it")
            if before:  # a long chain: a list that goes on in other numbers has a stem of its own each 32 runs
                wanted.append(before[-1])
            else:
                count = sum(known[r].count if type(r) is int else r[1] - r[0] + 1 for r in runs)
                known[wanted.pop()] = ranges.Stem(runs, count)
        return known[number]

    def refer(self, part: Any) -> Any:
        """What stands in a text of the page that is being written for a part that JSON does not have."""
        assert self._page is not None  # noqa: S101 - only a page encodes
        return self._page.refer(part)

    def _take(self, numbers: dict[tuple[str, bytes], int], stems: dict[int, ranges.Stem], behind: int) -> None:
        self._page = None
        for key, number in numbers.items():
            self._hashes.setdefault(hash(key), number)
        self._stems.update(stems)
        if self._hashed == self.lines.next:
            self._hashed = behind  # all of the commit is in `numbers`

    def page(self, serde: Serde | None) -> Page:
        """A page for one commit; `serde` seals each text, if nothing may be readable on disk."""
        self._page = Page(self, serde, self._encode)
        return self._page


class Page:
    """What one commit adds to a book.

    Attributes:
        records: The `message` and `value` records to write before the record that needs them.
    """

    def __init__(self, book: Book, serde: Serde | None, encode: Callable[[Any], bytes]) -> None:
        self.records: list[records.Message | records.Value] = []
        self._book = book
        self._serde = serde
        self._seal = serde.seal if serde is not None and serde.seals else None
        self._next = book.next
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._stems: dict[int, ranges.Stem] = {}
        self._made: list[Item | ListPart | DictPart] = []
        self._encode = encode

    def text(self, part: Any) -> msgspec.Raw:
        """A part as the text of a record's field."""
        if type(part) is msgspec.Raw and self._seal is None:
            return part
        plain = self._plain(part)
        return msgspec.Raw(self._seal(plain) if self._seal else plain)

    def keep(self, behind: int) -> None:
        """The commit is on disk and ends before record `behind`: its numbers count."""
        self._book._take(self._numbers, self._stems, behind)  # noqa: SLF001 - a page is a part of its book
        for part in self._made:
            if not isinstance(part, Item):
                part.before = None
            elif part.copy is not NEVER:
                part.tree = None  # its text is in the log; of its containers one copy is enough

    def drop(self) -> None:
        """The commit failed: what it numbered has no number."""
        self._book._page = None  # noqa: SLF001 - as above
        for part in self._made:
            part.session = None

    def _plain(self, part: Any) -> bytes:
        try:
            return self._encode(part)
        except UnicodeEncodeError:
            # Rare enough that no string is looked at for it before.
            return self._encode(_without_surrogates(part))

    def refer(self, part: Any) -> Any:
        """What stands in the text for a part that JSON does not have."""
        if type(part) is Item:
            return {"$ref": self._number(part)}
        if type(part) is ListPart:
            return {"$list": self._list(part)}
        if type(part) is DictPart:
            return {"$map": self._map(part)} if part.large else part.parts
        raise TypeError(f"{type(part)} is no part")

    def _number(self, item: Item) -> int:
        if item.session is not self._book.token or item.number is None:
            text = self._plain(refrozen(item) if item.tree is None else item.tree)
            key = item.kind, text
            number = self._numbers.get(key)
            if number is None:
                number = self._book.find(*key, self._serde)
            if number is None:
                number = self._numbers[key] = self._write(item.kind, [text])
            item.number, item.session = number, self._book.token
            self._made.append(item)
        return item.number

    def _write(self, kind: str, texts: list[bytes], *, sealed: bool = True) -> int:
        """Give texts the next numbers; the first of them."""
        raws = [msgspec.Raw(self._seal(t) if self._seal and sealed else t) for t in texts]
        first, last = self._next, self.records[-1] if self.records else None
        if kind == "message":
            self.records.append(records.Message(n=first, message=raws[0]))
        elif isinstance(last, records.Value) and last.n + len(last.values) == first:
            last.values.extend(raws)
        else:
            self.records.append(records.Value(n=first, values=raws))
        self._next += len(raws)
        return first

    def _list(self, part: ListPart) -> list[Any]:
        if part.session is self._book.token and part.ranges is not None:
            return part.ranges
        found: list[Any] = []
        old = part.before
        if old is None or old.session is not self._book.token or old.ranges is None:
            self._elements(part.parts[: part.length], found)
            return self._keep_ranges(part, found, "$list", part.length)
        at = 0
        for begin, length in part.runs:
            if begin >= 0:
                for each in ranges.cut(old.ranges, begin, length, self._stem):
                    _append(found, each)
            else:
                self._elements(part.parts[at : at + length], found)
            at += length
        return self._keep_ranges(part, ranges.continued(found, old.ranges, self._stem), "$list", part.length)

    def _elements(self, parts: list[Any], found: list[Any]) -> None:
        small: list[bytes] = []
        for part in parts:
            if type(part) is Item:
                self._flush(small, found)
                number = self._number(part)
                ranges.add(found, number, number)
            else:
                small.append(self._plain(part))
        self._flush(small, found)

    def _flush(self, texts: list[bytes], found: list[Any]) -> None:
        if texts:
            first = self._write("value", texts)
            ranges.add(found, first, first + len(texts) - 1)
            texts.clear()

    def _map(self, part: DictPart) -> list[Any]:
        if part.session is self._book.token and part.ranges is not None:
            return part.ranges
        old = part.before
        entries = list(part.parts)
        gone: list[str] = []
        found: list[Any] = []
        part.count = len(entries)
        if old is not None and old.session is self._book.token and old.ranges is not None:
            changed = [k for k in entries if not self._same(part.parts[k], old.parts.get(k, NEVER))]
            gone = [k for k in old.parts if k not in part.parts]
            count = old.count + len(changed) + len(gone)
            order = [k for k in old.parts if k in part.parts] + [k for k in entries if k not in old.parts]
            if order == entries and count <= 2 * len(entries) + ranges.LONGEST:
                entries, found, part.count = changed, list(old.ranges), count
            else:
                gone = []
        texts = [self._plain([k]) for k in gone]
        texts += [self._plain([k, part.parts[k]]) for k in entries]
        self._flush(texts, found)
        return self._keep_ranges(part, found, "$map", part.count)

    def _same(self, part: Any, old: Any) -> bool:
        if part is old:
            return True
        return (
            type(part) is Item is type(old) and old.session is self._book.token and self._number(part) == old.number
        )

    def _keep_ranges(self, part: ListPart | DictPart, found: list[Any], tag: str, count: int) -> list[Any]:
        if len(found) > ranges.LONGEST:
            stem = self._write("value", [self._encode({tag: found})], sealed=False)  # numbers are no secret
            self._stems[stem] = ranges.Stem(found, count)
            found = [stem]
        part.ranges, part.session = found, self._book.token
        self._made.append(part)
        return found

    def _stem(self, number: int) -> ranges.Stem:
        return self._stems.get(number) or self._book.stem(number)


def _append(found: list[Any], each: Any) -> None:
    if type(each) is int:
        found.append(each)
    else:
        ranges.add(found, each[0], each[1])


def message_of(line: bytes | msgspec.Raw, number: int) -> dict[str, Any]:
    """The tree of a `message` record's line.

    Raises:
        ValueError: It has another number.
    """
    record = _decode(line)
    if record.n != number:
        raise ValueError(f"number {number} is not where the log's index says that it is")
    return record.message


def _values(text: bytes, first: int) -> list[msgspec.Raw]:
    record = records.parse("value", text)
    assert isinstance(record, records.Value)  # noqa: S101 - for the type checker: the kind says so
    if record.n != first:
        raise ValueError(f"number {first} is not where the log's index says that it is")
    return record.values


def _without_surrogates(part: Any) -> Any:
    """A part whose strings with lone surrogates are tagged; parts within parts are left to their own turn."""
    if type(part) is str:
        return types.tag_text(part)
    if type(part) is list:
        return [_without_surrogates(p) for p in part]
    if type(part) is dict:
        if all(type(types.tag_text(k)) is str for k in part):
            return {k: _without_surrogates(p) for k, p in part.items()}
        return {"$dict": [[types.tag_text(k), _without_surrogates(p)] for k, p in part.items()]}
    if type(part) is DictPart and not part.large:
        return _without_surrogates(part.parts)
    return part
