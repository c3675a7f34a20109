"""Every record type of the log, and the format's version. FORMAT.md describes them.

A record's values (`msgspec.Raw`) stay the bytes they are until somebody asks for them: opening a session parses
what the folds need and nothing else.

The names in a record (ids, namespaces, nodes, channels) are plain strings. Python's may hold lone surrogates, which
JSON must not, so such a name stands in its line as the tag that FORMAT.md calls `$str`. `line` and `parse` convert.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from langgraph_jsonl_checkpoint.log.surrogates import tag_text, untag_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FORMAT = "langgraph-jsonl-checkpoint"
VERSION = 1


NO_TEXT = msgspec.Raw(b"null")
"""An optional text that is left out; msgspec knows no `Raw | None`."""

if TYPE_CHECKING:
    Name = str
else:
    Name = Any
"""A name in a record: a string, but to msgspec anything, since a line may hold a tag instead."""


class Record(msgspec.Struct, omit_defaults=True):
    """What all records share is the envelope: seq, type and ts, which `line` writes."""


class Session(Record):
    """The header: which thread this is. Immutable, seq 0, a frame of its own."""

    format: str
    version: int
    thread_id: Name
    workspace: Name
    generation: int = 0
    delegation_depth: int = 0
    parent: Name | None = None
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
    within: list[Name] = []
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

    ns: Name
    checkpoint: Name
    task: Name
    path: Name
    writes: list[tuple[int, Name, msgspec.Raw]]


class Checkpoint(Record, kw_only=True):
    """What `put` was given, and the state transition that it is."""

    ns: Name
    id: Name
    parent: Name | None = None
    step: int | None = None
    source: Name | None = None
    next: list[Name]
    changed: list[Name]
    created: Name | msgspec.UnsetType | None = msgspec.UNSET
    v: int | msgspec.UnsetType = msgspec.UNSET
    channels: msgspec.Raw
    versions: msgspec.Raw
    seen: msgspec.Raw
    updated: Any = msgspec.UNSET
    input: Name | None = None
    metadata: msgspec.Raw
    extra: msgspec.Raw = NO_TEXT


class Terminal(Record):
    """Why a run stopped."""

    ns: Name
    checkpoint: Name
    reason: str
    error: msgspec.Raw = NO_TEXT


class Tool(Record, kw_only=True):
    """A step in the life of a tool call, whose key is (task, call)."""

    task: Name
    call: Name
    status: str
    attempt: int = 0
    ns: Name = ""
    checkpoint: Name | None = None
    name: Name | None = None
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
    "open": ("within",),
    "checkpoint": ("next", "changed", "updated"),
    "tool": ("orphan",),
    "prune": ("inputs",),
}
_ABSENT = None, msgspec.UNSET  # what an optional name is when a record has none
_OPTIONAL = {
    kind: frozenset(f.name for f in msgspec.structs.fields(cls) if f.default in _ABSENT)
    for kind, cls in TYPES.items()
}
_are_strings = frozenset({str}).issuperset
_encode_into = msgspec.json.Encoder().encode_into

_R = TypeVar("_R", bound=Record)


class Ignorable(msgspec.Struct):
    """The one thing that a reader may ask of a record of an unknown type."""

    ignorable: bool = False


def type_of(record: Record) -> str:
    """A record's type, as its line names it."""
    return _NAMES[type(record)]


def line(seq: int, ts: str, record: Record) -> bytes:
    """A record as a line of the log, without the line feed."""
    kind = _NAMES[type(record)]
    begin = b'{"seq":%d,"type":"%s","ts":"%s"' % (seq, kind.encode(), ts.encode())
    text = bytearray(begin)
    try:
        if not _has_plain_names(kind, record):
            record = _converted(kind, record, tag_text)
        _encode_into(record, text, len(begin))
    except UnicodeEncodeError:
        _encode_into(_converted(kind, record, tag_text), text, len(begin))
    text[len(begin) : len(begin) + 1] = b","  # the brace: the fields go on where the envelope ends
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
            return record if _has_plain_names(kind, record) else _converted(kind, record, untag_text)
        if msgspec.json.decode(text, type=Ignorable).ignorable:
            return None
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    except msgspec.DecodeError:
        raise
    except ValueError as error:  # of `untag_text`
        raise msgspec.ValidationError(str(error)) from None
    raise LookupError(kind)


def parse_as(cls: type[_R], text: bytes) -> _R:
    """The record of a line whose type is known to be that of `cls`. Raises what `parse` raises."""
    record = parse(_NAMES[cls], text)
    assert isinstance(record, cls)  # noqa: S101 - for the type checker: the kind says so
    return record


def _has_plain_names(kind: str, record: Record) -> bool:
    """Whether each name in a record is a string, or absent where it may be."""
    for field in _NAMED[kind]:
        name = getattr(record, field)
        if type(name) is not str and (field not in _OPTIONAL[kind] or name is not None and name is not msgspec.UNSET):
            return False
    for field in _LISTED[kind]:
        names = getattr(record, field)
        if (
            names is not None
            and names is not msgspec.UNSET
            and not (type(names) is list and _are_strings(map(type, names)))
        ):
            return False
    return type(record) is not Writes or _are_strings([type(channel) for _, channel, _ in record.writes])


def _converted(kind: str, record: Record, convert: Callable[[Any], Any]) -> Any:
    """A record whose names are what `convert` makes of them.

    Raises:
        ValueError: It has a name that is none.
    """
    fields: dict[str, Any] = {}
    for field in _NAMED[kind]:
        name = getattr(record, field)
        if name not in _ABSENT or field not in _OPTIONAL[kind]:
            fields[field] = convert(name)
    for field in _LISTED[kind]:
        names = getattr(record, field)
        if type(names) is list:
            fields[field] = list(map(convert, names))
        elif names not in _ABSENT:
            raise ValueError(f"{field} is no list of names")
    if type(record) is Writes:
        fields["writes"] = [(index, convert(channel), text) for index, channel, text in record.writes]
    return msgspec.structs.replace(record, **fields)


def values_of(numbered: Iterable[tuple[int, msgspec.Raw]]) -> list[Value]:
    """The fewest `value` records that give each text its number; the numbers ascend."""
    found: list[Value] = []
    for number, text in numbered:
        if found and found[-1].n + len(found[-1].values) == number:
            found[-1].values.append(text)
        else:
            found.append(Value(n=number, values=[text]))
    return found
