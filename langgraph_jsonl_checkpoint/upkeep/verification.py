"""Checks whether a log is what was written: frames, seqs, chain, records, references, folds. Nothing is changed."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from langgraph_jsonl_checkpoint.errors import (
    ChainKeyError,
    CorruptSessionError,
    NoSessionError,
    UnsupportedVersionError,
)
from langgraph_jsonl_checkpoint.folds.contents import VERSION, Contents, Stored, Versioned
from langgraph_jsonl_checkpoint.log import journal, logfile, packing, records
from langgraph_jsonl_checkpoint.log.garbage import no_collections
from langgraph_jsonl_checkpoint.log.lines import Lines
from langgraph_jsonl_checkpoint.log.survey import Flaw, survey
from langgraph_jsonl_checkpoint.sessions.identity import header_text
from langgraph_jsonl_checkpoint.sessions.opened import ATTEMPTS
from langgraph_jsonl_checkpoint.values.book import Book
from langgraph_jsonl_checkpoint.values.references import DanglingError, References, texts_of
from langgraph_jsonl_checkpoint.values.text import printable
from langgraph_jsonl_checkpoint.values.thaw import BadTextError, Thawer

if TYPE_CHECKING:
    from typing import Self

    from langgraph_jsonl_checkpoint.log.survey import Commit, Survey
    from langgraph_jsonl_checkpoint.sessions.identity import Identity
    from langgraph_jsonl_checkpoint.values.seal import Serde


class Head(NamedTuple):
    """Where a log ends: kept somewhere else, it tells later whether the log still holds all that it held then.

    Attributes:
        seq: The seq of the last record.
        chain: The digest of the last commit, in hexadecimal: it stands for all before it.
    """

    seq: int
    chain: str


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a log.

    Attributes:
        path: The log.
        offset: Byte offset of the frame.
        seq: The seq of the first record that it is about.
        reason: What is wrong.
        torn: Whether it is a torn end, as a writer leaves it that dies, or a disk that loses what came last. The next
            writer moves it aside.
    """

    path: str
    offset: int
    seq: int
    reason: str
    torn: bool = False

    @classmethod
    def of(cls, path: str, flaw: Flaw) -> Self:
        """What a survey found, as it is told of."""
        return cls(path, flaw.offset, flaw.seq, flaw.reason, flaw.torn)

    def __str__(self) -> str:
        return f"byte {self.offset}, record {self.seq}: {'torn end: ' if self.torn else ''}{self.reason}"


@dataclass(frozen=True)
class Verification:
    """What a check of a log found.

    Attributes:
        thread_id: The thread.
        path: The log.
        bytes: Its size.
        frames: How many frames of it can be read.
        commits: How many commits.
        records: How many records.
        head: Its last whole commit; None if there is none.
        sealed: How many texts this saver cannot open, whose references were not looked at.
        problems: What is wrong, in the order in which it stands there.
    """

    thread_id: str
    path: str
    bytes: int
    frames: int
    commits: int
    records: int
    head: Head | None
    sealed: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong. A torn end counts: nobody knows whether it was stored before it was torn."""
        return not self.problems

    def __str__(self) -> str:
        held = f"{self.records} records in {self.commits} commits"
        if self.ok:
            sealed = f"; {self.sealed} sealed texts were not looked into" if self.sealed else ""
            return f"{printable(self.thread_id)}: good; {held}, {self.bytes} bytes{sealed}"
        told = "".join(f"\n  {problem}" for problem in self.problems)
        return f"{printable(self.thread_id)}: damaged; {held} can be read\n  {self.path}{told}"


def verify(identity: Identity, serde: Serde, key: bytes, head: tuple[int, str] | None) -> Verification:
    """Check a log.

    Args:
        identity: Which session it is.
        serde: The saver's serde for the thread.
        key: The key of the chain.
        head: A commit that it must hold.

    Raises:
        NoSessionError: There is no log.
        UnsupportedVersionError: Another version of the package wrote it, so nothing can be said.
        OSError: It cannot be read.
    """
    data, found = surveyed(identity, key)
    with no_collections():
        check = _Check(identity, serde, data, found)
        check.records()
        if check.is_whole:
            check.folds()
    flaws = [*_keyed(found, key), *check.summed]
    if head is not None:
        flaws += _anchored(found, head)
    last = next((c for c in reversed(found.commits) if c.chain), None)
    return Verification(
        thread_id=identity.thread_id,
        path=identity.path,
        bytes=len(data),
        frames=found.frames,
        commits=len(found.commits),
        records=sum(len(commit.lines) for commit in found.commits),
        head=None if last is None else Head(last.seq + len(last.lines) - 1, last.chain.hex()),
        sealed=check.references.sealed,
        problems=tuple(Problem.of(identity.path, flaw) for flaw in sorted(flaws)),
    )


def surveyed(identity: Identity, key: bytes) -> tuple[bytes, Survey]:
    """A log's bytes, and all that stands in them.

    Raises:
        NoSessionError: There is no log.
        UnsupportedVersionError: Another version of the package wrote it.
    """
    data, found = _surveyed(identity, key, locked=False)
    if found.flaws and found.flaws[-1].torn:
        # It may be a commit that somebody is just writing; who has the lock sees all of it.
        return _surveyed(identity, key, locked=True)
    return data, found


def _surveyed(identity: Identity, key: bytes, *, locked: bool) -> tuple[bytes, Survey]:
    data = _read(identity, locked=locked)
    with contextlib.suppress(ValueError):  # there is no header: the survey says so
        header_text(identity.path, data)
    return data, survey(data, key)


def _read(identity: Identity, *, locked: bool) -> bytes:
    for _ in range(ATTEMPTS):
        try:
            file = logfile.LogFile(identity.path)
        except (FileNotFoundError, NotADirectoryError):
            raise NoSessionError.of(identity.thread_id, identity.path) from None
        try:
            size = file.lock() if locked else file.size()
            if size is not None:
                return file.read(0, size)
        finally:
            if locked:
                file.unlock()
            file.close()
    raise NoSessionError(f"{identity.path} was replaced {ATTEMPTS} times during one call; try again")


def _keyed(found: Survey, key: bytes) -> list[Flaw]:
    """The flaws of the frames; if no commit fits the key, that is the one flaw."""
    if 1 < len(found.commits) == found.misfits:
        said = f"the log was made with {ChainKeyError.other_than(key)}"
        return [Flaw(0, 0, f"not one commit follows the one before by its digest: {said}")]
    return found.flaws


def _anchored(found: Survey, head: tuple[int, str]) -> list[Flaw]:
    """The flaw that a log does not hold a commit which it must hold, if it does not."""
    seq, chain = head
    for commit in found.commits:
        if commit.seq + len(commit.lines) - 1 == seq and commit.chain.hex() == chain:
            return []
    at = next((c.offset for c in found.commits if c.seq <= seq < c.seq + len(c.lines)), None)
    reason = (
        f"the log ends before record {seq}, which it had when it was anchored"
        if at is None
        else f"record {seq} does not end the commit that the log had there when it was anchored"
    )
    at = found.commits[-1].offset if at is None and found.commits else at or 0
    return [Flaw(at, seq, f"{reason}: it was cut, changed or written anew (prune and delete_for_runs do that)")]


class _Check:
    """What the records say, as far as the log is in sequence."""

    def __init__(self, identity: Identity, serde: Serde, data: bytes, found: Survey) -> None:
        self.flaws: list[Flaw] = []
        self.references = References(serde, opens=serde.seals)
        self._identity = identity
        self._serde = serde
        self._found = found
        self._lines = Lines(identity.path)
        self._contents = Contents(self._lines)
        self._data = data

    @property
    def is_whole(self) -> bool:
        """Whether the folds can be looked at."""
        return not self.flaws and bool(self._lines.next)

    @property
    def summed(self) -> list[Flaw]:
        """The flaws; if the serde can open no text of the log, that is the one flaw."""
        if not self.references.are_of_another_serde:
            return self.flaws
        first = self.flaws[0]
        said = "not one text can be opened: the log was written with another serde than this saver's, or another key"
        return [first._replace(reason=f"{said} ({first.reason})")]

    def records(self) -> None:
        """Look at each record, and at the index where the lines that it is about end."""
        index = packing.find(self._data) if self._found.index else None
        if self._found.index and index is None:
            self._say(self._found.index, 1, "the index is damaged; readers read the lines instead")
        for commit in self._found.commits[: self._found.good[0]]:
            lines = [journal.line_of(line) for line in commit.lines]
            self._lines.add(lines, [(commit.seq, commit.offset)])
            for seq, line in enumerate(lines, commit.seq):
                try:
                    self._take(line, seq)
                except DanglingError as error:
                    self._say(commit.offset, seq, str(error))
                except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
                    self._say(commit.offset, seq, f"the record is not what its type says ({error})")
            if index is not None and index.position.seq == self._lines.next:
                if not self.flaws:  # else the folds here lack a record
                    self._check_index(index, commit)
                index = None
        if index is not None and index.position.seq < self._lines.next:
            self._say(self._found.index, 1, "the index ends inside a commit")

    def _take(self, line: journal.Line, seq: int) -> None:
        msgspec.json.decode(line.text)  # all of it, also what no field of its type holds
        try:
            record = records.parse(line.kind, line.text)
        except LookupError:
            raise UnsupportedVersionError.of_record(self._identity.path, line.kind, seq) from None
        if isinstance(record, records.Session):
            self._identity.checked(record, seq)
            return
        if not seq:
            raise ValueError("the first record is no header")
        if isinstance(record, records.Message):
            self.references.take("message", record.n, record.message)
        elif isinstance(record, records.Value):
            for number, text in enumerate(record.values, record.n):
                self.references.take("value", number, text)
        else:
            for text in texts_of(record):
                self.references.check(text)
        self._contents.apply(line.kind, line.text, seq)

    def _check_index(self, index: packing.PackedLog, last: Commit) -> None:
        """Compare the index with the commits up to `last`."""
        begins: dict[int, tuple[int, str]] = {}
        before = b""
        for commit in self._found.commits[: self._found.good[0]]:
            begins.setdefault(commit.offset, (commit.seq, before.hex()))
            before = commit.chain
        frames = [(frame.offset, (frame.seq, frame.chain)) for frame in index.frames]
        ends = {offset for offset, _ in frames[1:]} | {index.position.offset}
        behind = next((offset for offset in begins if offset > last.offset), len(self._data))
        if (
            frames != [(offset, at) for offset, at in begins.items() if 0 < offset <= last.offset]
            or ends != {frame.end for frame in index.frames}
            or index.position != (behind, self._lines.next, last.chain)
        ):
            self._say(self._found.index, 1, "the index says other frames than there are")
            return
        try:
            if msgspec.json.decode(index.contents, type=Versioned).version != VERSION:
                return  # another release wrote it, whose folds may come to something else; readers skip such an index
            said = msgspec.json.decode(index.contents, type=Stored)
        except msgspec.DecodeError:
            self._say(
                self._found.index, 1, "the index says something else than folds; readers read the lines instead"
            )
            return
        if said != msgspec.json.decode(msgspec.json.encode(self._contents.stored), type=Stored):
            self._say(self._found.index, 1, "the index says something else than the lines")

    def folds(self) -> None:
        """What a reader makes of the log: the newest checkpoint of each namespace, and the tool calls."""
        thaw = Thawer(Book(self._lines, self._contents.stored.numbers), self._serde)
        fold = self._contents.checkpoints
        try:
            for _ in self._contents.tools:
                pass
            for ns in [] if self.references.sealed else fold.namespaces():
                record = fold.get(ns, None)
                assert record is not None  # noqa: S101 - it is a namespace because it has one
                name = record.id
                texts = [*texts_of(record), *(write.text for write in fold.writes(ns, name))]
                for text in texts:
                    self._read(thaw, text, fold.seq(ns, name), name)
        except CorruptSessionError as error:
            self._say(error.offset, error.seq, error.reason)

    def _read(self, thaw: Thawer, text: msgspec.Raw, seq: int, name: str) -> None:
        try:
            thaw.value(text)
        except BadTextError as error:
            self._say(self._lines.offset(seq), seq, f"checkpoint {name!r} cannot be read: {error}")

    def _say(self, offset: int, seq: int, reason: str) -> None:
        self.flaws.append(Flaw(offset, seq, reason))
