"""A log as someone forges it who knows the format and no key: valid frames, valid chain, other records."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def frames(data: bytes) -> list[bytes]:
    """The texts of a log's frames."""
    texts = []
    while data:
        reader = zstandard.ZstdDecompressor().decompressobj()
        texts.append(reader.decompress(data))
        data = reader.unused_data
    return texts


def forge(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Rewrite a log with each record changed, and a chain that fits (FORMAT.md, Grammar)."""
    compressor = zstandard.ZstdCompressor(write_checksum=True, write_content_size=True)
    forged, digest = b"", b""
    for text in frames(path.read_bytes()):
        records = [change(json.loads(line)) for line in text.splitlines()]
        for record in records:
            record.pop("chain", None)
        lines = [json.dumps(r, separators=(",", ":"), ensure_ascii=False) for r in records]
        # Without the chain field the last line still ends in its brace and line feed.
        body = "\n".join(lines).encode() + b"\n"
        digest = hashlib.blake2b(digest + body, digest_size=16).digest()
        forged += compressor.compress(body[:-2] + b',"chain":"' + digest.hex().encode() + b'"}\n')
    path.write_bytes(forged)
