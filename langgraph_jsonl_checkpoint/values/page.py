"""What one commit adds to a book: parts become JSON text, what has no number yet before what refers to it.

Nothing of the book changes until the commit is on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from langgraph_jsonl_checkpoint.errors import ValueEncodingError
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.log.surrogates import tag_text
from langgraph_jsonl_checkpoint.values import ranges
from langgraph_jsonl_checkpoint.values.adopt import refrozen
from langgraph_jsonl_checkpoint.values.copies import NEVER
from langgraph_jsonl_checkpoint.values.parts import DictPart, Item, ListPart

if TYPE_CHECKING:
    from langgraph_jsonl_checkpoint.values.book import Book
    from langgraph_jsonl_checkpoint.values.seal import Serde


class Page:
    """A page of a book, for one commit.

    Args:
        book: The session's numbers.
        serde: Seals each text, if nothing may be readable on disk.

    Attributes:
        records: The `message` and `value` records to write before the record that needs them.
    """

    def __init__(self, book: Book, serde: Serde | None) -> None:
        self.records: list[records.Message | records.Value] = []
        self._book = book
        self._serde = serde
        self._seal = serde.seal if serde is not None and serde.seals else None
        self._next = book.next
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._stems: dict[int, ranges.Stem] = {}
        self._made: list[Item | ListPart | DictPart] = []
        self._encode = book.turn(self)

    def text(self, part: Any) -> msgspec.Raw:
        """A part as the text of a record's field."""
        if type(part) is msgspec.Raw and self._seal is None:
            return part
        plain = self._plain(part)
        return msgspec.Raw(self._seal(plain) if self._seal else plain)

    def keep(self, behind: int) -> None:
        """The commit is on disk and ends before record `behind`: its numbers count."""
        self._book.turn(None)
        self._book.take(self._numbers, self._stems, behind)
        for part in self._made:
            if not isinstance(part, Item):
                part.before = None
            elif part.copied:
                part.tree = None  # its text is in the log, and what it is compared with is in its copy

    def drop(self) -> None:
        """The commit failed: what it numbered has no number."""
        self._book.turn(None)
        for part in self._made:
            part.session = None

    def _plain(self, part: Any) -> bytes:
        try:
            return self._encode(part)
        except UnicodeEncodeError:
            # Rare enough that no string is looked at for it before.
            return self._encode(_without_surrogates(part))
        except (RecursionError, msgspec.DecodeError):  # the second is what a line's parser makes of the first
            raise ValueEncodingError(
                "a value is nested too deeply; nothing was stored. Store it in flat pieces, or as a text"
            ) from None

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
        for begin, length in part.stretches:
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


def _without_surrogates(part: Any) -> Any:
    """A part whose strings with lone surrogates are tagged; parts within parts are left to their own turn."""
    if type(part) is str:
        return tag_text(part)
    if type(part) is list:
        return [_without_surrogates(p) for p in part]
    if type(part) is dict:
        if all(type(tag_text(k)) is str for k in part):
            return {k: _without_surrogates(p) for k, p in part.items()}
        return {"$dict": [[tag_text(k), _without_surrogates(p)] for k, p in part.items()]}
    if type(part) is DictPart and not part.large:
        return _without_surrogates(part.parts)
    return part
