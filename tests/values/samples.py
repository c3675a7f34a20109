"""The table of values: what must come back the same, and what may come back as the official serde has it."""

from __future__ import annotations

import ipaddress
import math
import re
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pydantic
from langchain_core.documents import Document

from .sample_types import (
    Address,
    Bag,
    Colour,
    Counted,
    Frozen,
    Level,
    Mode,
    Name,
    OldPerson,
    Options,
    Ordered,
    Outer,
    Pair,
    Person,
    Point,
    Rights,
    Row,
    Rows,
    Score,
    Seconds,
    Secretive,
    Segment,
)

PARIS = ZoneInfo("Europe/Paris")
LONG = "long enough to be stored on its own, " * 12

PLAIN: dict[str, Any] = {
    "none": None,
    "true": True,
    "false": False,
    "zero": 0,
    "one": 1,
    "one as float": 1.0,
    "minus zero": -0.0,
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "smallest float": 5e-324,
    "largest float": 1.7976931348623157e308,
    "float with 17 digits": 0.1 + 0.2,
    "float beyond 2**53": 1e22,
    "2**53 + 1": 2**53 + 1,
    "largest signed": 2**63 - 1,
    "smallest signed": -(2**63),
    "largest unsigned": 2**64 - 1,
    "2**64": 2**64,
    "below 64 bits": -(2**63) - 1,
    "empty string": "",
    "NUL": "a\x00b",
    "control characters": "".join(map(chr, range(32))) + "\x7f\x80\u2028\u2029\ufeff",
    "astral": "😀 é ́ \U0010ffff",
    "lone high surrogate": "a\ud800b",
    "lone low surrogate": "\udc00",
    "surrogates in the wrong order": "\udc00\ud800",
    "surrogate pair as two characters": "\ud83d\ude00",
    "long string": LONG,
    "looks like a tag": '{"$ref":1}',
    "dollar": "$ref",
    "bytes": b"\x00\xff bytes",
    "empty bytes": b"",
    "bytearray": bytearray(b"\x00\xff"),
    "long bytes": bytes(range(256)) * 3,
}

CONTAINERS: dict[str, Any] = {
    "empty list": [],
    "empty dict": {},
    "empty tuple": (),
    "tuple": (1, "a", (2.0, [3])),
    "list of long strings": [LONG, LONG + "!", [LONG]],
    "dict of long strings": {"a": LONG, "b": {"c": LONG}},
    "tuple of long strings": (LONG, {"a": (LONG,)}),
    "set": {1, "a", (2, 3)},
    "empty set": set(),
    "frozenset": frozenset({1.5, frozenset({2})}),
    "set of look-alikes": {True, 2.0, 3, "3"},
    "deque": deque([1, (2,)]),
    "bounded deque": deque([1, 2], maxlen=2),
    "OrderedDict": OrderedDict([("b", 1), ("a", (2,))]),
    "defaultdict of list": defaultdict(list, a=[1]),
    "defaultdict of int": defaultdict(int, {(1, 2): 3}),
    "defaultdict without a factory": defaultdict(None, a=1),
    "Counter": Counter("abracadabra"),
    "order of keys": {"z": 1, "a": 2, "m": 3},
    "int keys": {1: "a", -2: "b"},
    "look-alike keys": {1: "int", "1": "str", 2.0: "float", "2.0": "text"},
    "None, bool and float keys": {None: 0, True: 1, 2.5: 2, math.inf: 3},
    "tuple keys": {(1, "a"): 1, (1, (2, None)): 2},
    "bytes and date keys": {b"a": 1, date(2026, 1, 2): 2},
    "enum keys": {Colour.RED: 1},
    "NaN key": {math.nan: 1},
    "surrogate key": {"\ud800": 1, "a": 2},
    "big int key": {2**70: 1},
    "empty key": {"": 1},
    "NUL key": {"\x00": 1},
    "int keys, long values": {i: LONG + str(i) for i in range(4)},
}

TAG_NAMES = [
    "ref", "list", "map", "dict", "tuple", "set", "frozenset", "deque", "ordered", "defaultdict",
    "counter", "int", "float", "complex", "decimal", "fraction", "range", "str", "bytes", "bytearray",
    "datetime", "date", "time", "timedelta", "timezone", "zone", "uuid", "path", "ip", "regex", "numpy",
    "send", "interrupt", "command", "overwrite", "delta", "timeout", "serde", "sealed", "unknown",
    "message", "enum",
]  # fmt: skip

# Dicts of the user's that look like this format's own tags.
TAGS: dict[str, Any] = {
    name: value
    for tag in TAG_NAMES
    for name, value in {
        f"${tag}: 1": {f"${tag}": 1},
        f"${tag}: list": {f"${tag}": []},
        f"${tag}: pairs": {f"${tag}": [["a", 1]]},
    }.items()
} | {
    "$": {"$": 1},
    "$$ref": {"$$ref": 1},
    "two tags": {"$ref": 1, "$list": [[0, 1]]},
    "tag in a tag": {"$dict": [["$ref", {"$ref": 0}]]},
    "tag beside a key": {"$ref": 1, "other": 2},
    "tag with a long value": {"$ref": LONG},
    "class": {"class": "AIMessage", "content": "not a message"},
    "class of ours": {"class": "HumanMessage", "n": 1},
    "lc": {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"]},
}

SCALARS: dict[str, Any] = {
    "complex": 1.5 - 2j,
    "complex with NaN": complex(math.nan, -0.0),
    "Decimal": Decimal("1.10"),
    "Decimal NaN": Decimal("NaN").copy_sign(Decimal(1)),
    "Decimal -0E+3": Decimal("-0E+3"),
    "Fraction": Fraction(-1, 3),
    "range": range(1, 10, 3),
    "range beyond 64 bits": range(0, 2**70, 2**69),
    "datetime": datetime(2026, 1, 2, 3, 4, 5, 678901),  # noqa: DTZ001 - naive on purpose
    "datetime in UTC": datetime(2026, 1, 2, tzinfo=UTC),
    "datetime with an offset": datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    "datetime with seconds in its offset": datetime(1900, 1, 1, tzinfo=timezone(timedelta(seconds=1172))),
    "datetime in a named zone": datetime(2026, 1, 2, tzinfo=PARIS),
    "datetime in a fold": datetime(2025, 10, 26, 2, 30, fold=1, tzinfo=PARIS),
    "naive datetime with fold": datetime(2025, 10, 26, 2, 30, fold=1),  # noqa: DTZ001 - naive on purpose
    "first datetime": datetime.min,  # noqa: DTZ901 - naive on purpose
    "date": date(2026, 1, 2),
    "time": time(1, 2, 3, 4),
    "time with a zone": time(1, 2, tzinfo=UTC),
    "time in a named zone": time(1, 2, tzinfo=PARIS),
    "time with fold": time(1, 2, fold=1),
    "timedelta": timedelta(days=-1, seconds=5, microseconds=7),
    "timezone": timezone(timedelta(hours=-3)),
    "timezone with a name": timezone(timedelta(hours=-3), "BRT"),
    "UTC": UTC,
    "ZoneInfo": PARIS,
    "UUID": uuid.UUID(int=5),
    "Path": Path("/a/b c"),
    "relative Path": Path("a/../b"),
    "PurePath": PurePath("a"),
    "PurePosixPath": PurePosixPath("/a"),
    "PureWindowsPath": PureWindowsPath(r"c:\a"),
    "Path with a surrogate": Path("a\udcffb"),
    "regex": re.compile(r"a+\n", re.IGNORECASE | re.DOTALL),
    "bytes regex": re.compile(rb"\xff"),
} | {
    kind.__name__: kind(text)
    for kind, text in (
        (ipaddress.IPv4Address, "192.0.2.1"),
        (ipaddress.IPv4Interface, "192.0.2.1/24"),
        (ipaddress.IPv4Network, "192.0.2.0/24"),
        (ipaddress.IPv6Address, "2001:db8::1"),
        (ipaddress.IPv6Interface, "2001:db8::1/64"),
        (ipaddress.IPv6Network, "2001:db8::/64"),
    )
}

NUMPY: dict[str, Any] = {
    "int array": np.arange(12).reshape(3, 4),
    "0-d array": np.array(5.0),
    "empty array": np.zeros((0, 3)),
    "Fortran order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(10)[::3],
    "transposed view": np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
    "big-endian": np.arange(3, dtype=">i4"),
    "bool array": np.array([True, False]),
    "complex array": np.array([1j, np.nan]),
    "text array": np.array(["a", "été"]),
    "bytes array": np.array([b"a", b"bc"]),
    "datetime64 array": np.array(["2026-01-02", "NaT"], dtype="M8[ns]"),
    "timedelta64 array": np.array([1, 2], dtype="m8[s]"),
    "float16": np.arange(3, dtype="f2"),
    "long array": np.arange(1000),
    "np.float64": np.float64(1.5),
    "np.float64 NaN": np.float64("nan"),
    "np.float32": np.float32(1.5),
    "np.int64": np.int64(3),
    "np.uint8": np.uint8(3),
    "np.bool": np.bool_(True),
    "np.complex128": np.complex128(1j),
    "np.datetime64": np.datetime64("2026-01-02"),
    "np.timedelta64": np.timedelta64(5, "s"),
    "empty np.str_": np.str_(""),
    "empty np.bytes_": np.bytes_(b""),
    "empty np.void": np.void(b""),
    "aligned fields": np.array([(1, 2, [3, 4])], np.dtype([("a", "i1"), ("b", "i8"), ("c", "i2", 2)], align=True)),
    "aligned fields within fields": np.zeros(
        2, [("a", np.dtype([("b", "i1"), ("c", "i8")], align=True)), ("d", "V7")]
    ),
    "a scalar of aligned fields": np.zeros(1, np.dtype([("a", "i1"), ("b", "i8")], align=True))[0],
    "a field with a title": np.zeros(2, [(("title", "name"), "i1")]),
}

# What goes through the serde: it decides what comes back, and it is exact for these.
OBJECTS: dict[str, Any] = {
    "enum": Colour.RED,
    "IntEnum": Level.HIGH,
    "StrEnum": Mode.FAST,
    "Flag": Rights.READ | Rights.WRITE,
    "dataclass": Point(1, "a"),
    "nested dataclasses": Segment(Point(1), Point(2, {"a": [1]}), [Point(3), Point(4, LONG)]),
    "frozen dataclass with slots": Frozen(1),
    "NamedTuple": Pair(1, "a"),
    "pydantic": Person(name="a", home=Address(street="b", lines=[1, 2])),
    "long pydantic": Person(name=LONG),
    "pydantic.v1": OldPerson(name="a", age=3),
    "Document": Document(page_content="text", metadata={"source": "a"}, id="1"),
    "SecretStr": pydantic.SecretStr("hidden"),
    "dataclasses in a tuple in a set": {(Frozen(1), Frozen(2))},
    "exception in a list": ["ok", repr(ValueError("x"))],
}


def _counted() -> Counted:
    counted = Counted("a")
    counted.hits = 7
    return counted


# As JsonPlusSerializer has it, or better; never None.
AS_THE_SERDE: dict[str, Any] = {
    "nested enum": Outer.Inner.FIRST,
    "nested dataclass": Outer.Part(3),
    "dataclass with an init=False field": _counted(),
    "dataclass with a tuple": Point(1, (2, 3)),
    "NamedTuple with a tuple": Pair(1, (2, 3)),
    "str subclass": Name("a"),
    "int subclass": Seconds(5),
    "dict subclass": Options(a=1),
    "OrderedDict subclass": Ordered(a=1),
    "list subclass": Rows([1, 2]),
    "defaultdict of a lambda": defaultdict(lambda: 3, a=1),
    "np.str_": np.str_("a"),
    "exception": ValueError("x"),
    "memoryview": memoryview(b"a"),
    "SecretStr in a model": Secretive(token="hidden"),
    "structured array": np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
}

# JsonPlusSerializer refuses these: the same comes back, or an error at `put`.
SAME_OR_REFUSED: dict[str, Any] = {
    "int of 5,000 digits": 10**5000 + 7,
    "float subclass": Score(1.5),
    "tuple subclass": Row((1, 2)),
    "UserDict": Bag(a=1),
    "array of objects": np.array([1, "a", None], dtype=object),
    "array with object fields": np.array([(1, "a")], dtype=[("n", "i4"), ("o", object)]),
    "array of empty texts": np.zeros(2, [("a", "U0"), ("b", "i4")])["a"],
    "fields that overlap": np.zeros(2, {"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}),
    "slice": slice(1, 2),
    "Ellipsis": ...,
    "a type": int,
}

SAME = PLAIN | CONTAINERS | TAGS | SCALARS | NUMPY | OBJECTS
