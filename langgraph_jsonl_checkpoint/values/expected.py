"""The classes that a log may have rebuilt in this process.

LangGraph collects those that a graph's schemas name, but looks into no `Sequence` or `Mapping`, no type alias, no
named tuple and no annotation of a function: objects of the classes named there would come back as dicts. So all of
these are looked into here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from langgraph_jsonl_checkpoint.upstream import schemas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EXPECTED: set[tuple[str, ...]] = set()
"""The classes that this process has in a graph's schemas, was told to allow, or has stored: (module, name)."""

# Methods by which LangGraph's serializer knows an object that it can store.
_DUMPS = "model_dump", "get_secret_value", "dict", "_asdict"


def expect(types: Iterable[Any]) -> None:
    """Expect the classes that types name, at any depth: those of which the serializer stores objects, no other."""
    todo, seen = [*types], set()
    while todo:
        each = todo.pop()
        if isinstance(each, list):  # the parameters of a Callable
            todo += each
            continue
        if isinstance(each, type) or _is_alias(each):  # a class or a type alias may hold itself
            if each in seen:
                continue
            seen.add(each)
        if isinstance(each, type) and _is_stored(each):
            EXPECTED.add((each.__module__, each.__name__))
        todo += _named_by(each)


def expect_signatures(function: Any) -> None:
    """Expect the classes that the annotations of a function name, and those of the tasks that it calls."""
    todo, seen = [function], set()
    while todo:
        each = todo.pop()
        while isinstance(each, functools.partial):
            each = each.func
        each = inspect.unwrap(each)
        if id(each) not in seen:
            seen.add(id(each))
            expect(_hints(each))
            # A task may have been made before this package was imported.
            todo += filter(schemas.is_task, _names_in(each))


def _names_in(function: Any) -> list[Any]:
    try:
        names = inspect.getclosurevars(function)
    except (TypeError, ValueError):  # a callable object, or a variable that has no value yet
        return []
    return [*names.globals.values(), *names.nonlocals.values()]


def _is_stored(cls: type) -> bool:
    return (
        dataclasses.is_dataclass(cls)
        or issubclass(cls, Enum)
        or any(callable(getattr(cls, name, None)) for name in _DUMPS)
    )


def _is_alias(hint: Any) -> bool:
    return type(hint).__name__ == "TypeAliasType"  # of `typing` or of `typing_extensions`


def _named_by(hint: Any) -> Iterator[Any]:
    """The types that a type is made of."""
    origin = get_origin(hint)
    if origin is Annotated:
        yield get_args(hint)[0]
    elif origin is not None and origin is not Literal:
        yield origin
        yield from get_args(hint)
    elif isinstance(hint, type):
        if is_typeddict(hint) or _is_stored(hint):
            yield from _hints(hint)
    elif _is_alias(hint):
        with contextlib.suppress(NameError):  # a `type` statement is looked at only now
            yield from _resolved(hint.__value__, hint.__module__)
    else:  # a NewType, a TypeVar
        yield from (getattr(hint, name) for name in ("__supertype__", "__bound__") if hasattr(hint, name))
        yield from getattr(hint, "__constraints__", ())


def _hints(annotated: Any) -> list[Any]:
    """The types in the annotations of a class or a function; of those that cannot be resolved none."""
    try:
        return [*get_type_hints(annotated, include_extras=True).values()]
    except Exception:  # noqa: BLE001 - an annotation is any expression; one that fails must not hide the others
        found: list[Any] = []
        for each in getattr(annotated, "__mro__", [annotated]):
            for hint in getattr(each, "__annotations__", {}).values():
                found += _resolved(hint, each.__module__)
        return found


def _resolved(hint: Any, module: str) -> list[Any]:
    """A type in which names of a module may stand as strings."""
    one = type("_", (), {"__annotations__": {"hint": hint}, "__module__": module})
    try:
        return [*get_type_hints(one, include_extras=True).values()]
    except Exception:  # noqa: BLE001 - as above
        return []


schemas.hear(expect, expect_signatures)
