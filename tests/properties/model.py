"""What a checkpointer must answer, in memory: LangGraph's InMemorySaver, and what it lacks."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.memory import InMemorySaver

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple


class Pickled:
    """A serde that keeps types, which InMemorySaver's own does not (a tuple becomes a list)."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Pickled."""
        return "pickle", pickle.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Unpickled."""
        return pickle.loads(data[1])


class Model(InMemorySaver):
    """InMemorySaver with `copy_thread`, `delete_for_runs` and `prune`, for threads without a DeltaChannel."""

    def __init__(self) -> None:
        super().__init__(serde=Pickled())

    def threads(self) -> list[str]:
        """The threads that have a checkpoint."""
        return [thread for thread, spaces in self.storage.items() if any(spaces.values())]

    def ids(self, thread_id: str, ns: str) -> list[str]:
        """The ids of a namespace's checkpoints, ascending."""
        return sorted(self.storage[thread_id][ns])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints, blobs and writes."""
        self.storage[target_thread_id] = copy.deepcopy(self.storage[source_thread_id])
        for held in (self.writes, self.blobs):
            copied = {(target_thread_id, *k[1:]): v for k, v in held.items() if k[0] == source_thread_id}
            held.update(copy.deepcopy(copied))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Drop the checkpoints of these runs, with their writes."""
        for thread_id, spaces in self.storage.items():
            for ns, found in spaces.items():
                for name, (_, metadata, _) in list(found.items()):
                    if self.serde.loads_typed(metadata).get("run_id") in run_ids:
                        self._drop(thread_id, ns, name)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep each namespace's newest checkpoint, with its writes."""
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            for ns in list(self.storage[thread_id]):
                for name in self.ids(thread_id, ns)[:-1]:
                    self._drop(thread_id, ns, name)

    def _drop(self, thread_id: str, ns: str, name: str) -> None:
        found = self.storage[thread_id][ns]
        del found[name]
        self.writes.pop((thread_id, ns, name), None)
        # A parent that was dropped is no parent; one that was never stored is somebody else's matter.
        for child, (checkpoint, metadata, parent) in found.items():
            if parent == name:
                found[child] = (checkpoint, metadata, None)


def place_of(config: RunnableConfig | None) -> dict[str, Any] | None:
    """What names a checkpoint in a config."""
    if config is None:
        return None
    return {key: config["configurable"].get(key, "") for key in ("thread_id", "checkpoint_ns", "checkpoint_id")}


def plain(found: CheckpointTuple | None) -> Any:
    """A tuple as one value; the order of channels and metadata keys means nothing."""
    if found is None:
        return None
    checkpoint = dict(sorted(found.checkpoint.items()))
    checkpoint["channel_values"] = dict(sorted(checkpoint["channel_values"].items()))
    checkpoint["channel_versions"] = dict(sorted(checkpoint["channel_versions"].items()))
    return {
        "config": place_of(found.config),
        "checkpoint": checkpoint,
        "metadata": dict(sorted(found.metadata.items())),
        "parent": place_of(found.parent_config),
        "writes": found.pending_writes,
    }


def newest_first(found: Iterable[CheckpointTuple]) -> list[Any]:
    """Tuples as values, descending by id; no two of one thread share an id, but those of a copy do."""
    return sorted(
        map(plain, found),
        key=lambda t: (t["config"]["checkpoint_id"], t["config"]["thread_id"]),
        reverse=True,
    )
