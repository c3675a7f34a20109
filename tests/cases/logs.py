"""Reads a session log with nothing but zstd and json, as anyone could."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import zstandard

if TYPE_CHECKING:
    from pathlib import Path


def frames(path: Path) -> list[tuple[int, bytes]]:
    """Where each zstd frame ends, and its text."""
    found, rest, end = [], path.read_bytes(), 0
    while rest:
        frame = zstandard.ZstdDecompressor().decompressobj()
        text = frame.decompress(rest)
        end += len(rest) - len(frame.unused_data)
        found.append((end, text))
        rest = frame.unused_data
    return found


def text(path: Path) -> bytes:
    """All that the log holds."""
    with path.open("rb") as log:
        return zstandard.ZstdDecompressor().stream_reader(log, read_across_frames=True).read()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def records(path: Path) -> list[dict[str, Any]]:
    """Each line as strict JSON; their numbers must count from 0 without a gap."""
    *lines, end = text(path).decode("utf-8").split("\n")
    assert end == "", "the last line is cut"
    found = [json.loads(line, parse_constant=_refuse) for line in lines]
    assert [record["seq"] for record in found] == list(range(len(found)))
    return found


def of_type(path: Path, kind: str) -> list[dict[str, Any]]:
    """The records of one type."""
    return [record for record in records(path) if record["type"] == kind]
