"""What is killed: an agent in three shapes that looks an order up and charges a card, and the places to die.

Both tools are called by one AIMessage. Each leaves a line in a file of its own when it has its effect, so the files
tell how often it had. The process dies in `charge_card` or around it, when `lookup` is done.
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from scripted import ChatModel
from warm import die

from langgraph_jsonl_checkpoint import JsonlSaver, SessionMiddleware, ToolGuard, ToolPolicy, inject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph

THREAD = "order 7"
CONFIG: RunnableConfig = {"configurable": {"thread_id": THREAD}}
ARGS: dict[str, dict[str, int]] = {"lookup": {"order": 7}, "charge_card": {"euros": 40}}
RESULTS = {"lookup": "order 7: 40 EUR", "charge_card": "charged 40 EUR"}


class Places:
    """The place where this process dies, and what must have happened before.

    Args:
        place: Its name.
        before: What must have happened.
        late: Whether the model's request is stored as late as `async` may store it: when lookup has run.
    """

    def __init__(self, place: str, before: Iterable[str], *, late: bool) -> None:
        self._place = place
        self._before = {name: threading.Event() for name in before}
        self._late = late
        self._begun, self._stored = threading.Event(), not late

    def happened(self, name: str) -> None:
        """Something has happened that a death may wait for."""
        if name in self._before:
            self._before[name].set()

    def die_at(self, place: str, tool: str = "charge_card") -> None:
        """Die as by an out-of-memory killer, if this is the place."""
        if (place, tool) == (self._place, "charge_card"):
            for name, event in self._before.items():
                if not event.wait(10):
                    raise TimeoutError(name)
            die()

    async def adie_at(self, place: str, tool: str) -> None:
        """The same on an event loop, which goes on until then."""
        await asyncio.to_thread(self.die_at, place, tool)

    def hold(self, checkpoint: Any) -> None:
        """Keep the model's request from the log until lookup has run; give charge_card time to begin too early."""
        if self._late and requested(checkpoint):
            if not self._before["lookup returned"].wait(10):
                raise TimeoutError("lookup returned")
            self._begun.wait(0.05)

    def stored(self, checkpoint: Any) -> None:
        """A checkpoint is in the log."""
        if requested(checkpoint):
            self._stored = True
            self.happened("request stored")

    def begin(self, tool: str) -> None:
        """The tool's body is next: a request that is lost now would be made again, under a new id."""
        if tool == "charge_card":
            self._begun.set()
            if not self._stored:
                raise RuntimeError("charge_card was started before the model's request was stored")


def requested(checkpoint: Any) -> bool:
    """Whether a checkpoint has the model's request."""
    return any(isinstance(message, AIMessage) for message in checkpoint["channel_values"].get("messages", []))


def watched(places: Places, root: Path) -> JsonlSaver:
    """The saver, which tells when the model's request and lookup's result are stored."""

    def put_writes_returned(writes: Any) -> None:
        values = [value for channel, value in writes if channel == "messages"]
        if any(isinstance(each, ToolMessage) and each.name == "lookup" for value in values for each in value):
            places.happened("result stored")

    class Watched(JsonlSaver):
        def put(self, config: Any, checkpoint: Any, *rest: Any) -> Any:
            places.hold(checkpoint)
            saved = super().put(config, checkpoint, *rest)
            places.stored(checkpoint)
            return saved

        async def aput(self, config: Any, checkpoint: Any, *rest: Any) -> Any:
            await asyncio.to_thread(places.hold, checkpoint)
            saved = await super().aput(config, checkpoint, *rest)
            places.stored(checkpoint)
            return saved

        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            super().put_writes(config, writes, task_id, task_path)
            put_writes_returned(writes)

        async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            await super().aput_writes(config, writes, task_id, task_path)
            put_writes_returned(writes)

    return Watched(root)


class Model(ChatModel):
    """Asks for both tools at once, unless it sees that it has; then it is done."""

    report: Any

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        """Both calls, or the end."""
        self.report("model", messages=[plain(message) for message in messages])
        if any(isinstance(message, AIMessage) for message in messages):
            return AIMessage("done")
        # A provider gives each request ids of its own.
        calls = [{"name": tool, "args": args, "id": f"{tool}-{uuid.uuid4()}"} for tool, args in ARGS.items()]
        return AIMessage("", tool_calls=calls)


def plain(message: BaseMessage) -> dict[str, Any]:
    """What a model sees of a message, as JSON."""
    calls = {call["id"]: call["name"] for call in getattr(message, "tool_calls", [])}
    return {
        "type": message.type,
        "text": message.text,
        "calls": calls,
        "call": getattr(message, "tool_call_id", None),
    }


class Outermost(AgentMiddleware):
    """The places outside the guard: the first in the list."""

    def __init__(self, places: Places) -> None:
        super().__init__()
        self._places = places

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Before `started` is in the log; after the end is, and before LangGraph has the result."""
        tool = request.tool_call["name"]
        self._places.die_at("requested", tool)
        result = handler(request)
        self._places.happened(f"{tool} returned")
        self._places.die_at("returned", tool)
        return result

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """The same for async."""
        tool = request.tool_call["name"]
        await self._places.adie_at("requested", tool)
        result = await handler(request)
        self._places.happened(f"{tool} returned")
        await self._places.adie_at("returned", tool)
        return result


class Innermost(AgentMiddleware):
    """The place inside the guard: the last in the list."""

    def __init__(self, places: Places) -> None:
        super().__init__()
        self._places = places

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """After `started` is in the log, before the tool's body."""
        self._places.begin(request.tool_call["name"])
        self._places.die_at("started", request.tool_call["name"])
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """The same for async."""
        self._places.begin(request.tool_call["name"])
        await self._places.adie_at("started", request.tool_call["name"])
        return await handler(request)


def tools(root: Path, places: Places) -> list[Callable[..., str]]:
    """The tools; their effects are lines in files."""

    def effect(name: str) -> None:
        file = os.open(root / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, b"once\n")
        os.close(file)

    def lookup(order: int) -> str:
        """Look an order up."""
        effect("lookup")
        return RESULTS["lookup"]

    def charge_card(euros: int) -> str:
        """Charge the card."""
        effect("charge_card")
        places.die_at("charged")
        return RESULTS["charge_card"]

    return [lookup, charge_card]


def build(
    shape: str, saver: JsonlSaver, root: Path, places: Places, policy: ToolPolicy, report: Any
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The agent in one of its shapes."""
    model = Model(report=report)
    if shape == "tool_node":
        return hand_written(model, saver, root, places, policy)
    middleware = [Outermost(places), SessionMiddleware(saver, policy=policy), Innermost(places)]
    if shape == "create_agent":
        return create_agent(model, tools(root, places), middleware=middleware, checkpointer=saver)
    graph = StateGraph(MessagesState)
    graph.add_node("agent", create_agent(model, tools(root, places), middleware=middleware))
    graph.add_edge(START, "agent")
    return graph.compile(checkpointer=saver)


def hand_written(
    model: Model, saver: JsonlSaver, root: Path, places: Places, policy: ToolPolicy
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A model node and a ToolNode, which runs both calls in one task."""
    outer, guard, inner = Outermost(places), ToolGuard(saver, policy=policy), Innermost(places)

    def agent(state: MessagesState, config: RunnableConfig) -> Any:
        return {"messages": [model.invoke(inject(state["messages"], saver, config))]}

    def wrap(request: Any, handler: Any) -> Any:
        def guarded(same: Any) -> Any:
            return guard.wrap_tool_call(same, lambda last: inner.wrap_tool_call(last, handler))

        return outer.wrap_tool_call(request, guarded)

    async def awrap(request: Any, handler: Any) -> Any:
        async def guarded(same: Any) -> Any:
            return await guard.awrap_tool_call(same, lambda last: inner.awrap_tool_call(last, handler))

        return await outer.awrap_tool_call(request, guarded)

    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode(tools(root, places), wrap_tool_call=wrap, awrap_tool_call=awrap))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile(checkpointer=saver)
