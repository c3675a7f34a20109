"""An agent whose tools leave a line in a file when they have their effect, in each shape that a guard is used in."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import uuid
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import StructuredTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import Field
from scripted import ChatModel

from langgraph_jsonl_checkpoint import SessionMiddleware, ToolGuard, inject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}
PAY = {"messages": [("user", "please pay order 7")]}

CHARGE = {"name": "charge", "args": {"euros": 40}, "id": "charge-1"}
LOOKUP = {"name": "lookup", "args": {"order": 7}, "id": "lookup-1"}
MAIL = {"name": "mail", "args": {"to": "ann"}, "id": "mail-1"}

# Before langchain 1.5 a retry took each exception for the tool's, and no review asked for each call.
RETRY_LETS_RUNS_STOP = "GraphBubbleUp" in inspect.getsource(ToolRetryMiddleware)
REVIEW_MODES = ["per_call", "batched"] if "interrupt_mode" in inspect.getsource(HumanInTheLoopMiddleware) else [None]

AGENTS = ["create_agent", "retry"] if RETRY_LETS_RUNS_STOP else ["create_agent"]
NODES = ["tool_node", "handling"]


def review(mode: str | None) -> HumanInTheLoopMiddleware:
    """A middleware that lets a human review each call of `charge`."""
    return HumanInTheLoopMiddleware(
        interrupt_on={"charge": True}, **({} if mode is None else {"interrupt_mode": mode})
    )


class Model(ChatModel):
    """Asks for the calls of one round after the other; it counts them by the messages that it sees.

    With `fresh_ids` each request has call ids of its own, as a provider's has.
    """

    rounds: list[list[dict[str, Any]]]
    fresh_ids: bool = False
    requests: list[list[BaseMessage]] = Field(default_factory=list)

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        """The next round, or the end."""
        self.requests.append(list(messages))
        done = sum(isinstance(m, AIMessage) and bool(m.tool_calls) for m in messages)
        calls = [{**call} for call in self.rounds[done]] if done < len(self.rounds) else []
        for call in calls if self.fresh_ids else ():
            call["id"] = f"{call['id']}-{uuid.uuid4()}"
        return AIMessage("" if calls else "done", tool_calls=calls)


class Effects:
    """What the tools have done: a line for each effect, in a file for each tool; and their bodies' last words.

    Args:
        root: The folder of the files.
        bodies: What a tool does when it has had its effect: by its name, a function without arguments. What it
            returns, if anything, is the tool's result. "before …" is what it does before that; what it returns is
            what the effect's line says.
    """

    def __init__(self, root: Path, bodies: Mapping[str, Callable[[], Any]] | None = None) -> None:
        self._root = root
        self.bodies = dict(bodies or {})

    def __call__(self, tool: str) -> int:
        """How often a tool had its effect."""
        return len(self.lines(tool))

    def lines(self, tool: str) -> list[str]:
        """A line for each of its effects."""
        file = self._root / f"{tool}.effect"
        return file.read_text().splitlines() if file.exists() else []

    def _have(self, tool: str, result: str) -> str:
        before = self.bodies.get(f"before {tool}", lambda: "once")()
        file = os.open(self._root / f"{tool}.effect", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{before}\n".encode())
        os.close(file)
        said = self.bodies[tool]() if tool in self.bodies else None
        return result if said is None else said

    @property
    def tools(self) -> list[Any]:
        """The tools."""

        def charge(euros: int) -> str:
            """Charge the card."""
            return self._have("charge", f"charged {euros} EUR")

        def lookup(order: int) -> str:
            """Look an order up."""
            return self._have("lookup", f"order {order}: 40 EUR")

        def mail(to: str) -> str:
            """Send a mail."""
            return self._have("mail", f"mailed {to}")

        return [charge, lookup, mail]


class Finished(AgentMiddleware):
    """Tells when a tool call has come back from the guard: it stands outside of it.

    Args:
        kept: Tools whose calls it keeps from the guard for good.
    """

    def __init__(self, kept: Sequence[str] = ()) -> None:
        super().__init__()
        self._kept = kept
        self._events = {tool: threading.Event() for tool in ("charge", "lookup", "mail")}

    def wait_for(self, tool: str) -> None:
        """Wait until a call of this tool is over, or waits for a human."""
        if not self._events[tool].wait(20):
            raise TimeoutError(tool)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run the call."""
        tool = request.tool_call["name"]
        if tool in self._kept:
            threading.Event().wait()
        try:
            return handler(request)
        finally:
            self._events[tool].set()

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """The same in an event loop."""
        tool = request.tool_call["name"]
        if tool in self._kept:
            await asyncio.Event().wait()
        try:
            return await handler(request)
        finally:
            self._events[tool].set()


def build(
    shape: str,
    saver: Any,
    tools: Sequence[Any],
    model: Model,
    *,
    finished: Finished | None = None,
    hook: bool = True,
    middleware: Sequence[Any] = (),
    memory: bool = False,
    **options: Any,
) -> Any:
    """The agent in one of its shapes.

    Args:
        shape: One of AGENTS, NODES, "subgraph" or "direct": a node that calls `charge` itself.
        saver: Its checkpointer.
        tools: Its tools.
        model: Its model.
        finished: Outside of the guard.
        hook: Whether there is a guard.
        middleware: What else stands outside of the guard, in an agent.
        memory: Whether the model gets the session memory.
        **options: For the guard.
    """
    outer = [finished] if finished else []
    if shape == "direct":
        return _direct(saver, tools[0])
    if shape in NODES:
        guard = ToolGuard(saver, **options) if hook else None
        return _by_hand(model, saver, tools, outer, guard, memory=memory, handle_tool_errors=shape == "handling")
    inner = [SessionMiddleware(memory=memory, **options)] if hook else []
    if shape == "retry":
        outer.append(ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False))
    stack = [*outer, *middleware, *inner]
    if shape != "subgraph":
        return create_agent(model, tools, middleware=stack, checkpointer=saver)
    graph = StateGraph(MessagesState)
    graph.add_node("agent", create_agent(model, tools, middleware=stack))
    graph.add_edge(START, "agent")
    return graph.compile(checkpointer=saver)


def _by_hand(
    model: Model,
    saver: Any,
    tools: Sequence[Any],
    outer: list[Finished],
    guard: ToolGuard | None,
    *,
    memory: bool,
    handle_tool_errors: bool,
) -> Any:
    def agent(state: MessagesState, config: RunnableConfig) -> Any:
        messages = inject(state["messages"], saver, config, memory=memory) if guard else state["messages"]
        return {"messages": [model.invoke(messages)]}

    def wrap(request: Any, handler: Any) -> Any:
        def guarded(same: Any) -> Any:
            return guard.wrap_tool_call(same, handler) if guard else handler(same)

        return outer[0].wrap_tool_call(request, guarded) if outer else guarded(request)

    async def awrap(request: Any, handler: Any) -> Any:
        async def guarded(same: Any) -> Any:
            return await (guard.awrap_tool_call(same, handler) if guard else handler(same))

        return await (outer[0].awrap_tool_call(request, guarded) if outer else guarded(request))

    options: Any = {"handle_tool_errors": True} if handle_tool_errors else {}
    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode(tools, wrap_tool_call=wrap, awrap_tool_call=awrap, **options))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile(checkpointer=saver)


def _direct(saver: Any, body: Any) -> Any:
    charge = StructuredTool.from_function(body)

    def pay(_: MessagesState, config: RunnableConfig) -> Any:
        return {"messages": [AIMessage(charge.invoke({"euros": 40}, config))]}

    async def apay(_: MessagesState, config: RunnableConfig) -> Any:
        return {"messages": [AIMessage(await charge.ainvoke({"euros": 40}, config))]}

    graph = StateGraph(MessagesState)
    graph.add_node("pay", RunnableLambda(pay, apay))
    graph.add_edge(START, "pay")
    return graph.compile(checkpointer=saver)


def agents_as_tools(effects: Effects, saver: Any, *, late: str, until: Callable[[], Any], deep: bool = False) -> Any:
    """A ToolNode whose tools are agents: alpha charges and beta mails. The agent of one begins late.

    If it is deep, that is itself an agent that another one calls as its tool.
    """

    def ask(name: str, call: dict[str, Any], config: RunnableConfig) -> str:
        if name == late:
            until()
        agent = create_agent(Model(rounds=[[call]]), effects.tools, middleware=[SessionMiddleware(memory=False)])
        messages = agent.invoke({"messages": [("user", "go")]}, config)["messages"]
        return "; ".join(told(messages).values())

    def alpha(x: int, config: RunnableConfig) -> str:
        """Ask the agent that charges."""
        return ask("alpha", CHARGE, config)

    def beta(x: int, config: RunnableConfig) -> str:
        """Ask the agent that mails."""
        return ask("beta", MAIL, config)

    calls = [{"name": name, "args": {"x": 1}, "id": name} for name in ("alpha", "beta")]
    graph = build("tool_node", None if deep else saver, [tool(alpha), tool(beta)], Model(rounds=[calls]))
    if not deep:
        return graph

    def gamma(x: int, config: RunnableConfig) -> str:
        """Ask the agent that asks both."""
        return str(told(graph.invoke({"messages": [("user", "go")]}, config)["messages"]))

    call = {"name": "gamma", "args": {"x": 1}, "id": "gamma"}
    return build("tool_node", saver, [tool(gamma)], Model(rounds=[[call]]))


def go(graph: Any, given: Any, config: RunnableConfig = CONFIG, *, asynchronous: bool = False, **options: Any) -> Any:
    """Run a graph in a thread or in an event loop."""
    if asynchronous:
        return asyncio.run(graph.ainvoke(given, config, **options))
    return graph.invoke(given, config, **options)


def asked(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The questions that a run paused with."""
    return [question.value for question in result.get("__interrupt__", ())]


def told(messages: Sequence[BaseMessage]) -> dict[str, str]:
    """What messages say of each tool call."""
    return {m.tool_call_id: m.text for m in messages if m.type == "tool"}  # type: ignore[attr-defined]
