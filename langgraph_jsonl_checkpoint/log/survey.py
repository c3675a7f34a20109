"""A log read to its end, whatever is wrong with it: every commit that can be read, and every flaw.

`journal.follow` stops at the first flaw, because nothing may be built upon what stands behind it. A survey goes on:
it serves those who want to know how much is wrong, and those who want to have what is left.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import zstandard

from langgraph_jsonl_checkpoint.log import frames, journal

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEP = 64  # a torn frame is decompressed in steps of so many bytes, so that bad ones cost nothing that came before


class Commit(NamedTuple):
    """A commit that can be read.

    Attributes:
        offset: Byte offset of its frame.
        seq: The seq of its first record, as that says.
        lines: Its records' lines, without the chain field.
        text: What its digest is made of.
        chain: Its digest as it stands there; empty if the commit is cut short.
        checked: Whether a frame's checksum says that it is what was written.
    """

    offset: int
    seq: int
    lines: list[bytes]
    text: bytes
    chain: bytes
    checked: bool = True

    def follows(self, chain: bytes, key: bytes) -> bool:
        """Whether it was appended behind the commit with this digest, and not changed since."""
        return bool(self.chain) and journal.digest(chain, self.text, key) == self.chain


class Flaw(NamedTuple):
    """Something that no writer leaves, or a torn end.

    Attributes:
        offset: Byte offset of the frame.
        seq: The seq of the first record that it is about.
        reason: What is wrong.
        bytes: How many bytes cannot be read.
        torn: Whether it is the end of the log, and may be what a writer left that died.
    """

    offset: int
    seq: int
    reason: str
    bytes: int = 0
    torn: bool = False


@dataclass
class Survey:
    """What stands in a log.

    Attributes:
        commits: The commits, in the order in which they stand there.
        flaws: What is wrong, in that order.
        good: How many of the commits, and of their records, stand before the first flaw.
        frames: How many frames of commits can be read.
        misfits: How many commits do not follow the one before by their digest.
        index: Where the index stands; 0 if there is none.
    """

    commits: list[Commit] = field(default_factory=list)
    flaws: list[Flaw] = field(default_factory=list)
    good: tuple[int, int] = (0, 0)
    frames: int = 0
    misfits: int = 0
    index: int = 0


def span(first: int, last: int) -> str:
    """A range of records, in words."""
    return f"record {first}" if first == last else f"records {first} to {last}"


def survey(data: bytes, key: bytes) -> Survey:
    """All that stands in a log's bytes."""
    surveyor = _Surveyor(data, key)
    surveyor.walk()
    return surveyor.found


class _Surveyor:
    def __init__(self, data: bytes, key: bytes) -> None:
        self.found = Survey()
        self._data, self._view, self._key = data, memoryview(data), key
        self._at = journal.Position()  # behind the last commit
        self._is_lost = False  # something behind it could not be read

    def walk(self) -> None:
        at = 0
        while at < len(self._data):
            if end := frames.skippable_end(self._view, at):
                at = self._skip(at, end)
                continue
            try:
                text, end = frames.read(self._view, at)
            except frames.BadFrameError as error:
                at = self._gap(at, str(error))
                continue
            self.found.frames += 1
            for commit in _commits(text, at):
                self._take(commit, at, end - at)
            at = end
        if not self._data:
            self._flaw(Flaw(0, 0, "the file is empty"))
        if not self.found.flaws:
            self.found.good = len(self.found.commits), self._at.seq

    def _flaw(self, flaw: Flaw) -> None:
        if not self.found.flaws:
            self.found.good = len(self.found.commits), self._at.seq
        self.found.flaws.append(flaw)

    def _skip(self, at: int, end: int) -> int:
        """Pass over the index; its content is for others to look at."""
        if self._at.seq != 1:
            return self._gap(at, "a skippable frame stands where no index belongs", may_be_torn=False)
        if not self._is_next(end):
            return self._gap(at, "behind the index no packed frame begins", may_be_torn=False)
        self.found.index = at
        return end

    def _is_next(self, at: int) -> bool:
        with contextlib.suppress(frames.BadFrameError):
            text, _ = frames.read(self._view, at)
            return text.startswith(b'{"seq":%d,' % self._at.seq)
        return False

    def _take(self, commit: Commit | None, at: int, size: int) -> None:
        if commit is None:
            self._flaw(Flaw(at, self._at.seq, "the frame's text is not made of lines of a log", size))
            self._is_lost = True
            return
        seq, problem = self._at.seq, ""
        if not commit.chain:
            problem = "the frame ends inside a commit"
        elif self._is_lost:
            self._tell_what_is_lost(commit.seq)
        elif commit.seq > seq:
            problem = f"the next record has seq {commit.seq}: missing is {span(seq, commit.seq - 1)}"
        elif commit.seq < seq:
            problem = f"the next record has seq {commit.seq}, which came before, and not {seq}"
        elif not commit.follows(self._at.chain, self._key):
            problem = "the commit does not follow the one before, or was changed: its chain digest differs"
        if problem:
            self._flaw(Flaw(at, seq, problem))
            self.found.misfits += 1
        self.found.commits.append(commit)
        self._at, self._is_lost = journal.Position(at, commit.seq + len(commit.lines), commit.chain), False

    def _tell_what_is_lost(self, behind: int) -> None:
        if behind > self._at.seq:
            last = self.found.flaws[-1]
            reason = f"{last.reason}; {span(self._at.seq, behind - 1)} cannot be read"
            self.found.flaws[-1] = last._replace(reason=reason)

    def _gap(self, at: int, reason: str, *, may_be_torn: bool = True) -> int:
        """What cannot be read at an offset; where the next frame of a log begins."""
        behind = journal.frame_behind(self._data, at, self._at, self._key)
        end = len(self._data) if behind is None else behind
        # A log only gets its place when its first commit is whole, so that is never torn.
        is_torn = may_be_torn and behind is None and bool(self._at.seq)
        self._flaw(Flaw(at, self._at.seq, reason, end - at, is_torn))
        self._is_lost = True
        for commit in _commits(_decompressed(self._data[at:end]), at):
            # The frame's checksum is lost, but the commit's digest is as good. In a frame that is only cut short even
            # the whole lines of a commit without its digest are what was written.
            if commit is None or commit.seq != self._at.seq:
                break
            is_cut = is_torn and reason == frames.CUT_SHORT and not commit.chain
            if not is_cut and not commit.follows(self._at.chain, self._key):
                break
            self.found.commits.append(commit._replace(checked=not is_cut))
            if is_cut:
                break
            self._at = journal.Position(at, commit.seq + len(commit.lines), commit.chain)
        return end


def _commits(text: bytes, offset: int) -> Iterator[Commit | None]:
    """The commits of a frame's text, the last one perhaps without its end; None in the place of what is no commit."""
    *whole, rest = text.split(b"\n")
    lines: list[bytes] = []
    for line in whole:
        lines.append(line)
        if journal.unchained(line) is not line:
            yield _commit(lines, offset, journal.chain_of(line + b"\n"))
            lines = []
    if lines:
        yield _commit(lines, offset, "")
    elif rest or not text:
        yield None


def _commit(lines: list[bytes], offset: int, digest: str) -> Commit | None:
    seqs = [int(found[1]) if (found := journal.SEQ.match(line)) else -1 for line in lines]
    if seqs[0] < 0 or seqs != list(range(seqs[0], seqs[0] + len(seqs))):
        return None
    plain = [*lines[:-1], journal.unchained(lines[-1])]
    chain = bytes.fromhex(digest) if re.fullmatch("[0-9a-f]{32}", digest) else b""
    return Commit(offset, seqs[0], plain, b"\n".join(plain)[:-1], chain)


def _decompressed(data: bytes) -> bytes:
    """As much of a damaged frame's text as can be decompressed, and not much more than a reader takes."""
    reader = zstandard.ZstdDecompressor().decompressobj()
    text = bytearray()
    with contextlib.suppress(zstandard.ZstdError):
        for at in range(0, len(data), _STEP):
            text += reader.decompress(data[at : at + _STEP])
            if reader.eof or len(text) > frames.MAX_TEXT:
                break
    return bytes(text)
