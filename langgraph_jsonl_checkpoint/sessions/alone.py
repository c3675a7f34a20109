"""Methods that their thread must not enter again while it is in one of them.

A signal handler, or a finalizer that the garbage collector runs, interrupts whatever its thread is doing. If that is
reading or writing a session, the session is neither as it was nor as it will be: what the handler appended would be
overwritten, and what it read would be counted twice, and stored so.
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
    """Mark a session as `changing` while one of its methods runs."""

    @wraps(method)
    def changes(session: _S, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        before = session.changing
        try:
            session.changing = True
            return method(session, *args, **kwargs)
        finally:
            session.changing = before

    return cast("Callable[Concatenate[_S, _P], _T]", changes)
