"""Checkpoints and graphs that the cases share."""

from __future__ import annotations

import hashlib
import itertools
import operator
import time
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.messages import AnyMessage  # noqa: TC002 - LangGraph reads the annotation
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint


def config(thread_id: Any = "t", ns: str | None = "", checkpoint_id: str | None = None) -> RunnableConfig:
    """The config that names a thread, a namespace and a checkpoint."""
    named = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    return {"configurable": {key: value for key, value in named.items() if value is not None}}


def at(place: int) -> str:
    """A checkpoint id; ids sort as their places do."""
    return f"1f0cd5c8-{place:04x}-6000-8000-000000000000"


def checkpoint(checkpoint_id: str, values: dict[str, Any] | None = None) -> Checkpoint:
    """A checkpoint with these channel values, each with a version of its own."""
    values = {} if values is None else values
    return {
        "v": 4,
        "id": checkpoint_id,
        "ts": "2026-01-02T03:04:05.678901+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, f"{1:032}.{checkpoint_id}"),
        "versions_seen": {},
        "updated_channels": None,
    }


def put(
    saver: Any,
    checkpoint_id: str,
    values: dict[str, Any] | None = None,
    *,
    thread_id: Any = "t",
    ns: str = "",
    parent: str | None = None,
    **metadata: Any,
) -> RunnableConfig:
    """Store one checkpoint and return its config."""
    stored = checkpoint(checkpoint_id, values)
    return saver.put(
        config(thread_id, ns, parent),
        stored,
        {"source": "loop", "step": 0, "parents": {}, **metadata},
        stored["channel_versions"],
    )


def chain(saver: Any, length: int, *, thread_id: Any = "t", ns: str = "", **metadata: Any) -> list[str]:
    """Store a run of checkpoints, each the child of the one before; returns their ids."""
    ids = [at(place) for place in range(length)]
    for place, (parent, checkpoint_id) in enumerate(itertools.pairwise([None, *ids])):
        values = {"n": place}
        put(
            saver,
            checkpoint_id,
            values,
            thread_id=thread_id,
            ns=ns,
            parent=parent,
            **{"step": place} | metadata,
        )
    return ids


def ids(tuples: Iterable[Any]) -> list[str]:
    """The checkpoint ids of what `list` returned, in its order."""
    return [found.checkpoint["id"] for found in tuples]


def append(current: list, updates: Sequence[list]) -> list:
    """The reducer of a DeltaChannel that holds a list."""
    return [*current, *itertools.chain.from_iterable(updates)]


class TwinState(TypedDict):
    """One list twice: rebuilt from its writes, and stored plainly. They must always be equal."""

    delta: Annotated[list, DeltaChannel(append, list, snapshot_frequency=10_000)]
    plain: Annotated[list, operator.add]


class SnapshotState(TypedDict):
    """As TwinState, with a snapshot every third update."""

    delta: Annotated[list, DeltaChannel(append, list, snapshot_frequency=3)]
    plain: Annotated[list, operator.add]


class ChatState(TypedDict):
    """A conversation as most graphs keep it."""

    messages: Annotated[list[AnyMessage], add_messages]


class DeltaChatState(TypedDict):
    """A conversation as deep agents keep it."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=100)]


def both(*items: Any) -> dict[str, list]:
    """A write of the same items to both channels of TwinState."""
    return {"delta": list(items), "plain": list(items)}


def is_twin(values: dict[str, Any]) -> bool:
    """Whether both channels hold the same list."""
    return values.get("delta", []) == values.get("plain", [])


def sequence(state: type, *nodes: tuple[str, Callable[..., Any]]) -> StateGraph:
    """A graph that runs its nodes one after the other."""
    builder = StateGraph(state)
    for (before, _), (name, node) in itertools.pairwise([(START, None), *nodes]):
        builder.add_node(name, node)
        builder.add_edge(before, name)
    return builder


def parallel(state: type, *nodes: tuple[str, Callable[..., Any]]) -> StateGraph:
    """A graph that runs all its nodes in one superstep."""
    builder = StateGraph(state)
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder


def prose(seed: Any, size: int) -> str:
    """Text that zstd cannot shrink to nothing."""
    digests = (hashlib.sha256(f"{seed}-{n}".encode()).hexdigest() for n in itertools.count())
    return " ".join(itertools.islice(digests, size // 65 + 1))[:size]


def wait_for_writes(saver: Any, channel: str, tasks: int, thread_id: str = "t") -> None:
    """Called inside a node: return once so many of its siblings have their writes to a channel stored."""
    for _ in range(5000):
        found = saver.get_tuple(config(thread_id))
        if found is not None and sum(name == channel for _, name, _ in found.pending_writes) >= tasks:
            return
        # LangGraph tells no one when it has stored a task's writes, so the saver is asked again.
        time.sleep(0.002)
    raise TimeoutError(f"not {tasks} tasks' writes were stored")


def call(name: str, call_id: str, **args: Any) -> dict[str, Any]:
    """A tool call of an AIMessage."""
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}
