"""Worker threads of the package's own, so that no disk blocks an event loop; and the asynchronous interface in them.

Not asyncio's default ones: a graph's synchronous nodes, and callbacks, may fill those while they wait for something
that the saver has yet to store.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import DeltaChannelHistory

_P = ParamSpec("_P")
_T = TypeVar("_T")


def submit(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> asyncio.Future[_T]:
    """Have a worker thread do something, with the caller's context variables."""
    call = partial(contextvars.copy_context().run, work, *args, **kwargs)
    return asyncio.get_running_loop().run_in_executor(_workers, call)


def _workers_of_this_process() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="jsonl-saver")


def _after_fork() -> None:
    global _workers  # noqa: PLW0603 - the threads are the parent's
    _workers = _workers_of_this_process()


_workers = _workers_of_this_process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class InWorkerThreads(BaseCheckpointSaver[Any]):
    """Each method does what the synchronous one of its name does."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple` in a worker thread."""
        return await submit(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list`, each step in a worker thread."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (item := await submit(next, found, None)) is not None:
            yield item

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """`get_delta_channel_history` in a worker thread."""
        return await submit(self.get_delta_channel_history, config=config, channels=channels)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread` in a worker thread."""
        await submit(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """`delete_for_runs` in a worker thread."""
        await submit(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """`copy_thread` in a worker thread."""
        await submit(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """`prune` in a worker thread."""
        await submit(self.prune, thread_ids, strategy=strategy)
