"""A log in few large frames, with an index in front: the same lines, smaller, and no need to read all of them.

The index says where the frames are and what the lines in them come to. It is made of the lines and written with
them, in one file; without it, or if it is not whole, the lines are read instead.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from langgraph_jsonl_checkpoint.log import frames, journal
from langgraph_jsonl_checkpoint.log.lines import Packed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TEXT = 256 * 1024  # bytes of a packed frame: larger ones are hardly smaller, and take longer to find one line in
_INDEX = 64  # an index may declare so many times the bytes that were read of its log, and no more
_LEVEL = 6  # higher ones take several times as long for a few percent


class Index(msgspec.Struct):
    """What stands in the skippable frame behind a packed log's header.

    Attributes:
        packed: The packed frames; their offsets count from the end of the index.
        behind: (bytes of all packed frames, the seq behind them, the digest of their last commit).
        contents: What the folds came to there.
    """

    packed: list[Packed]
    behind: tuple[int, int, str]
    contents: msgspec.Raw


class PackedLog(NamedTuple):
    """What the begin of a packed log tells of it.

    Attributes:
        header: The line of its header.
        frames: The packed frames.
        position: The position behind them.
        contents: What the folds came to there.
    """

    header: bytes
    frames: list[Packed]
    position: journal.Position
    contents: msgspec.Raw


def pack(data: bytes, contents: bytes) -> bytes:
    """A log's frames, packed: those that are full stay as they are, and what stands behind them is put together.

    Args:
        data: The whole log.
        contents: What the folds come to at its end.

    Raises:
        BadFrameError: A frame of the log is damaged.
    """
    view = memoryview(data)
    header, begin = frames.read(view, 0)
    kept: list[Packed] = []
    seq, chain, at = 1, journal.chain_of(header), frames.skippable_end(view, begin) or begin
    if (found := find(data)) is not None:
        kept, (at, seq, digest) = found.frames, found.position
        chain = digest.hex()
        if kept and frames.size(view, kept[-1].offset) < _TEXT:
            at, _, seq, chain = kept.pop()
    made = [data[frame.offset : frame.end] for frame in kept]
    begins = [(frame.seq, frame.chain) for frame in kept]
    for text in _together(view, at):
        frame = frames.compress(text, _LEVEL)
        if frames.read(memoryview(frame), 0)[0] != text:
            raise frames.BadFrameError("a frame did not come back as it was packed")
        made.append(frame)
        begins.append((seq, chain))
        seq, chain = seq + text.count(b"\n"), journal.chain_of(text)
    packed, at = [], 0
    for frame, (first, before) in zip(made, begins, strict=True):
        packed.append(Packed(at, at + len(frame), first, before))
        at += len(frame)
    index = msgspec.json.encode(Index(packed, (at, seq, chain), msgspec.Raw(contents)))
    return b"".join([data[:begin], frames.skippable(frames.compress(index, _LEVEL)), *made])


def index_end(data: bytes) -> int:
    """Where the index ends in a log that begins with `data`; 0 if the log has none."""
    try:
        _, at = frames.read(memoryview(data), 0)
    except frames.BadFrameError:
        return 0
    return frames.skippable_end(data, at)


def find(data: bytes) -> PackedLog | None:
    """The index of a log that begins with `data`; None if the log has none, or not a whole one."""
    try:
        view = memoryview(data)
        header, at = frames.read(view, 0)
        base = frames.skippable_end(view, at)
        if (
            not at < base <= len(data)
            or frames.size(view[:base], at + frames.SKIPPABLE_HEAD) > _INDEX * len(data) + _TEXT
        ):
            return None
        content, end = frames.read(view[:base], at + frames.SKIPPABLE_HEAD)
        index = msgspec.json.decode(content, type=Index)
        size, seq, chain = index.behind
        digest = bytes.fromhex(chain)
        packed = [f._replace(offset=f.offset + base, end=f.end + base) for f in index.packed]
    except (frames.BadFrameError, msgspec.DecodeError, ValueError):
        return None
    # The frames must lie behind each other, as must their records.
    offsets = [f.offset for f in packed] + [base + size]
    seqs = [f.seq for f in packed] + [seq]
    whole = end == base and offsets[0] == base and seqs[0] == 1 and [f.end for f in packed] == offsets[1:]
    if not packed or not whole or any(a >= b for row in (offsets, seqs) for a, b in pairwise(row)):
        return None
    behind = journal.Position(base + size, seq, digest)
    return PackedLog(journal.unchained(header[:-1]), packed, behind, index.contents)


def compose(header: bytes, lines: Sequence[bytes], key: bytes = b"") -> bytes:
    """A whole log of a header and other lines, numbered anew."""
    log, position = journal.commit(journal.Position(), [journal.renumbered(header, 0)], key)
    parts, size = [log], 0
    held: list[bytes] = []
    for line in lines:
        held.append(journal.renumbered(line, position.seq + len(held)))
        size += len(line)
        if size >= _TEXT:
            frame, position = journal.commit(position, held, key)
            parts.append(frame)
            held, size = [], 0
    if held:
        parts.append(journal.commit(position, held, key)[0])
    return b"".join(parts)


def _together(view: memoryview, at: int) -> Iterator[bytes]:
    """The text of the frames from an offset on, a packed frame's worth at a time."""
    held: list[bytes] = []
    size = 0
    while at < len(view):
        text, at = frames.read(view, at)
        if held and size + len(text) > min(2 * _TEXT, frames.MAX_TEXT):  # a large commit has a frame of its own
            yield b"".join(held)
            held, size = [], 0
        held.append(text)
        size += len(text)
        if size >= _TEXT:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)
