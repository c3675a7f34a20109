"""What is left of a damaged log, as a new session; the damaged one stays as it is.

Three things must not happen: that a record of another log gets in; that a state is rebuilt from a part of what it was
made of; that a tool call counts as never started because the record of its start is lost.
"""

from __future__ import annotations

import contextlib
import itertools
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from langgraph_jsonl_checkpoint.errors import (
    ChainKeyError,
    CorruptSessionError,
    UnsupportedVersionError,
    WrongSerdeError,
)
from langgraph_jsonl_checkpoint.folds.contents import Contents
from langgraph_jsonl_checkpoint.folds.deltas import rebuilt_from
from langgraph_jsonl_checkpoint.log import journal, local, packing, records
from langgraph_jsonl_checkpoint.log.arrangement import arranged
from langgraph_jsonl_checkpoint.log.lines import Lines
from langgraph_jsonl_checkpoint.log.surrogates import tag_text
from langgraph_jsonl_checkpoint.log.survey import span
from langgraph_jsonl_checkpoint.upkeep.verification import Problem, surveyed
from langgraph_jsonl_checkpoint.values.book import Book
from langgraph_jsonl_checkpoint.values.references import DanglingError, References, texts_of
from langgraph_jsonl_checkpoint.values.text import printable
from langgraph_jsonl_checkpoint.values.thaw import Thawer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langgraph_jsonl_checkpoint.log.survey import Survey
    from langgraph_jsonl_checkpoint.sessions.identity import Identity
    from langgraph_jsonl_checkpoint.sessions.pool import Sessions
    from langgraph_jsonl_checkpoint.values.seal import Serde


@dataclass(frozen=True)
class Salvage:
    """What came of a salvage.

    Attributes:
        thread_id: The damaged thread.
        into: The new one.
        path: The damaged log.
        records: How many records the new one has of the old one.
        missing: (first, last) of the records that could not be read.
        lost: What is wrong with the log, in the order in which it stands there.
        dropped: Records that can be read and were left out: they refer to missing ones, or are none of this log's.
        unchecked: Records of a torn frame, which no checksum holds.
    """

    thread_id: str
    into: str
    path: str
    records: int
    missing: tuple[tuple[int, int], ...]
    lost: tuple[Problem, ...]
    dropped: tuple[Problem, ...]
    unchecked: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing was wrong with the log, missing, or left out."""
        return not (self.lost or self.missing or self.dropped)

    def __str__(self) -> str:
        rows = [
            f"{printable(self.thread_id)}: {self.records} records are in thread {self.into!r} now",
            f"  {self.path}",
        ]
        rows += [f"  lost: {problem}" for problem in self.lost]
        rows += [f"  missing: {span(first, last)}" for first, last in self.missing]
        rows += [f"  left out: {problem}" for problem in self.dropped]
        if self.unchecked:
            rows.append(f"  without a checksum: {span(self.unchecked[0], self.unchecked[-1])}")
        return "\n".join(rows)


class _Kept(NamedTuple):
    """A record that stays."""

    seq: int
    offset: int
    line: journal.Line
    record: records.Record | None


def salvage(sessions: Sessions, serde: Callable[[str], Serde], thread_id: str, into: str) -> Salvage:
    """Write every record of a log that can be read into a new session.

    Raises:
        ValueError: The new thread exists.
        NoSessionError: The thread has no log.
        CorruptSessionError: Nothing of it can be read, or it is another thread's.
        WrongSerdeError: Its texts were sealed with another serde, or another key.
        ChainKeyError: It was made with another key.
        UnsupportedVersionError: Another version of the package wrote it.
    """
    if into == thread_id:
        raise ValueError("a log is never salvaged into its own place; give another thread id")
    identity, key = sessions.identity(thread_id), sessions.writer.chain_key
    data, found = surveyed(identity, key)
    if found.commits and found.misfits == len(found.commits):
        raise ChainKeyError(identity.path, ChainKeyError.other_than(key))
    salvager = _Salvager(identity, serde(thread_id))
    salvager.take(found, key, _told(data))
    if salvager.refused is not None:
        reason = f"no record with a text can be opened ({salvager.refused.reason})"
        raise WrongSerdeError(identity.path, salvager.refused.offset, salvager.refused.seq, reason)
    salvager.drop_half_deltas()
    kept = salvager.kept
    if all(isinstance(each.record, (records.Open, records.Close, records.Prune)) for each in kept):
        raise CorruptSessionError(identity.path, 0, 0, "no record of it can be read")
    missing = _gaps(salvager.seen, salvager.end)
    report = Salvage(
        thread_id=thread_id,
        into=into,
        path=identity.path,
        records=len(kept),
        missing=tuple(missing),
        lost=tuple(Problem.of(identity.path, flaw) for flaw in found.flaws),
        dropped=tuple(sorted(salvager.dropped, key=lambda p: (p.seq, p.offset))),
        unchecked=tuple(salvager.unchecked),
    )
    gone = None if report.is_whole else {"records": len(report.dropped) + sum(b - a + 1 for a, b in missing)}
    log = _composed(salvager, sessions.identity(into), serde, key, gone)
    try:
        local.create(sessions.path(into), log, sync=True).close()
    except FileExistsError:
        raise ValueError(f"thread {into!r} exists; a salvage never writes over a log. Give another id") from None
    return report


def _told(data: bytes) -> dict[int, bytes]:
    """By the seq of a commit, the digest before it, as far as the log's index tells it."""
    index = packing.find(data)
    if index is None:
        return {}
    told = {index.position.seq: index.position.chain}
    for frame in index.frames:
        with contextlib.suppress(ValueError):
            told[frame.seq] = bytes.fromhex(frame.chain)
    return told


class _Salvager:
    def __init__(self, identity: Identity, serde: Serde) -> None:
        self.identity = identity
        self.header: records.Session | None = None
        self.kept: list[_Kept] = []
        self.dropped: list[Problem] = []
        self.unchecked: list[int] = []
        self.seen = {0}  # the records that can be read
        self.end = 0  # behind the last of them
        self._serde = serde
        self._references = References(serde, opens=True)
        self._lines = Lines(identity.path)
        self._contents = Contents(self._lines)  # refuses what readers would

    @property
    def refused(self) -> Problem | None:
        """The first record whose text the serde cannot open, if it can open none of the log."""
        return self.dropped[0] if self._references.are_of_another_serde else None

    def take(self, found: Survey, key: bytes, told: dict[int, bytes]) -> None:
        """The records that stay, in their order."""
        for commit, reason in arranged(found.commits, key, told):
            if reason:
                self._drop(commit.offset, commit.seq, reason)
                continue
            for seq, text in enumerate(commit.lines, commit.seq):
                self._take(commit.offset, seq, journal.line_of(text))
                if not commit.checked:
                    self.unchecked.append(seq)
            self.end = commit.seq + len(commit.lines)
            self.seen.update(range(commit.seq, self.end))

    def _take(self, offset: int, seq: int, line: journal.Line) -> None:
        try:
            msgspec.json.decode(line.text)
            record = records.parse(line.kind, line.text)
            if isinstance(record, records.Session):
                self.header = self.identity.checked(record, seq)
                return
            kept = self._referring(record, line)
            for text in kept:
                # Folds look up earlier records, so it gets the place that it has behind those that are kept.
                place = self._lines.next
                self._lines.add([journal.Line(line.kind, text)], [(place, offset)])
                self._contents.apply(line.kind, text, place)
        except LookupError:
            raise UnsupportedVersionError.of_record(self.identity.path, line.kind, seq) from None
        except DanglingError as error:
            self._drop(offset, seq, str(error))
            return
        except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
            if not seq:  # the header is another session's
                raise CorruptSessionError(self.identity.path, offset, seq, str(error)) from None
            self._drop(offset, seq, f"the record is not what its type says ({error})")
            return
        self.kept += [_Kept(seq, offset, journal.Line(line.kind, text), record) for text in kept]

    def _referring(self, record: records.Record | None, line: journal.Line) -> list[bytes]:
        """The record's line, or for values the lines of those that stay. All that they refer to is there."""
        if isinstance(record, records.Message):
            self._references.take("message", record.n, record.message)
        elif isinstance(record, records.Value):
            return list(self._values(record, line))
        else:
            for text in texts_of(record):
                self._references.check(text)
        return [line.text]

    def _values(self, record: records.Value, line: journal.Line) -> Iterator[bytes]:
        held: list[tuple[int, msgspec.Raw]] = []
        failed: DanglingError | None = None
        for number, text in enumerate(record.values, record.n):
            try:
                self._references.take("value", number, text)
            except DanglingError as error:
                failed = error
            else:
                held.append((number, text))
        if failed is not None and not held:
            raise failed
        ts = records.timestamp(line.text)
        yield from [line.text] if failed is None else [records.line(0, ts, each) for each in records.values_of(held)]

    def drop_half_deltas(self) -> None:
        """Leave out the checkpoints whose DeltaChannels would be rebuilt from a part of their writes.

        These writes stand between the checkpoint that holds the channel's value and the one that is rebuilt; and also
        up to the next checkpoint on either side, because threads that race store them.
        """
        gaps = _gaps({0, *(kept.seq for kept in self.kept)}, self.end)
        if not gaps:
            return
        lines = Lines(self.identity.path)
        contents = Contents(lines)
        for i, kept in enumerate(self.kept):
            lines.add([kept.line], [(i, kept.offset)])
            contents.apply(kept.line.kind, kept.line.text, i)
        thaw = Thawer(Book(lines, contents.stored.numbers), self._serde)
        fold, halves = contents.checkpoints, set()
        places: dict[str, list[int]] = defaultdict(list)  # where a namespace's checkpoints stand
        for name, ns in fold.newest_first():
            insort(places[ns], fold.seq(ns, name))
        for name, ns in fold.newest_first():
            begin, own = _begin_of_deltas(contents, thaw, ns, name), fold.seq(ns, name)
            if begin is None:
                continue
            before, behind = bisect_left(places[ns], begin) - 1, bisect_right(places[ns], own)
            low = self.kept[places[ns][before]].seq if before >= 0 else -1
            high = self.kept[places[ns][behind] if behind < len(places[ns]) else -1].seq
            if begin < 0 or any(low < last and first <= high for first, last in gaps):
                halves.add(own)
        for at in sorted(halves, reverse=True):
            gone = self.kept.pop(at)
            self._drop(gone.offset, gone.seq, "writes that its DeltaChannels are rebuilt from are missing")

    def _drop(self, offset: int, seq: int, reason: str) -> None:
        self.dropped.append(Problem(self.identity.path, offset, seq, reason))


def _begin_of_deltas(contents: Contents, thaw: Thawer, ns: str, name: str) -> int | None:
    """Where the checkpoint stands that a checkpoint's DeltaChannels are rebuilt from; None if it has none of them.

    -1 if there is no such checkpoint, or something cannot be read.
    """
    fold = contents.checkpoints
    record = fold.get(ns, name)
    if record is None:
        return None
    try:
        ancestors, is_whole = rebuilt_from(fold, thaw, record)
    except CorruptSessionError:
        return -1
    if not is_whole:
        return -1
    return fold.seq(ns, ancestors[-1]) if ancestors else None


def _gaps(seqs: set[int], end: int) -> list[tuple[int, int]]:
    """(first, last) of the runs of numbers below `end` that are missing."""
    have = sorted({*seqs, end})
    return [(a + 1, b - 1) for a, b in itertools.pairwise(have) if b > a + 1]


def _composed(
    salvager: _Salvager, into: Identity, serde: Callable[[str], Serde], key: bytes, gone: dict[str, int] | None
) -> bytes:
    """The new log; `gone` counts the records that it lacks, if it lacks any."""
    kept, source = salvager.kept, salvager.identity.thread_id
    old = salvager.header
    head = into.header(
        forked_from={"thread_id": tag_text(source), "seq": kept[-1].seq},
        **({} if old is None else {"parent": old.parent, "delegation_depth": old.delegation_depth}),
    )
    ts = records.timestamp(kept[-1].line.text)
    lines = []
    for _, _, line, record in kept:
        text = line.text
        if isinstance(record, records.Open) and record.hook and gone is not None:
            # Where a hook was, a call without a record never started. But here its record may be lost.
            text = records.line(0, records.timestamp(text), msgspec.structs.replace(record, hook=False, within=[]))
        lines.append(text)
    if serde(source).seals:
        owner, heir = serde(source), serde(into.thread_id)
        lines = [msgspec.json.encode(heir.moved(msgspec.json.decode(text), owner)) for text in lines]
    if gone is not None:
        lines.insert(0, records.line(0, ts, records.Prune(strategy="salvage", removed=gone)))
    return packing.compose(records.line(0, ts, head), lines, key)
