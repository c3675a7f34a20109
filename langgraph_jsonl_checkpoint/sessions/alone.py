"""What must not be entered again by the thread that is in it.

A signal handler, and what a garbage collection finalizes, run inside whatever their thread is doing. One that uses
the session which the thread is reading or writing finds it neither as it was nor as it will be: what it appended
would be overwritten, and what it read would be counted twice, and stored so.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable


class _Changing(Protocol):
    changing: bool


_S = TypeVar("_S", bound=_Changing)
_P = ParamSpec("_P")
_T = TypeVar("_T")


def alone(method: Callable[Concatenate[_S, _P], _T]) -> Callable[Concatenate[_S, _P], _T]:
    """A method that says of its session that it is `changing`."""

    @wraps(method)
    def changes(session: _S, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        before = session.changing
        try:
            session.changing = True
            return method(session, *args, **kwargs)
        finally:
            session.changing = before

    return cast("Callable[Concatenate[_S, _P], _T]", changes)
