"""Types as users define them, at the top of a module, so that a serde finds them again by name."""

from __future__ import annotations

import enum
from collections import OrderedDict, UserDict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pydantic
import pydantic.v1
from langchain_core.messages import AIMessage, HumanMessage


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Mode(enum.StrEnum):
    FAST = "fast"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Outer:
    """Its inner types have a `__qualname__` that the official serde does not store."""

    class Inner(enum.Enum):  # noqa: D106
        FIRST = 1

    @dataclass
    class Part:  # noqa: D106
        size: int


@dataclass
class Point:
    x: int
    label: Any = None


@dataclass
class Segment:
    start: Point
    end: Point
    via: list[Point] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    x: int


@dataclass
class Counted:
    """A field that the constructor refuses: rebuilt by keyword it would be lost."""

    name: str
    hits: int = field(init=False, default=0)


class Pair(NamedTuple):
    left: int
    right: Any


class Name(str):
    __slots__ = ()


class Seconds(int):
    pass


class Score(float):
    pass


class Options(dict):
    pass


class Ordered(OrderedDict):
    pass


class Rows(list):
    pass


class Row(tuple):
    __slots__ = ()


class Bag(UserDict):
    pass


class Address(pydantic.BaseModel):
    street: str
    lines: list[int] = []


class Person(pydantic.BaseModel):
    name: str
    home: Address | None = None


class OldPerson(pydantic.v1.BaseModel):
    name: str
    age: int = 0


class Secretive(pydantic.BaseModel):
    token: pydantic.SecretStr


class Priority(HumanMessage):
    """A message class of the user's, with a field of its own."""

    level: int = 0


class Typed(AIMessage):
    verdict: Point | None = None


class Gone(pydantic.BaseModel):
    """The class that a test takes away between writing and reading."""

    text: str


class Opaque:
    """What no serde can store."""
