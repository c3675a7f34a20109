"""Worker threads of the package's own, so that no disk blocks an event loop.

They are not asyncio's default ones: a graph's synchronous nodes and its callbacks may occupy all of those while they
wait for something that the saver has yet to store.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")


def submit(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> asyncio.Future[_T]:
    """Call something in a worker thread, with the caller's context variables."""
    call = partial(contextvars.copy_context().run, work, *args, **kwargs)
    return asyncio.get_running_loop().run_in_executor(_workers, call)


def _workers_of_this_process() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="jsonl-saver")


def _after_fork() -> None:
    global _workers  # noqa: PLW0603 - the child does not have the parent's threads
    _workers = _workers_of_this_process()


_workers = _workers_of_this_process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
