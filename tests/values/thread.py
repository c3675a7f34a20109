"""One thread on disk: step after step is put, the saver is reopened, and what it reads is looked at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import zstandard
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple


def marker(number: int) -> str:
    """A text that stands in the log once for each time its message is stored."""
    return f"MARK-{number:04}-"


def message(number: int) -> AnyMessage:
    """A message of half a kilobyte, which begins with its marker."""
    kind = (HumanMessage, AIMessage)[number % 2]
    return kind(marker(number) + "x" * 500, id=f"m{number}")


class Thread:
    """A thread of a `JsonlSaver` over `root`; `options` go to the saver."""

    def __init__(self, root: Path, thread_id: str = "thread", **options: Any) -> None:
        self.root = root
        self.thread_id = thread_id
        self.options = options
        self.configs: list[RunnableConfig] = []
        self.versions: dict[str, str] = {}
        self.saver = JsonlSaver(root, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.saver.close()

    def reopen(self) -> None:
        """Close the saver and open the same place again, as a new process would."""
        self.saver.close()
        self.saver = JsonlSaver(self.root, **self.options)

    @property
    def head(self) -> RunnableConfig:
        """The config of the newest checkpoint, or of an empty thread."""
        empty: RunnableConfig = {"configurable": {"thread_id": self.thread_id, "checkpoint_ns": ""}}
        return self.configs[-1] if self.configs else empty

    def step(
        self,
        values: dict[str, Any],
        *,
        metadata: dict[str, Any] | None = None,
        seen: dict[str, dict[str, str]] | None = None,
    ) -> RunnableConfig:
        """Put a checkpoint with these channel values after the newest one."""
        number = len(self.configs)
        new = {c: self.saver.get_next_version(self.versions.get(c), None) for c in values}
        checkpoint = {
            "v": 4,
            "id": f"1f000000-0000-6000-8000-{number:012}",
            "ts": f"2026-01-02T03:04:05.{number:06}+00:00",
            "channel_values": values,
            "channel_versions": self.versions | new,
            "versions_seen": seen or {},
            "updated_channels": sorted(values),
        }
        metadata = {"source": "loop", "step": number, "parents": {}} | (metadata or {})
        config = self.saver.put(self.head, checkpoint, metadata, new)
        # Only now: a step that was refused leaves no trace here either.
        self.versions |= new
        self.configs.append(config)
        return config

    def write(self, writes: Sequence[tuple[str, Any]], task_id: str = "task", path: str = "") -> None:
        """Put pending writes under the newest checkpoint."""
        self.saver.put_writes(self.head, writes, task_id, path)

    def read(self, config: RunnableConfig | None = None) -> CheckpointTuple:
        """Read a checkpoint, or the newest one."""
        saved = self.saver.get_tuple(config or {"configurable": {"thread_id": self.thread_id}})
        assert saved is not None
        return saved

    def values(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """The channel values of a checkpoint, or of the newest one."""
        return self.read(config).checkpoint["channel_values"]

    def size(self) -> int:
        """Bytes of the log file."""
        return self.saver.path(self.thread_id).stat().st_size

    def text(self) -> bytes:
        """The whole log, decompressed."""
        with self.saver.path(self.thread_id).open("rb") as file:
            return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()

    def records(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The records of the log, or those of one type."""
        records = [json.loads(line) for line in self.text().splitlines()]
        return [r for r in records if kind in (None, r["type"])]

    def count(self, marker: str) -> int:
        """How often a text stands in the decompressed log."""
        return self.text().count(marker.encode())

    def stored(self, numbers: range) -> list[int]:
        """How often each `message` of these numbers is in the log."""
        return [self.count(marker(n)) for n in numbers]
