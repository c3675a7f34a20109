"""Commits in sequence: lines ⇄ frames, each tied to the one before.

Pure: bytes in, commits out. Where a log stands is a `Position`; following it tells what came after, and what is
wrong behind that, if anything is.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from langgraph_jsonl_checkpoint.log import frames

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIGEST = 16
_CHAIN = b',"chain":"'
_TAIL = len(_CHAIN) + 2 * _DIGEST + len(b'"}\n')
_PACKED = 1 << 20
_GARBAGE_STEPS = 4096  # how many places behind damage are tried as the begin of a frame


class Position(NamedTuple):
    """Where a log stands after a commit.

    Attributes:
        offset: Byte offset behind the last commit's frame.
        seq: Sequence number of the next record.
        chain: Digest of the last commit.
    """

    offset: int = 0
    seq: int = 0
    chain: bytes = b""


class Line(NamedTuple):
    """One record's type and text, without the chain field that ends a commit."""

    kind: str
    text: bytes


@dataclass(frozen=True)
class Problem:
    """Why a log could not be followed to the end of the data.

    Attributes:
        offset: Byte offset of the first frame that is not whole and in sequence.
        reason: What is wrong with it.
        torn: True if nothing behind the offset is a commit: a writer died there. False: damage.
    """

    offset: int
    reason: str
    torn: bool


def commit(position: Position, lines: Sequence[bytes]) -> tuple[bytes, Position]:
    """The frame of a commit of `lines` (without line feeds) that follows `position`, and the position behind it."""
    text = b"\n".join(lines)
    digest = _digest(position.chain, text[:-1])
    text = b'%s,"chain":"%s"}\n' % (text[:-1], digest.hex().encode())
    if len(text) > frames.MAX_TEXT:
        raise OverflowError(f"a commit of {len(text)} bytes is larger than {frames.MAX_TEXT}")
    frame = frames.compress(text)
    return frame, Position(position.offset + len(frame), position.seq + len(lines), digest)


def follow(data: bytes, position: Position) -> tuple[list[list[Line]], Position, Problem | None]:
    """The whole commits of `data`, which begins at `position`, the position behind them, and what is wrong there."""
    view, base = memoryview(data), position.offset
    commits: list[list[Line]] = []
    while position.offset - base < len(data):
        start = position.offset - base
        try:
            text, end = frames.read(view, start)
            lines, seq, chain = _open(text, position)
        except _OutOfSequenceError as error:
            # A whole frame with an intact checksum: no dying writer leaves that.
            return commits, position, Problem(position.offset, str(error), torn=False)
        except frames.BadFrameError as error:
            torn = not _commit_behind(data, start, position.seq)
            return commits, position, Problem(position.offset, str(error), torn)
        commits += lines
        position = Position(base + end, seq, chain)
    return commits, position, None


def offset_of(data: bytes, seq: int) -> int:
    """The byte offset of the frame that holds a record."""
    view, at, lines = memoryview(data), 0, 0
    while True:
        text, end = frames.read(view, at)
        lines += text.count(b"\n")
        if lines > seq:
            return at
        at = end


def pack(header: bytes, lines: Sequence[bytes]) -> bytes:
    """A whole log of a header and other lines, numbered anew, in commits of about `_PACKED` bytes."""
    log, position = commit(Position(), [_renumbered(header, 0)])
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(_renumbered(line, position.seq + len(held)))
        size += len(line)
        if size >= _PACKED:
            frame, position = commit(position, held)
            log, held, size = log + frame, [], 0
    return log + commit(position, held)[0] if held else log


def _renumbered(line: bytes, seq: int) -> bytes:
    return b'{"seq":%d%s' % (seq, line[line.index(b",") :])


class _OutOfSequenceError(Exception):
    """A whole frame that does not hold the commits that must come next."""


def _open(text: bytes, position: Position) -> tuple[list[list[Line]], int, bytes]:
    """The commits of a frame's text, the next seq and the digest of the last; a packed frame holds several."""
    if not text.endswith(b"\n"):
        raise _OutOfSequenceError("the frame's text is not made of lines")
    commits: list[list[Line]] = []
    seq, chain, begin, at, lines = position.seq, position.chain, 0, 0, []
    while at < len(text):
        feed = text.index(b"\n", at)
        envelope = b'{"seq":%d,"type":"' % seq
        if not text.startswith(envelope, at):
            raise _OutOfSequenceError(f"a line does not begin with seq {seq}")
        quote = text.index(b'"', at + len(envelope))
        kind = text[at + len(envelope) : quote].decode("ascii", "replace")
        bare, at = at, feed + 1
        if at - _TAIL > begin and text.startswith(_CHAIN, at - _TAIL):
            chain = _digest(chain, text[begin : at - _TAIL])
            if text[at - _TAIL + len(_CHAIN) : at - len(b'"}\n')] != chain.hex().encode():
                raise _OutOfSequenceError("the commit does not follow the one before: its chain digest differs")
            lines.append(Line(kind, text[bare : at - _TAIL] + b"}"))
            commits.append(lines)
            begin, lines = at, []
        else:
            lines.append(Line(kind, text[bare:feed]))
        seq += 1
    if lines:
        raise _OutOfSequenceError("the frame ends inside a commit")
    return commits, seq, chain


def _digest(before: bytes, text: bytes) -> bytes:
    """BLAKE2b over the digest before and a commit's text; the text comes without its last brace and the chain."""
    hashed = hashlib.blake2b(before, digest_size=_DIGEST)
    hashed.update(text)
    hashed.update(b"}\n")
    return hashed.digest()


def _commit_behind(data: bytes, start: int, seq: int) -> bool:
    """Whether a whole, later frame of a log stands behind a frame that cannot be read.

    Then the damage is in the middle: no writer dies there. A frame with an earlier seq is no sign of that: a
    disk may show old data in a page that it lost.
    """
    view, at = memoryview(data), start
    for _ in range(_GARBAGE_STEPS):
        at = data.find(frames.MAGIC, at + 1)
        if at < 0:
            return False
        try:
            text, _ = frames.read(view, at)
        except frames.BadFrameError:
            continue
        number = re.match(rb'\{"seq":(\d{1,18}),', text)
        if number and int(number[1]) > seq:
            return True
    return True
