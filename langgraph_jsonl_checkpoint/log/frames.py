"""A commit's text ⇄ one zstd frame, and where a frame ends.

Frames are walked one by one over their own block headers (RFC 8878, 3.1.1): one-shot decompression stops after a
file's first frame, and a stream over all frames ends a torn file without an error.
"""

from __future__ import annotations

import threading

import zstandard

MAX_TEXT = 1 << 30
CUT_SHORT = "the frame is cut short"
MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPABLE_HEAD = 8  # bytes of magic and length before a skippable frame's content
_SKIPPABLE = b"\x5a\x2a\x4d\x18"  # one of the 16 magic numbers of frames that decoders pass over
_FCS_SIZE = (0, 2, 4, 8)
_DICT_SIZE = (0, 1, 2, 4)

_local = threading.local()


class BadFrameError(Exception):
    """No whole, intact frame begins here."""


def compress(text: bytes | bytearray, level: int = 1) -> bytes:
    """One frame with a content size and a checksum.

    Level 3 makes commits of less than 20 KB no smaller than level 1, and takes half as long again.
    """
    made: dict[int, zstandard.ZstdCompressor] = _local.__dict__.setdefault("compressors", {})
    if level not in made:
        made[level] = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)
    return made[level].compress(text)


def skippable(content: bytes) -> bytes:
    """A frame that every zstd decoder passes over."""
    return _SKIPPABLE + len(content).to_bytes(4, "little") + content


def skippable_end(data: bytes | memoryview, start: int) -> int:
    """The offset behind the skippable frame at `start`, whose end may lie behind the data; 0 if none begins there."""
    if data[start : start + 4] != _SKIPPABLE:
        return 0
    return start + SKIPPABLE_HEAD + int.from_bytes(data[start + 4 : start + 8], "little")


def size(data: memoryview, start: int) -> int:
    """How many bytes of text the frame at `start` holds.

    Raises:
        BadFrameError: No whole frame of ours begins there.
    """
    return _measure(data, start)[0]


def read(data: memoryview, start: int, most: int = MAX_TEXT) -> tuple[bytes, int]:
    """The text of the frame at `start`, and the offset behind the frame.

    Raises:
        BadFrameError: The frame is cut short, damaged, not one of ours, or holds more than `most` bytes of text.
    """
    size, end = _measure(data, start)
    if size > most:
        raise BadFrameError(f"the frame declares {size} bytes of text, more than {most}")
    try:
        text: bytes = _decompressor().decompress(data[start:end], size)
    except zstandard.ZstdError as error:
        raise BadFrameError(f"the frame does not decompress ({error})") from None
    return text, end


def _decompressor() -> zstandard.ZstdDecompressor:
    try:
        found: zstandard.ZstdDecompressor = _local.decompressor
    except AttributeError:
        found = _local.decompressor = zstandard.ZstdDecompressor()
    return found


def _measure(data: memoryview, start: int) -> tuple[int, int]:
    """A frame's content size and its end, from its header and block headers alone."""
    try:
        if data[start : start + 4] != MAGIC:
            raise BadFrameError("no zstd frame begins here")
        descriptor = data[start + 4]
        single, checksum = descriptor >> 5 & 1, descriptor >> 2 & 1
        at = start + 5 + (not single) + _DICT_SIZE[descriptor & 3]
        width = _FCS_SIZE[descriptor >> 6] or single
        if not width or not checksum:
            raise BadFrameError("the frame has no content size or no checksum")
        size = int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)  # noqa: PLR2004
        at += width
        last = 0
        while not last:
            block = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            last, kind = block & 1, block >> 1 & 3
            at += 3 + (1 if kind == 1 else block >> 3)
    except IndexError:
        raise BadFrameError(CUT_SHORT) from None
    end = at + 4
    if end > len(data):
        raise BadFrameError(CUT_SHORT)
    return size, end
