"""Every record type of the log, and the format's version. FORMAT.md describes them.

A record's values (`msgspec.Raw`) stay bytes until somebody asks for them: opening a session parses what the folds
need and nothing else. Names are trees (`Any`), because Python strings may hold lone surrogates.
"""

from __future__ import annotations

import base64
import time
from functools import lru_cache
from typing import Any

import msgspec

FORMAT = "langgraph-jsonl-checkpoint"
VERSION = 1


NO_TEXT = msgspec.Raw(b"null")
"""An optional text that is left out; msgspec knows no `Raw | None`."""


class Record(msgspec.Struct, omit_defaults=True):
    """What all records share is the envelope: seq, type and ts, which `line` writes."""


class Session(Record):
    """The header: which thread this is. Immutable, seq 0, a frame of its own."""

    format: str
    version: int
    thread_id: Any
    workspace: Any
    generation: int = 0
    delegation_depth: int = 0
    parent: Any = None
    forked_from: Any = None


class Recovered(Record):
    """A torn end that a writer moved aside when it opened the session."""

    offset: int
    bytes: int
    file: str


class Open(Record):
    """A writer appends to the session: all that follows, up to the next `open`, is its own.

    A writer that comes back after another one gives its id alone. It has a hook in the namespaces `within` of all its
    `open` records together; in all namespaces, if none of them says where.
    """

    writer: str
    pid: int = 0
    host: str = ""
    versions: dict[str, str] = {}
    hook: bool = False
    within: list[Any] = []
    died: str = ""
    recovered: Recovered | None = None


class Close(Record):
    """The writer closed the session with a run that is not over: it did not die in it.

    `error` is the exception that ended it, perhaps in the middle of a tool. Without one the run was waiting.
    """

    writer: str
    error: str = ""


class Message(Record):
    """One message, once."""

    n: int
    message: msgspec.Raw


class Value(Record):
    """Values that other records refer to, once: `n` is the number of the first."""

    n: int
    values: list[msgspec.Raw]


class Writes(Record):
    """What `put_writes` was given: [index, channel, value] for each write."""

    ns: Any
    checkpoint: Any
    task: Any
    path: Any
    writes: list[tuple[int, Any, msgspec.Raw]]


class Checkpoint(Record, kw_only=True):
    """What `put` was given, and the state transition that it is."""

    ns: Any
    id: Any
    parent: Any = None
    step: int | None = None
    source: Any = None
    next: list[Any]
    changed: list[Any]
    created: Any = msgspec.UNSET
    v: int | msgspec.UnsetType = msgspec.UNSET
    channels: msgspec.Raw
    versions: msgspec.Raw
    seen: msgspec.Raw
    updated: Any = msgspec.UNSET
    input: Any = None
    metadata: msgspec.Raw
    extra: msgspec.Raw = NO_TEXT


class Terminal(Record):
    """Why a run stopped."""

    ns: Any
    checkpoint: Any
    reason: str
    error: msgspec.Raw = NO_TEXT


class Tool(Record, kw_only=True):
    """A step in the life of a tool call, whose key is (task, call)."""

    task: Any
    call: Any
    status: str
    attempt: int = 0
    ns: Any = ""
    checkpoint: Any = None
    name: Any = None
    args: msgspec.Raw = NO_TEXT
    effect: str = ""
    check: bool = False
    orphan: Any = None
    result: msgspec.Raw = NO_TEXT
    error: msgspec.Raw = NO_TEXT
    decision: str = ""
    message: msgspec.Raw = NO_TEXT
    by: str = ""
    spent: int = 0
    waits_for: int | None = None
    elsewhere: bool = False
    redacted: bool = False
    subgraphs: list[int] = []
    tasks: list[int] = []
    sent: msgspec.Raw = NO_TEXT


class Prune(Record):
    """What this generation of the session left out."""

    strategy: str
    removed: dict[str, int]
    inputs: Any = None


class Reserved(Record):
    """A type that version 1 names but this release does not write."""


TYPES: dict[str, type[Record]] = {
    "session": Session,
    "open": Open,
    "message": Message,
    "value": Value,
    "writes": Writes,
    "checkpoint": Checkpoint,
    "terminal": Terminal,
    "prune": Prune,
    "close": Close,
    "tool": Tool,
    "chunks": Reserved,
    "compaction": Reserved,
    "runtime": Reserved,
}
_NAMES = {cls: name for name, cls in TYPES.items() if cls is not Reserved}
_DECODERS = {name: msgspec.json.Decoder(cls) for name, cls in TYPES.items()}
_NAMED: dict[str, tuple[str, ...]] = dict.fromkeys(TYPES, ()) | {
    "session": ("thread_id", "workspace", "parent"),
    "writes": ("ns", "checkpoint", "task", "path"),
    "checkpoint": ("ns", "id", "parent", "source", "created", "input"),
    "terminal": ("ns", "checkpoint"),
    "tool": ("task", "call", "ns", "checkpoint", "name"),
}
_LISTED: dict[str, tuple[str, ...]] = dict.fromkeys(TYPES, ()) | {
    "checkpoint": ("next", "changed", "updated"),
    "tool": ("orphan",),
    "prune": ("inputs",),
}
_encode_into = msgspec.json.Encoder().encode_into


class Ignorable(msgspec.Struct):
    """The one thing that a reader may ask of a record of an unknown type."""

    ignorable: bool = False


def type_of(record: Record) -> str:
    """A record's type, as its line names it."""
    return _NAMES[type(record)]


def line(seq: int, ts: str, record: Record) -> bytes:
    """A record as a line of the log, without the line feed."""
    text = bytearray(b'{"seq":%d,"type":"%s","ts":"%s"' % (seq, _NAMES[type(record)].encode(), ts.encode()))
    at = len(text)
    _encode_into(record, text, at)
    text[at : at + 1] = b","  # the brace: the fields go on where the envelope ends
    return bytes(text)


def timestamp(text: bytes) -> str:
    """When a line was written."""
    return text.split(b'"ts":"', 1)[1].split(b'"', 1)[0].decode()


def now() -> str:
    """The time, as a line's `ts`."""
    seconds, millis = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_second(seconds)}.{millis:03}Z"


@lru_cache(1)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def parse(kind: str, text: bytes) -> Record | None:
    """The record of a line whose type is `kind`; None for an unknown type that may be ignored.

    Raises:
        LookupError: The type is unknown and the record does not say that it may be ignored.
        msgspec.DecodeError: The line is no JSON, or not what its type says.
    """
    decoder = _DECODERS.get(kind)
    try:
        if decoder is not None:
            record = decoder.decode(text)
            for name in _NAMED[kind]:
                told = getattr(record, name)
                if type(told) is not str and told is not None and told is not msgspec.UNSET:
                    _check_name(told)
            for name in _LISTED[kind]:
                told = getattr(record, name)
                if type(told) is list:
                    _check_names(told)
                elif told is not None and told is not msgspec.UNSET:
                    raise msgspec.ValidationError(f"{name} is no list of names")
            if type(record) is Writes:
                _check_names([channel for _, channel, _ in record.writes])
            return record
        if msgspec.json.decode(text, type=Ignorable).ignorable:
            return None
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    raise LookupError(kind)


def _check_names(told: list[Any]) -> None:
    for each in told:
        if type(each) is not str:
            _check_name(each)


def _check_name(told: Any) -> None:
    """Refuse what is no name: whoever folds the record takes it for one.

    Raises:
        msgspec.ValidationError: It is no string, nor one with lone surrogates as FORMAT.md has them.
    """
    try:
        base64.b64decode(told["$str"], validate=True).decode("utf-8", "surrogatepass")
    except (TypeError, LookupError, ValueError):
        raise msgspec.ValidationError(f"it has a name that is none: {told!r:.100}") from None
