"""When two values are the same: equal is not enough, since 1 == True and NaN != NaN."""

from __future__ import annotations

import dataclasses
import sys
from collections import defaultdict, deque
from typing import Any

import pydantic
import pydantic.v1
from langgraph.types import Send


def difference(got: Any, want: Any, at: str = "value") -> str | None:
    """The first place where `got` is not what `want` is, type by type, or None.

    Stricter than `==`: types must match at every depth, floats by their text (so NaN is NaN and -0.0 is
    not 0.0), dicts also in the order of their keys, messages in every field.
    """
    if type(got) is not type(want):
        return f"{at}: {type(got).__name__} {got!r:.200}, not {type(want).__name__} {want!r:.200}"
    if isinstance(want, dict):
        return _dict_difference(got, want, at)
    if isinstance(want, (list, tuple, deque)):
        return _sequence_difference(got, want, at)
    if isinstance(want, (set, frozenset)):
        return _unequal(_member(got), _member(want), at)
    if isinstance(want, (float, complex)):
        return _unequal(repr(got), repr(want), at)
    if isinstance(want, pydantic.BaseModel):
        return _dict_difference(_fields(got), _fields(want), at)
    if isinstance(want, pydantic.v1.BaseModel):
        return _dict_difference(got.__dict__, want.__dict__, at)
    if isinstance(want, Send):
        parts = ("node", "arg", "timeout")
        return _dict_difference(*({p: getattr(s, p) for p in parts} for s in (got, want)), at)
    if dataclasses.is_dataclass(want):
        names = [f.name for f in dataclasses.fields(want)]
        return _dict_difference(*({n: getattr(d, n) for n in names} for d in (got, want)), at)
    if type(want).__module__.partition(".")[0] == "numpy":
        return _array_difference(got, want, at)
    if type(want).__module__.partition(".")[0] == "pandas":
        return None if got.equals(want) and repr(got) == repr(want) else f"{at}: {got!r}, not {want!r}"
    if isinstance(want, int):
        return _unequal(got, want, at)
    # Two equal datetimes can differ in zone and fold, two equal Decimals in digits; NaN is not itself.
    return _unequal(repr(got), repr(want), at)


def listed(value: Any) -> Any:
    """Metadata as it comes back: JSON in every official saver, so its tuples are lists."""
    if type(value) is dict:
        return {key: listed(member) for key, member in value.items()}
    return [listed(member) for member in value] if type(value) in (list, tuple) else value


def _member(value: Any) -> str:
    """A member of a set as text, which tells 1 from True and from 1.0 as equality does not."""
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}{{{', '.join(sorted(map(_member, value)))}}}"
    if type(value) is tuple:
        return f"({', '.join(map(_member, value))},)"
    return repr(value)


def _fields(model: pydantic.BaseModel) -> dict[str, Any]:
    # The order of a model's fields is that of its class, or of who filled them in: it means nothing.
    parts = {
        "fields": model.__dict__,
        "extra": model.__pydantic_extra__,
        "private": model.__pydantic_private__,
    }
    return {name: part and dict(sorted(part.items())) for name, part in parts.items()}


def _unequal(got: Any, want: Any, at: str) -> str | None:
    return None if got == want else f"{at}: {got!r:.300}, not {want!r:.300}"


def _dict_difference(got: dict, want: dict, at: str) -> str | None:
    if wrong := _sequence_difference(list(got), list(want), f"{at}.keys()"):
        return wrong
    if isinstance(want, defaultdict) and got.default_factory != want.default_factory:
        return f"{at}: default_factory {got.default_factory}, not {want.default_factory}"
    # By position: a NaN key is found by neither `in` nor [].
    pairs = zip(want, got.values(), want.values(), strict=True)
    return next((d for k, g, w in pairs if (d := difference(g, w, f"{at}[{k!r}]"))), None)


def _sequence_difference(got: Any, want: Any, at: str) -> str | None:
    if len(got) != len(want):
        return f"{at}: {len(got)} elements, not {len(want)}: {got!r:.300}, not {want!r:.300}"
    if isinstance(want, deque) and got.maxlen != want.maxlen:
        return f"{at}: maxlen {got.maxlen}, not {want.maxlen}"
    pairs = enumerate(zip(got, want, strict=True))
    return next((d for i, (g, w) in pairs if (d := difference(g, w, f"{at}[{i}]"))), None)


def _array_difference(got: Any, want: Any, at: str) -> str | None:
    numpy = sys.modules["numpy"]
    if got.dtype != want.dtype or got.dtype.names != want.dtype.names:
        return f"{at}: dtype {got.dtype}, not {want.dtype}"
    if isinstance(want, numpy.ndarray):
        if got.shape != want.shape:
            return f"{at}: shape {got.shape}, not {want.shape}"
        if want.flags.f_contiguous and not got.flags.f_contiguous:
            return f"{at}: not in Fortran order"
        if want.dtype.hasobject:
            return difference(got.tolist(), want.tolist(), at)
    return _unequal(got.tobytes(), want.tobytes(), at)
