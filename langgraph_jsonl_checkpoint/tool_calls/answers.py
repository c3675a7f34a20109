"""What a model is told of a tool call that is not run, as far as the log knows what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import ToolMessage

from langgraph_jsonl_checkpoint.log import records

if TYPE_CHECKING:
    from langgraph_jsonl_checkpoint.folds.tool_calls import Call
    from langgraph_jsonl_checkpoint.values.thaw import Thawer


class Verdict(NamedTuple):
    """A decision about an uncertain call that is to be recorded.

    Attributes:
        kind: As in the log.
        message: What came with it.
        by: "answer", "resolve", "update" or "policy".
    """

    kind: str
    message: str
    by: str


def answer(decided: Verdict, name: str, tool_call_id: str, about: Call, thaw: Thawer) -> ToolMessage:
    """What the model is told of a call of the tool `name` that is not run; `about` is the call that may have been."""
    if decided.kind == "respond":
        return ToolMessage(decided.message, name=name, tool_call_id=tool_call_id)
    if about.has_result and about.redacted:
        return without_result(about, name, tool_call_id, thaw.value(about.result))
    if about.has_result and isinstance(result := thaw.value(about.result), ToolMessage):
        return result.model_copy(update={"tool_call_id": tool_call_id})
    text = f"{outcome_unknown(about, name, thaw)} It was not run again."
    if decided.kind == "report":
        text += " Check what happened before you call it again."
    elif decided.message:
        text += f" A human says: {decided.message}"
    return ToolMessage(text, name=name, tool_call_id=tool_call_id, status="error")


def without_result(call: Call, name: str, tool_call_id: str, kept: Any) -> ToolMessage:
    """What the model is told of a call that is over, and of whose result the log has but what redacting `kept`."""
    ended = "ended" if call.end == "completed" else "failed"
    text = f"{name} {ended} before the run was stopped, and was not run again. The record of its result is redacted"
    message = kept if isinstance(kept, ToolMessage) else None
    text += f"; what is left of it: {message.text}" if message is not None and message.text else "."
    return ToolMessage(text, name=name, tool_call_id=tool_call_id, status="success" if ended == "ended" else "error")


def outcome_unknown(call: Call, name: str, thaw: Thawer) -> str:
    """What a model is told of an uncertain call of the tool `name`."""
    said = f" ({thaw.value(call.error)})" if call.error is not records.NO_TEXT else ""
    return f"Outcome unknown: {history(call, name)}{said}. It may or may not have had its effect."


def history(call: Call, name: str) -> str:
    """What is known of an uncertain call of the tool `name`."""
    if call.has_result:
        return f"{name} ended, but its result was lost with its process"
    if not call.attempt:
        return f"{name} may have been started by a run whose tool calls nobody recorded"
    if call.end == "failed":
        return f"{name} was started and raised an error"
    if call.end == "cancelled":
        return f"{name} was started and was stopped while it ran"
    return f"{name} was started and its end was not recorded"
