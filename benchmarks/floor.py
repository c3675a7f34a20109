"""The least that a saver can do: nothing at all, and to write what is new and no more.

Nobody could use them. They tell what of a number is LangGraph's own, and what the disk's and the encoder's.
"""

from __future__ import annotations

import asyncio
import os
import threading
from operator import is_
from typing import TYPE_CHECKING, Any, Self

import zstandard
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, copy_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

if TYPE_CHECKING:
    from pathlib import Path


class StoresNothing(BaseCheckpointSaver[str]):
    """What LangGraph itself takes: it keeps the newest checkpoint's own objects, so that a chat can go on."""

    _newest: CheckpointTuple | None = None

    def get_tuple(self, config: Any) -> Any:  # noqa: ARG002 - LangGraph's interface
        newest = self._newest
        return newest and newest._replace(checkpoint=copy_checkpoint(newest.checkpoint))

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:  # noqa: ARG002
        stored = {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}
        self._newest = CheckpointTuple(stored, checkpoint, metadata, config, [])
        return stored

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """A finished turn has none that are pending."""

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def aput(self, *arguments: Any) -> Any:
        return self.put(*arguments)

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.put_writes(config, writes, task_id, task_path)

    # The versions that the savers which store something have: strings.
    get_next_version = InMemorySaver.get_next_version


class OnlyWrites(StoresNothing):
    """What is new of each call, compressed and appended to one file; each `put` is synced.

    It finds what is new by looking which objects a list begins with, so what a node changes in place is lost. It
    never reads: no number, no name, no checksum that would find anything again.

    Args:
        folder: Where its file is made.
        syncs: Whether a `put` is synced.
    """

    def __init__(self, folder: Path, *, syncs: bool = True) -> None:
        super().__init__()
        self._syncs = syncs
        self._fd = os.open(folder / "written", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._compress = zstandard.ZstdCompressor(3).compress
        self._lock = threading.Lock()
        self._before: dict[tuple[str, str], Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        os.close(self._fd)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        thread, values = config["configurable"]["thread_id"], checkpoint["channel_values"]
        changed = {name: self._new((thread, name), values[name]) for name in new_versions if name in values}
        self._append((checkpoint | {"channel_values": changed}, metadata), sync=self._syncs)
        return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:  # noqa: ARG002
        self._append((task_id, task_path, list(writes)), sync=False)

    async def aput(self, *arguments: Any) -> Any:
        return await asyncio.to_thread(self.put, *arguments)

    async def aput_writes(self, *arguments: Any) -> None:
        await asyncio.to_thread(self.put_writes, *arguments)

    def _new(self, place: tuple[str, str], value: Any) -> Any:
        before, self._before[place] = self._before.get(place), value
        if type(value) is list is type(before) and len(before) <= len(value) and all(map(is_, before, value)):
            return len(before), value[len(before) :]
        return value

    def _append(self, what: Any, *, sync: bool) -> None:
        data = self.serde.dumps_typed(what)[1]
        with self._lock:
            os.write(self._fd, self._compress(data))
            if sync:
                os.fdatasync(self._fd)
