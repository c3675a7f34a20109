"""Types that JSON does not have ⇄ tags: objects with one key that begins with `$`. FORMAT.md lists them.

A type is here if it can be rebuilt without importing anything by a name that stands in the log. Every other type
goes through the saver's serde. Types match exactly: a subclass may carry more than its base knows.
"""

from __future__ import annotations

import base64
import ipaddress
import logging
import pathlib
import re
import sys
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Overwrite, Send

from langgraph_jsonl_checkpoint.errors import SessionError
from langgraph_jsonl_checkpoint.log.surrogates import untag_text

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

Tagged = tuple[str, Any]
"""A tag and its payload: a value that is encoded in its turn."""


class Fields(tuple[Any, ...]):
    """A payload that is written as a list, of as many fields as its type has, and not of any number of elements."""

    __slots__ = ()


_ALIKE = 1000  # elements of a set or keys of a dict with one hash: each is compared with all before it
_DIGITS = 1 << 20  # bits of a fraction's numbers: reducing them takes quadratic time
_LEVELS = 64  # of an array's type
_NUMPY_KINDS = "biufcmMSUV"  # no objects
_FACTORIES: dict[str, type] = {t.__name__: t for t in (list, dict, set, int, float, str, tuple, bytes, bool)}
_PATHS: dict[str, Any] = {
    name: getattr(pathlib, name) for name in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")
}
_ADDRESSES: dict[str, Any] = {
    name: getattr(ipaddress, name)
    for name in ("IPv4Address", "IPv4Interface", "IPv4Network", "IPv6Address", "IPv6Interface", "IPv6Network")
}


def tag_bytes(data: bytes) -> str:
    """Bytes as base64."""
    return base64.b64encode(data).decode()


def untag_bytes(text: str) -> bytes:
    """The bytes of `tag_bytes`."""
    return base64.b64decode(text, validate=True)


def _zoned(moment: datetime | time) -> Tagged:
    tag = "$datetime" if type(moment) is datetime else "$time"
    zone: tzinfo | str | None = moment.tzinfo
    if type(zone) is zoneinfo.ZoneInfo and zone.key:
        return tag, [moment.isoformat(), zone.key, moment.fold]  # the offset, too: zone data is not everywhere
    if type(zone) is not timezone:
        # Pydantic's, dateutil's or a user's own. The log names no classes, so only its offset stays.
        offset = moment.utcoffset()
        zone = None if offset is None else timezone(offset)
    if not moment.fold and (zone is None or zone is UTC):
        return tag, moment.replace(tzinfo=zone).isoformat()
    return tag, [moment.replace(tzinfo=None, fold=0).isoformat(), zone, moment.fold]


def _unzoned(cls: type[datetime | time]) -> Callable[[Any], datetime | time]:
    def build(payload: Any) -> datetime | time:
        if type(payload) is str:
            moment = cls.fromisoformat(payload)
            # fromisoformat makes UTC of "+00:00", which is the one offset written here.
            return moment if moment.tzinfo is None else moment.replace(tzinfo=UTC)
        text, zone, fold = payload
        moment = cls.fromisoformat(text)
        if type(zone) is not str:
            return moment.replace(tzinfo=zone, fold=fold)
        try:
            return moment.replace(tzinfo=zoneinfo.ZoneInfo(zone), fold=fold)
        except zoneinfo.ZoneInfoNotFoundError:
            logger.warning("No data for time zone %s: %s is read at its offset. Install tzdata", zone, text)
            return moment.replace(fold=fold)

    return build


def _zone(value: zoneinfo.ZoneInfo) -> Tagged:
    if not value.key:
        raise TypeError("a ZoneInfo without a key has nothing to be found again by")
    return "$zone", value.key


def _unzone(key: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(key)
    except zoneinfo.ZoneInfoNotFoundError:  # the log is not damaged
        raise SessionError(f"this machine has no data for the time zone {key!r:.100}: install tzdata") from None


def _defaultdict(value: defaultdict[Any, Any]) -> Tagged | None:
    factory = value.default_factory
    if factory is not None and _FACTORIES.get(getattr(factory, "__name__", "")) is not factory:
        return None
    return "$defaultdict", Fields((factory and factory.__name__, _pairs(value)))


def _pairs(value: dict[Any, Any]) -> list[list[Any]]:
    return [[k, v] for k, v in value.items()]


def _interrupt(value: Interrupt) -> Tagged:
    schema = getattr(value, "response_schema", None)
    return "$interrupt", Fields((value.value, value.id, *(() if schema is None else (schema,))))


def _uninterrupt(payload: Any) -> Interrupt:
    value, name, *schema = payload
    return Interrupt(value, name, response_schema=schema[0]) if schema else Interrupt(value, name)


def _send(value: Send) -> Tagged:
    timeout = getattr(value, "timeout", None)
    return "$send", Fields((value.node, value.arg, *(() if timeout is None else (timeout,))))


def _unsend(payload: Any) -> Send:
    node, arg, *timeout = payload
    return Send(node, arg, timeout=timeout[0]) if timeout else Send(node, arg)


def _command(value: Command[Any]) -> Tagged:
    return "$command", Fields((value.graph, value.update, value.resume, value.goto))


def _uncommand(payload: Any) -> Command[Any]:
    graph, update, resume, goto = payload
    return Command(graph=graph, update=update, resume=resume, goto=goto)


def _fraction(value: Fraction) -> Tagged | None:
    pair = [value.numerator, value.denominator]
    return None if max(n.bit_length() for n in pair) > _DIGITS else ("$fraction", pair)


def _unfraction(payload: Any) -> Fraction:
    over, under = payload
    if type(over) is not int or type(under) is not int or max(over.bit_length(), under.bit_length()) > _DIGITS:
        raise ValueError("a fraction has two numbers, of bounded length")
    return Fraction(over, under)


def _spread(keys: list[Any]) -> list[Any]:
    """The elements of a set or the keys of a dict, unless it would take forever to make one of them."""
    if len(keys) > _ALIKE and max(Counter(map(hash, keys)).values()) > _ALIKE:
        raise ValueError(f"more than {_ALIKE} keys have one hash")
    return keys


def _keyed(pairs: list[list[Any]]) -> list[tuple[Any, Any]]:
    _spread([k for k, _ in pairs])
    return [(k, v) for k, v in pairs]


TAG: dict[type, Callable[[Any], Tagged | None]] = {
    tuple: lambda v: ("$tuple", list(v)),
    # Sets are sorted, so that one set has one text in every process.
    set: lambda v: ("$set", sorted(v, key=repr)),
    frozenset: lambda v: ("$frozenset", sorted(v, key=repr)),
    dict: lambda v: ("$dict", _pairs(v)),  # whose keys are no plain strings
    deque: lambda v: ("$deque", Fields((list(v), v.maxlen))),
    OrderedDict: lambda v: ("$ordered", _pairs(v)),
    defaultdict: _defaultdict,
    Counter: lambda v: ("$counter", _pairs(v)),
    complex: lambda v: ("$complex", [v.real, v.imag]),
    Decimal: lambda v: ("$decimal", str(v)),
    Fraction: _fraction,
    range: lambda v: ("$range", [v.start, v.stop, v.step]),
    bytes: lambda v: ("$bytes", tag_bytes(v)),
    bytearray: lambda v: ("$bytearray", tag_bytes(bytes(v))),
    datetime: _zoned,
    time: _zoned,
    date: lambda v: ("$date", v.isoformat()),
    timedelta: lambda v: ("$timedelta", [v.days, v.seconds, v.microseconds]),
    timezone: lambda v: ("$timezone", list(v.__getinitargs__())),
    zoneinfo.ZoneInfo: _zone,
    uuid.UUID: lambda v: ("$uuid", str(v)),
    re.Pattern: lambda v: ("$regex", [v.pattern, v.flags]),
    **dict.fromkeys(_PATHS.values(), lambda v: ("$path", [type(v).__name__, str(v)])),
    **dict.fromkeys(_ADDRESSES.values(), lambda v: ("$ip", [type(v).__name__, str(v)])),
    Send: _send,
    Interrupt: _interrupt,
    Command: _command,
    Overwrite: lambda v: ("$overwrite", v.value),
    _DeltaSnapshot: lambda v: ("$delta", v.value),
}
"""Type to (tag, payload); None for a value of the type that only the serde can store."""

HOLDERS = frozenset(
    {tuple, set, frozenset, dict, deque, OrderedDict, defaultdict, Counter, bytearray}
    | {Send, Interrupt, Command, Overwrite, _DeltaSnapshot}
)
"""Types whose values hold others, or may change."""

HASHED = frozenset({"$set", "$frozenset", "$dict", "$ordered", "$defaultdict", "$counter"})
"""Tags of containers that hash what they hold."""

FIXED = frozenset(TAG) - HOLDERS
"""Types whose values never change and hold nothing that does."""


def _field(descr: list[Any], levels: int = _LEVELS) -> tuple[Any, ...]:
    if not levels:
        raise ValueError("an array's type is nested too deeply")
    name, kind, *shape = descr
    return name, kind if type(kind) is str else [_field(f, levels - 1) for f in kind], *map(tuple, shape)


def _unnumpy(payload: Any) -> Any:
    import numpy as np  # noqa: PLC0415 - optional; only a log that holds an array needs it
    from numpy.lib.format import descr_to_dtype  # noqa: PLC0415

    descr, shape, order, text = payload
    fields: Any = descr if type(descr) is str else [_field(f) for f in descr]
    dtype = descr_to_dtype(fields)  # numpy.dtype would make fields of the gaps between aligned ones
    if dtype.hasobject or dtype.kind not in _NUMPY_KINDS:
        raise ValueError(f"an array of {descr} is never stored")
    if shape is None and not dtype.itemsize:
        return np.zeros((), dtype)[()]  # an empty text, of which a buffer holds any number
    data = untag_bytes(text)
    flat = np.frombuffer(data if dtype.names is None else bytearray(data), dtype=dtype)
    if shape is None:
        return flat[0]
    made = flat.reshape(shape, order=order)
    return made.copy(order) if dtype.names is None else made  # a copy has any bytes in its gaps


UNTAG: dict[str, Callable[[Any], Any]] = {
    "$tuple": tuple,
    "$set": lambda p: set(_spread(p)),
    "$frozenset": lambda p: frozenset(_spread(p)),
    "$deque": lambda p: deque(p[0], p[1]),
    "$ordered": lambda p: OrderedDict(_keyed(p)),
    "$defaultdict": lambda p: defaultdict(p[0] and _FACTORIES[p[0]], _keyed(p[1])),
    "$counter": lambda p: Counter(dict(_keyed(p))),
    "$dict": lambda p: dict(_keyed(p)),
    # Hexadecimal: Python bounds the digits of a decimal, and takes quadratic time for them.
    "$int": lambda p: int(p, 16),
    "$float": float,
    "$complex": lambda p: complex(*p),
    "$decimal": Decimal,
    "$fraction": _unfraction,
    "$range": lambda p: range(*p),
    "$str": lambda p: untag_text({"$str": p}),
    "$bytes": untag_bytes,
    "$bytearray": lambda p: bytearray(untag_bytes(p)),
    "$datetime": _unzoned(datetime),
    "$time": _unzoned(time),
    "$date": date.fromisoformat,
    "$timedelta": lambda p: timedelta(*p),
    "$timezone": lambda p: timezone(*p) if p != [timedelta(0)] else UTC,
    "$zone": _unzone,
    "$uuid": uuid.UUID,
    "$regex": lambda p: re.compile(p[0], p[1] & ~re.DEBUG),  # which prints the pattern
    "$path": lambda p: _PATHS[p[0]](p[1]),
    "$ip": lambda p: _ADDRESSES[p[0]](p[1]),
    "$numpy": _unnumpy,
    "$send": _unsend,
    "$interrupt": _uninterrupt,
    "$command": _uncommand,
    "$overwrite": Overwrite,
    "$delta": _DeltaSnapshot,
}
"""Tag to the value of a decoded payload. References and sealed values are `thaw`'s."""


def tag_numpy(value: Any) -> Tagged | None:
    """A numpy array or scalar; None if the value is neither.

    LangGraph's serde refuses scalars and datetime64 (langgraph#8350), hands out read-only arrays, and makes None of
    an array of objects.

    Raises:
        TypeError: Its elements are Python objects, or of no size.
        ValueError: Its type is nested too deeply.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray and not isinstance(value, numpy.generic):
        return None
    if value.dtype.hasobject or value.dtype.kind not in _NUMPY_KINDS:
        raise TypeError(f"a numpy value of {value.dtype} has no bytes of its own; store a list")
    dtype = value.dtype.str if value.dtype.names is None else [list(field) for field in value.dtype.descr]
    if type(dtype) is list:
        for field in dtype:
            _field(field)  # so that it can be read
    if isinstance(value, numpy.generic):
        return "$numpy", [dtype, None, "C", tag_bytes(value.tobytes())]
    if not value.dtype.itemsize:
        raise TypeError(f"an array of {value.dtype} has no bytes; store its shape")
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    return "$numpy", [dtype, list(value.shape), order, tag_bytes(value.tobytes(order))]


def tagged(value: Any) -> Tagged | None:
    """A value's tag and payload; None if only the serde can store it. Raises what `tag_numpy` raises."""
    return TAG.get(type(value), tag_numpy)(value)
