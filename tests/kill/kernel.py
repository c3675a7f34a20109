"""The system calls of a log as places to die.

A point has a name and a number: `arm("after write", 7)` kills this process when its seventh write has
returned. SIGKILL runs no handler and flushes nothing; what the kernel has taken stays, the rest is gone.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from warm import die

from langgraph_jsonl_checkpoint.log import files

if TYPE_CHECKING:
    from collections.abc import Callable

_counting = threading.Lock()
_point = ""
_left = 0


def arm(point: str, number: int) -> None:
    """Die when `point` is reached for the given time."""
    global _point, _left
    _point, _left = point, number


def reached(point: str) -> bool:
    """Whether this is the point and the time."""
    global _left  # noqa: PLW0603 (a process dies once)
    if point != _point:
        return False
    with _counting:
        _left -= 1
        return _left == 0


def die_at(point: str) -> None:
    """Die if this is the point and the time."""
    if reached(point):
        die()


def watch() -> None:
    """Put the points in place."""
    files.pwrite = _watched_write(files.pwrite)
    for name in ("fsync", "fdatasync"):
        setattr(files, name, _watched_sync(getattr(files, name)))
    for name in ("mkdir", "link", "unlink", "rename", "ftruncate"):
        setattr(files, name, _watched_change(getattr(files, name)))


def _watched_write(call: Callable[..., int]) -> Callable[..., int]:
    def watched(fd: int, data: bytes, offset: int) -> int:
        die_at("before write")
        if reached("begin of a write"):
            call(fd, bytes(data)[:10], offset)
            die()
        if reached("half a write"):
            call(fd, bytes(data)[: len(data) // 2], offset)
            die()
        written = call(fd, data, offset)
        die_at("after write")
        return written

    return watched


def _watched_sync(call: Callable[[int], None]) -> Callable[[int], None]:
    def watched(fd: int) -> None:
        call(fd)
        die_at("after sync")

    return watched


def _watched_change(call: Callable[..., None]) -> Callable[..., None]:
    def watched(*args: Any, **kwargs: Any) -> None:
        die_at("before a change")
        call(*args, **kwargs)
        die_at("after a change")

    return watched
