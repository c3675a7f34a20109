"""Commits in sequence: lines ⇄ frames, each tied to the one before.

Pure: bytes in, lines out. A `Position` is a place between two commits of a log; `follow` tells what stands behind it,
and what is wrong behind that, if anything is.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from langgraph_jsonl_checkpoint.log import frames

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIGEST = 16
_CHAIN = b',"chain":"'
_TAIL = len(_CHAIN) + 2 * _DIGEST + len(b'"}')
_FROM = -_TAIL
_SECTOR = 512  # bytes that a disk writes together or not at all; the sectors of larger disks are made of these
_PUTS = re.compile(rb'^\{"seq":\d+,"type":"checkpoint"', re.MULTILINE)
_GARBAGE_STEPS = 4096  # how many places behind damage are tried as the begin of a frame
SEQ = re.compile(rb'\{"seq":(\d{1,18}),"type":"')
MAX_LOOSE = 2 * frames.MAX_TEXT
"""How much text may stand in frames that are not packed. It is held in memory, and a kilobyte may hold a gigabyte."""


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


@dataclass
class Followed:
    """What stands behind a position.

    Attributes:
        position: Where it ends.
        lines: The records, in sequence.
        frames: (seq of the first record, offset) of each frame.
        problem: What is wrong behind it, if anything is.
    """

    position: Position
    lines: list[Line] = field(default_factory=list)
    frames: list[tuple[int, int]] = field(default_factory=list)
    problem: Problem | None = None


class OutOfSequenceError(Exception):
    """A whole frame that does not hold the commits that must come next."""


def commit(position: Position, lines: Sequence[bytes], key: bytes = b"") -> tuple[bytes, Position]:
    """The frame of a commit of `lines` (without line feeds) that follows `position`, and the position behind it."""
    # The text may be large, so it is put together in one place and not copied.
    text = bytearray()
    for line in lines:
        text += line
        text += b"\n"
    del text[-2:]
    chain = digest(position.chain, text, key)
    text += b'%s%s"}\n' % (_CHAIN, chain.hex().encode())
    if len(text) > frames.MAX_TEXT:
        raise OverflowError(f"a commit of {len(text)} bytes is larger than {frames.MAX_TEXT}")
    frame = frames.compress(text)
    return frame, Position(position.offset + len(frame), position.seq + len(lines), chain)


def follow(data: bytes, position: Position, key: bytes = b"") -> Followed:
    """The whole commits of `data`, which begins at `position`, and what is wrong behind them."""
    view, base = memoryview(data), position.offset
    at, (_, seq, chain) = 0, position
    found = Followed(position)
    room = MAX_LOOSE
    try:
        while at < len(data):
            # An index stands behind the header and nowhere else.
            begin = (frames.skippable_end(view, at) or at) if seq == 1 else at
            text, end = frames.read(view, begin)
            room = _left(room, text)
            lines, chain = opened(text, seq, chain, key)
            found.frames.append((seq, base + begin))
            found.lines += lines
            at, seq = end, seq + len(lines)
    except OutOfSequenceError as error:
        # The frame is whole and its checksum fits, so no dying writer left it behind.
        found.problem = Problem(base + at, str(error), torn=False)
    except frames.BadFrameError as error:
        behind = frame_behind(data, at, Position(base + at, seq, chain), key, _GARBAGE_STEPS)
        # A packed log gets its place when it is whole, so its first frame is never a torn end.
        is_packed = seq == 1 and frames.skippable_end(view, at) > 0
        torn = not is_packed and (behind is None or _is_lost(data, at, behind, base, seq))
        found.problem = Problem(base + at, str(error), torn)
    found.position = Position(base + at, seq, chain)
    return found


def _left(room: int, text: bytes) -> int:
    if len(text) > room:
        raise OutOfSequenceError(f"the frames that are not packed hold more than {MAX_LOOSE} bytes of text")
    return room - len(text)


def is_begun_with(header: bytes, key: bytes) -> bool:
    """Whether a header's digest was made with a key; True if it has no digest, which `opened` finds."""
    if not header.startswith(_CHAIN, len(header) - _TAIL - 1):
        return True
    return chain_of(header) == digest(b"", header[: -1 - _TAIL], key).hex()


def opened(text: bytes, seq: int, chain: bytes, key: bytes = b"") -> tuple[list[Line], bytes]:
    """The lines of a frame's text that follow `seq` and `chain`, and the digest of its last commit.

    Raises:
        OutOfSequenceError: They do not.
    """
    lines = text.split(b"\n")
    if lines.pop() or not lines:
        raise OutOfSequenceError("the frame's text is not made of lines")
    found: list[Line] = []
    begin = at = 0
    for line in lines:
        envelope = b'{"seq":%d,"type":"' % seq
        if not line.startswith(envelope):
            raise OutOfSequenceError(f"a line does not begin with seq {seq}")
        kind = line[len(envelope) : line.find(b'"', len(envelope))].decode("ascii", "replace")
        at += len(line) + 1
        if line.startswith(_CHAIN, _FROM):
            chain = digest(chain, text[begin : at - 1 - _TAIL], key)
            if line[_FROM + len(_CHAIN) : -2] != chain.hex().encode():
                raise OutOfSequenceError("the commit does not follow the one before: its chain digest differs")
            line = line[:_FROM] + b"}"  # noqa: PLW2901
            begin = at
        found.append(Line(kind, line))
        seq += 1
    if begin != at:
        raise OutOfSequenceError("the frame ends inside a commit")
    return found, chain


def split(text: bytes, seq: int, behind: int, chain: bytes, key: bytes = b"") -> list[bytes]:
    """The lines of a packed frame's text, as they stand there.

    The chain was followed when the frame was packed, and the frame's checksum has held it since. So all that is
    checked here is that it is the right frame: by the numbers of its lines, and by what its first commit follows.

    Raises:
        OutOfSequenceError: It does not hold the records from `seq` up to `behind`, or does not follow `chain`.
    """
    lines = text.split(b"\n")
    if lines.pop() or len(lines) != behind - seq or not lines[-1].startswith(b'{"seq":%d,' % (behind - 1)):
        raise OutOfSequenceError(f"the frame does not hold the records {seq} to {behind - 1}")
    first = next((i for i, line in enumerate(lines) if line.startswith(_CHAIN, _FROM)), len(lines) - 1)
    opened(b"\n".join(lines[: first + 1]) + b"\n", seq, chain, key)
    return lines


def line_of(text: bytes) -> Line:
    """A line as it stands in a frame, with its type and without the chain field that ends a commit."""
    begin = text.index(b'"type":"') + 8
    return Line(text[begin : text.index(b'"', begin)].decode("ascii", "replace"), unchained(text))


def chain_of(text: bytes) -> str:
    """The digest of the last commit of a frame's text, in hexadecimal."""
    return text[len(_CHAIN) - _TAIL - 1 : -3].decode("ascii", "replace")


def unchained(line: bytes) -> bytes:
    """A line without the chain field that ends a commit."""
    return line[:_FROM] + b"}" if line.startswith(_CHAIN, _FROM) else line


def renumbered(line: bytes, seq: int) -> bytes:
    """A line with another seq."""
    return b'{"seq":%d%s' % (seq, line[line.index(b",") :])


def digest(before: bytes, text: bytes | bytearray, key: bytes) -> bytes:
    """BLAKE2b over the digest before and a commit's text, which comes without its last brace and the chain field."""
    hashed = hashlib.blake2b(before, digest_size=_DIGEST, key=key)
    hashed.update(text)
    hashed.update(b"}\n")
    return hashed.digest()


def frame_behind(data: bytes, start: int, at: Position, key: bytes, steps: int | None = None) -> int | None:
    """Where the next whole frame of a log begins behind one that cannot be read; None if there is none.

    If there is one, the damage is in the middle of the log, where no writer dies. A frame with an earlier seq does
    not count, as a disk may show old data in a page that it lost; one with the same seq only counts if it is the
    commit that must come next.

    Args:
        data: The log, or its end.
        start: Where the frame begins in it that cannot be read.
        at: The position before that frame.
        key: The key of the chain.
        steps: How many places are tried at most; the last of so many counts as such a frame.
    """
    view, found, room = memoryview(data), start, MAX_LOOSE
    while steps is None or steps > 0:
        found = data.find(frames.MAGIC, found + 1)
        if found < 0:
            return None
        steps = None if steps is None else steps - 1
        with contextlib.suppress(frames.BadFrameError, OutOfSequenceError):
            room -= frames.size(view, found) if steps is not None else 0
            if room < 0:  # a kilobyte may hold a gigabyte
                return found
            text, _ = frames.read(view, found)
            seq = SEQ.match(text)
            if seq is None or int(seq[1]) < at.seq:
                continue
            if int(seq[1]) == at.seq:
                opened(text, at.seq, at.chain, key)
            return found
    return found


def _is_lost(data: bytes, start: int, behind: int, base: int, seq: int) -> bool:
    """Whether a frame that cannot be read may have been lost in a power cut that spared the frame `behind` it.

    A disk writes in any order, sector by sector, what nobody has synced, and shows zeros where it did not get to. So
    three things must hold: a sector of the frame is all zeros; the frame behind it does not have the seq of the one
    that is lost; and no commit stands behind one that puts a checkpoint, as that is synced before anything follows
    it. A frame with several checkpoints was written together with the whole file.
    """
    begins = range((base + start) // _SECTOR * _SECTOR - base, behind, _SECTOR)
    if all(any(data[max(at, start) : min(at + _SECTOR, behind)]) for at in begins):
        return False
    view, is_synced = memoryview(data), False
    for _ in range(_GARBAGE_STEPS):
        if not 0 <= behind < len(data):
            return True
        try:
            text, end = frames.read(view, behind)
        except frames.BadFrameError:
            behind = data.find(frames.MAGIC, behind + 1)
            continue
        puts = len(_PUTS.findall(text))
        if is_synced or puts > 1 or text.startswith(b'{"seq":%d,' % seq):
            return False
        is_synced = puts == 1
        behind = end
    return False
