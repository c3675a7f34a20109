"""The `tool` records of a call's steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph_jsonl_checkpoint.log import records

if TYPE_CHECKING:
    from langgraph_jsonl_checkpoint.folds.tool_calls import Call, Decision, Key
    from langgraph_jsonl_checkpoint.tool_calls.rules import Visit


def step(key: Key, status: str, **more: Any) -> records.Tool:
    """A step of a call; `more` are the fields of its status."""
    return records.Tool(task=key[0], call=key[1], status=status, **more)


def requested(visit: Visit, args: Any, orphan: Call | None) -> records.Tool:
    """A call as it is asked for, with its frozen arguments; `orphan` is the one that is decided upon with it."""
    return step(
        visit.key,
        "requested",
        ns=visit.ns,
        checkpoint=visit.checkpoint,
        name=visit.name,
        args=args,
        effect=visit.effect,
        check=visit.check,
        elsewhere=visit.elsewhere,
        orphan=None if orphan is None else list(orphan.key),
    )


def resolved(key: Key, verdict: Decision) -> records.Tool:
    """A decision about a call."""
    return step(
        key, "resolved", attempt=verdict.attempt, decision=verdict.kind, message=verdict.message, by=verdict.by
    )
