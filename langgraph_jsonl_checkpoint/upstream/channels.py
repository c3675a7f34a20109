"""The channels of checkpoints and pending writes: what LangGraph keeps in those that are its own.

Read in langgraph 1.2 (`langgraph._internal._constants`, `langgraph.pregel._algo`, `langgraph.graph.state`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, TASKS, _DeltaSnapshot
from langgraph.types import Send

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ERROR",
    "INTERRUPT",
    "NULL_TASK",
    "RESUME_INDEX",
    "TASKS",
    "delta_channels",
    "delta_value",
    "end_of_run",
    "index_of",
    "is_compiled",
    "is_of_state",
    "next_nodes",
]

RESUME_INDEX = WRITES_IDX_MAP["__resume__"]
"""The index of an answer to an interrupt among a task's writes."""

NULL_TASK = "00000000-0000-0000-0000-000000000000"
"""The task of an answer that is given to a run as a whole."""

_BRANCH = "branch:to:"
_JOIN = "join:"
_START = "__start__"
_TRIGGERS = _BRANCH, _JOIN, _START
_HANDLED = "__error_source_node__"


def next_nodes(checkpoint: Mapping[str, Any]) -> list[str]:
    """The nodes that a checkpoint leads to, as far as its channels tell.

    A node runs when a channel that triggers it has a value of a version that the node has not seen. For a compiled
    StateGraph the triggers are named after the node; for nodes that ran before, `versions_seen` names them.
    """
    values, versions, seen = (checkpoint.get(k, {}) for k in ("channel_values", "channel_versions", "versions_seen"))
    found: dict[str, None] = {}
    for channel, value in values.items():
        node = _triggered(channel, value)
        if node is not None and _newer(versions.get(channel), seen.get(node, {}).get(channel)):
            found[node] = None
    for node, channels in seen.items():
        for channel, before in () if node.startswith("__") else channels.items():
            # An emptied join has a new version, too.
            is_held = channel in values and not channel.startswith(_JOIN) and not _waits(values[channel])
            if is_held and _newer(versions.get(channel), before):
                found[node] = None
    sends = values.get(TASKS)
    if isinstance(sends, list):
        found |= {send.node: None for send in sends if isinstance(send, Send)}
    return list(found)


def _triggered(channel: str, value: Any) -> str | None:
    """The node that a channel of a StateGraph with this value triggers."""
    if not channel.startswith(_TRIGGERS) or _waits(value):
        return None
    if channel.startswith(_BRANCH):
        return channel[len(_BRANCH) :]
    if channel == _START:
        return channel
    if channel.startswith(_JOIN) and isinstance(value, set):
        # join:a+b:node, ready when all of a and b are in the set
        names, _, node = channel[len(_JOIN) :].partition(":")
        return node if value == set(names.split("+")) else None
    return None


def _newer(version: Any, seen: Any) -> bool:
    if version is None:
        return False
    # Versions of one thread are of one kind; others are not LangGraph's.
    return bool(version > seen if type(version) is type(seen) and seen is not None else version != seen)


def _waits(value: Any) -> bool:
    """Whether a channel is a deferred node's that still waits: (value, whether all others have finished)."""
    return isinstance(value, tuple) and len(value) == 2 and value[1] is False  # noqa: PLR2004


def is_compiled(checkpoint: Mapping[str, Any]) -> bool:
    """Whether a checkpoint is of a StateGraph or an entrypoint, whose channels say all that it leads to."""
    return _START in checkpoint.get("channel_versions", {})


def end_of_run(writes: list[tuple[str, Any]]) -> tuple[str | None, Any]:
    """Why a run stops, if a task's writes tell, and the error."""
    channels = dict(writes)
    if INTERRUPT in channels:
        return "interrupted", None
    # An error that a node's error handler takes comes with this marker, and the run goes on.
    if ERROR in channels and _HANDLED not in channels:
        return "failed", channels[ERROR]
    return None, None


def index_of(channel: str, index: int) -> int:
    """A write's index: special channels have one of their own, below zero."""
    return WRITES_IDX_MAP.get(channel, index)


def is_of_state(channel: str) -> bool:
    """Whether a write to a channel is a part of the state, and not LangGraph's own about an interrupt or an error."""
    return channel not in WRITES_IDX_MAP


def delta_channels(metadata: Mapping[str, Any]) -> list[str]:
    """The DeltaChannels of a checkpoint that have changed since their last snapshot."""
    counters = metadata.get("counters_since_delta_snapshot")
    return list(counters) if isinstance(counters, dict) else []


def delta_value(value: Any) -> Any:
    """A DeltaChannel's value, if this is a snapshot of one; else the value itself."""
    return value.value if isinstance(value, _DeltaSnapshot) else value
