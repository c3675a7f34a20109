"""What `tool` records and the session memory leave out: the user's function, put to each value of a tool call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command, Send

from langgraph_jsonl_checkpoint.errors import ToolLogError
from langgraph_jsonl_checkpoint.folds.memory import MessageEvent, TodosEvent, ToolEvent
from langgraph_jsonl_checkpoint.tool_calls.rules import is_equal

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from langgraph_jsonl_checkpoint.folds.memory import Event
    from langgraph_jsonl_checkpoint.folds.resume import ToolCall

Redact = Callable[[str, Any], Any]
"""Given a tool's name and a copy of its arguments (a dict) or of what it returned, gives what may be kept of it."""

_TODOS = "write_todos"
_PARTS = (ToolMessage, Command, Send)


class Redaction:
    """The user's function.

    Args:
        redact: The function; None keeps all.
    """

    def __init__(self, redact: Redact | None) -> None:
        self._redact = redact

    def value(self, name: str, value: Any) -> Any:
        """What may be kept of a tool's arguments, of its result, or of the text of its error.

        Of messages and Commands each part that comes from the tool is redacted: the function sees no other types than
        the tool has.

        Raises:
            ToolLogError: The function raised.
        """
        if self._redact is None or value is None:
            return value
        if isinstance(value, ToolMessage):
            kept = {k: self.value(name, getattr(value, k)) for k in ("content", "artifact")}
            return value.model_copy(update={**kept, "additional_kwargs": {}, "response_metadata": {}})
        if isinstance(value, Send):
            return Send(value.node, self.value(name, value.arg))
        if isinstance(value, Command):
            update, goto = value.update, value.goto
            parts = update.items() if isinstance(update, dict) else None
            return replace(
                value,
                update=self.value(name, update) if parts is None else {k: self.value(name, v) for k, v in parts},
                goto=goto if isinstance(goto, str) else self.value(name, goto),
            )
        if isinstance(value, (list, tuple)) and any(isinstance(v, _PARTS) for v in value):
            return [self.value(name, v) if isinstance(v, _PARTS) else v for v in value]
        try:
            return self._redact(name, copy.deepcopy(value))
        except Exception as error:
            raise ToolLogError(
                f"redact raised {type(error).__name__} for the tool {name!r}, so what may be kept of its call is not "
                "known. A call that was not started stays so. Mend the function, and run the thread again with None "
                "as its input."
            ) from error

    def writes(self, name: str, sent: Sequence[tuple[str, Any]]) -> list[list[Any]] | None:
        """What may be kept of a tool's writes to the state: all or, if any of it is redacted, nothing.

        Raises what `value` raises.
        """
        made = [[channel, value] for channel, value in sent]
        return made if made and is_equal(self.value(name, made), made) else None

    def event(self, event: Event, names: dict[str, str]) -> Event:
        """What the session memory may know of an event.

        Args:
            event: The event.
            names: The tools of the calls that were asked for before, by tool_call_id; this adds to it.
        """
        if self._redact is None:
            return event
        if isinstance(event, MessageEvent):
            return event._replace(message=self._message(event.message, names))
        if isinstance(event, ToolEvent):
            return event._replace(call=self.call(event.call))
        if isinstance(event, TodosEvent):
            kept = self.value(_TODOS, {"todos": event.todos})
            return event._replace(todos=kept.get("todos", []) if isinstance(kept, dict) else [])
        return event

    def call(self, call: ToolCall) -> ToolCall:
        """What the session memory may know of a call."""
        if self._redact is None:
            return call
        decision = call.decision and {**call.decision, "message": self.value(call.name, call.decision["message"])}
        kept = {k: self.value(call.name, getattr(call, k)) for k in ("args", "result", "error")}
        return replace(call, **kept, decision=decision)

    def _message(self, message: BaseMessage, names: dict[str, str]) -> BaseMessage:
        if isinstance(message, ToolMessage):
            kept: BaseMessage = self.value(names.pop(message.tool_call_id, message.name or ""), message)
            return kept
        if not isinstance(message, AIMessage) or not message.tool_calls:
            return message
        calls = [{**c, "args": self.value(c.get("name") or "", c.get("args"))} for c in message.tool_calls]
        names.update((c.get("id") or "", c.get("name") or "") for c in message.tool_calls)
        # Providers have the arguments in these, too.
        bare = {"content": message.text, "additional_kwargs": {}, "response_metadata": {}, "invalid_tool_calls": []}
        return message.model_copy(update={**bare, "tool_calls": calls})
