"""The agent of the kill tests. What it does follows from its messages alone, so each run ends the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from scripted import ChatModel

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
    from langgraph.graph.state import CompiledStateGraph
    from warm import Report

ROUNDS = 2
KEYS = [f"{side}-{number}" for number in range(ROUNDS) for side in ("left", "right")]
INPUT = {"messages": [("user", "look everything up")]}
THREAD = "agent 7"
CONFIG: RunnableConfig = {"configurable": {"thread_id": THREAD}}
END = [
    ["human", "look everything up"],
    *(
        message
        for left, right in zip(KEYS[::2], KEYS[1::2], strict=True)
        for message in (["ai", "", [left, right]], ["tool", f"<{left}>"], ["tool", f"<{right}>"])
    ),
    ["ai", "found " + " ".join(f"<{key}>" for key in KEYS), []],
]


class Model(ChatModel):
    """Asks for two lookups at once in each round, then sums up."""

    report: Any

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        """The next two calls, or the end."""
        results = [message.text for message in messages if isinstance(message, ToolMessage)]
        self.report("model")
        keys = KEYS[len(results) : len(results) + 2]
        calls = [{"name": "lookup", "args": {"key": key}, "id": key, "type": "tool_call"} for key in keys]
        return AIMessage("" if calls else "found " + " ".join(results), tool_calls=calls)


def build(saver: BaseCheckpointSaver[Any], report: Report) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The agent on a saver; it reports each call of the model and of the tool."""

    def lookup(key: str) -> str:
        """Look a key up."""
        report("tool", key=key)
        return f"<{key}>"

    return create_agent(Model(report=report), [lookup], checkpointer=saver)


def plain(value: Any) -> Any:
    """A value as JSON, without the ids that differ from run to run."""
    if isinstance(value, AIMessage):
        return ["ai", value.text, [call["id"] for call in value.tool_calls]]
    if isinstance(value, BaseMessage):
        return [value.type, value.text]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | None) else type(value).__name__


def rest(stored: CheckpointTuple | None) -> tuple[int, list[str]]:
    """What a thread has still to do, by what is stored of it: calls of the model, and the keys to look up."""
    if stored is None:
        return ROUNDS + 1, sorted(KEYS)
    messages = list(stored.checkpoint["channel_values"].get("messages", []))
    for _, channel, value in stored.pending_writes or []:
        if channel == "messages":
            messages += value
    answers = sum(isinstance(message, AIMessage) for message in messages)
    done = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    return ROUNDS + 1 - answers, sorted(set(KEYS) - done)
