"""A packed log as zstd and JSON alone see it, and what becomes of it when somebody has his hands in its index."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAGIC = b"\x5a\x2a\x4d\x18"


class Parts(NamedTuple):
    """A packed log's header, what its skippable frame holds, and the frames behind it."""

    header: bytes
    index: bytes
    frames: bytes


def parts(log: Path) -> Parts:
    """A packed log in its parts."""
    data = log.read_bytes()
    reader = zstandard.ZstdDecompressor().decompressobj()
    reader.decompress(data)
    begin = len(data) - len(reader.unused_data)
    assert data[begin : begin + 4] == MAGIC, "the log is not packed"
    end = begin + 8 + int.from_bytes(data[begin + 4 : begin + 8], "little")
    return Parts(data[:begin], data[begin + 8 : end], data[end:])


def is_packed(log: Path) -> bool:
    """Whether an index stands behind the header."""
    try:
        parts(log)
    except AssertionError:
        return False
    return True


def skippable(content: bytes) -> bytes:
    """A frame that zstd passes over."""
    return MAGIC + len(content).to_bytes(4, "little") + content


def with_index(log: Path, content: bytes) -> None:
    """Put other bytes where the index stands."""
    found = parts(log)
    log.write_bytes(found.header + skippable(content) + found.frames)


def without_index(log: Path) -> None:
    """Take the index out: what is left is a log, too, and all that it says is in its lines."""
    found = parts(log)
    log.write_bytes(found.header + found.frames)


def index(log: Path) -> dict[str, Any]:
    """What the index says."""
    return json.loads(zstandard.ZstdDecompressor().decompress(parts(log).index))


def compressed(text: bytes) -> bytes:
    """A frame as the package makes them."""
    return zstandard.ZstdCompressor(write_checksum=True, write_content_size=True).compress(text)


def lie(log: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Let the index say something else."""
    told = index(log)
    change(told)
    with_index(log, compressed(json.dumps(told).encode()))


@contextlib.contextmanager
def read_by_lines(log: Path) -> Iterator[None]:
    """For a while the log has no index; it comes back as the same file."""
    found, kept = parts(log), log.with_name("kept")
    log.rename(kept)
    log.write_bytes(found.header + found.frames)
    yield
    kept.rename(log)
