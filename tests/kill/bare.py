"""A log as zstd and JSON alone see it: none of the package's own reading is used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import zstandard

if TYPE_CHECKING:
    from pathlib import Path


def frames(data: bytes) -> list[tuple[int, bytes]]:
    """The (end, text) of each whole frame, up to the first that is not."""
    found: list[tuple[int, bytes]] = []
    end = 0
    while end < len(data):
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            text = frame.decompress(data[end:])
        except zstandard.ZstdError:
            break
        if not frame.eof:
            break
        end = len(data) - len(frame.unused_data)
        found.append((end, text))
    return found


def records(log: Path) -> list[dict[str, Any]]:
    """The lines of a log."""
    return [json.loads(line) for _, text in frames(log.read_bytes()) for line in text.splitlines()]
