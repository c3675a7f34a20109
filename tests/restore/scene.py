"""What the restore tests look at: agents with a scripted model, and tools that say what they did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.tools import ToolException, tool
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt
from scripted import ScriptedModel
from typing_extensions import TypedDict
from warm import die

from langgraph_jsonl_checkpoint import SessionMiddleware, ToolGuard, ToolPolicy, inject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph

    from langgraph_jsonl_checkpoint import JsonlSaver

    Graph = CompiledStateGraph[Any, Any, Any, Any]

THREAD = "order 7"
POLICY = ToolPolicy(read_only=["lookup", "run_tests"], checks=["run_tests"])


class Plain(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=100)]


def config(thread: str = THREAD, **more: Any) -> RunnableConfig:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread, **more}}


def said(text: str, name: str | None = None) -> dict[str, list[BaseMessage]]:
    """A user's input."""
    return {"messages": [HumanMessage(text, id=name)]}


def asks(*calls: tuple[str, str, dict[str, Any]], text: str = "") -> AIMessage:
    """An answer of the model that calls tools: (id, name, arguments)."""
    return AIMessage(text, tool_calls=[{"id": call, "name": name, "args": args} for call, name, args in calls])


def dies(name: str, returns: str = "") -> Any:
    """A tool in which the process dies."""

    def body(**args: Any) -> str:
        die()
        return returns

    return named(name, body)


def named(name: str, body: Callable[..., Any]) -> Any:
    """A tool of any name that takes `what`."""

    def run(what: str = "") -> Any:
        """Do it."""
        return body(what=what)

    return tool(name)(run)


def gives(name: str, result: Any) -> Any:
    """A tool that returns this, or raises it."""

    def body(**_: Any) -> Any:
        if isinstance(result, BaseException):
            raise result
        return result

    return named(name, body)


def fails(name: str, error: str) -> Any:
    """A tool whose every result is an error for the model."""
    failing = gives(name, ToolException(error))
    failing.handle_tool_error = True
    return failing


def waits(name: str) -> Any:
    """A tool that asks a human and returns the answer."""
    return named(name, lambda what: f"answered {interrupt(what)}")


def agent(
    saver: Any,
    script: Sequence[Any],
    tools: Iterable[Any] = (),
    *,
    hooked: bool = True,
    policy: ToolPolicy = POLICY,
    requests: list[Any] | None = None,
    middleware: Sequence[Any] = (),
    memory: bool = True,
    **options: Any,
) -> Graph:
    """An agent of create_agent."""
    hooks = [SessionMiddleware(policy=policy, memory=memory)] if hooked else []
    model = ScriptedModel(script=list(script), requests=requests)
    return create_agent(model, list(tools), middleware=[*middleware, *hooks], checkpointer=saver, **options)


def hand_written(
    saver: JsonlSaver,
    script: Sequence[Any],
    tools: Iterable[Any] = (),
    *,
    hooked: bool = True,
    state: type = Plain,
    requests: list[Any] | None = None,
    **options: Any,
) -> Graph:
    """A model node and a ToolNode; with a hook, the first uses `inject` and the second a ToolGuard."""
    model = ScriptedModel(script=list(script), requests=requests)
    guard = ToolGuard(policy=POLICY)

    def ask(state: Any, config: RunnableConfig) -> Any:
        messages = inject(state["messages"], saver, config) if hooked else state["messages"]
        return {"messages": [model.invoke(messages)]}

    wraps = {"wrap_tool_call": guard.wrap_tool_call, "awrap_tool_call": guard.awrap_tool_call} if hooked else {}
    graph = StateGraph(state).add_node("agent", ask).add_node("tools", ToolNode(list(tools), **wraps))
    graph.add_edge(START, "agent").add_conditional_edges("agent", tools_condition).add_edge("tools", "agent")
    return graph.compile(checkpointer=saver, **options)


def talk(saver: Any, answers: Sequence[str], **options: Any) -> Graph:
    """A graph without tools whose one node says the next answer."""
    return hand_written(saver, answers, hooked=False, **options)


def plain(messages: Iterable[BaseMessage]) -> list[tuple[str, str]]:
    """Messages as (type, text)."""
    return [(message.type, message.text) for message in messages]
