"""A log of any records, with frames, numbers and a chain as FORMAT.md has them: nothing but what it says is wrong."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Record = tuple[str, dict[str, Any] | bytes]
"""A record's type, and its fields or the text of them."""

ID = "1f000000-0000-6000-8000-000000000001"
HEADER: Record = (
    "session",
    {"format": "langgraph-jsonl-checkpoint", "version": 1, "thread_id": "t", "workspace": "default"},
)


def frame(text: bytes) -> bytes:
    """A frame with a content size and a checksum."""
    return zstandard.ZstdCompressor(write_checksum=True, write_content_size=True).compress(text)


def commits(groups: Iterable[Iterable[Record]]) -> list[bytes]:
    """The texts of a log's commits."""
    made, digest, seq = [], b"", 0
    for group in groups:
        lines = []
        for kind, fields in group:
            text = fields if isinstance(fields, bytes) else json.dumps(fields, separators=(",", ":"))[1:-1].encode()
            head = b'{"seq":%d,"type":"%s","ts":"2026-01-01T00:00:00.000Z"' % (seq, kind.encode())
            lines.append(head + b"," + text + b"}")
            seq += 1
        body = b"\n".join(lines) + b"\n"
        digest = hashlib.blake2b(digest + body, digest_size=16).digest()
        made.append(body[:-2] + b',"chain":"' + digest.hex().encode() + b'"}\n')
    return made


def forge(path: Path, *groups: Iterable[Record], header: Record = HEADER) -> None:
    """Write a log of a header and these commits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(frame, commits([[header], *groups]))))


def checkpoint(value: Any = None, **more: Any) -> Record:
    """A checkpoint with one channel, `v`."""
    fields = {"ns": "", "id": ID, "step": 0, "source": "loop", "next": [], "changed": [], "channels": {"v": value}}
    return "checkpoint", {**fields, "versions": {}, "seen": {}, "metadata": {}, **more}


def raw(value: bytes) -> Record:
    """A checkpoint with one channel, of this text."""
    _, fields = checkpoint()
    text = json.dumps({**fields, "channels": "CHANNELS"}, separators=(",", ":"))[1:-1].encode()
    return "checkpoint", text.replace(b'"CHANNELS"', b'{"v":' + value + b"}")


def value(n: int, *trees: Any) -> Record:
    """Values from number `n` on."""
    return "value", {"n": n, "values": list(trees)}


def message(n: int, **fields: Any) -> Record:
    """Message number `n`; without fields a short one."""
    return "message", {"n": n, "message": fields or {"class": "HumanMessage", "content": "x"}}


def b64(data: bytes) -> str:
    """Bytes as they stand in a log."""
    return base64.b64encode(data).decode()
