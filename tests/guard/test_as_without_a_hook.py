"""What runs without a guard runs with one, and comes to the same."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from cases.logs import records
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy

from guard.scene import CHARGE, CONFIG, LOOKUP, MAIL, PAY, Model, asked, build, go, told
from langgraph_jsonl_checkpoint import JsonlSaver, SessionMiddleware, ToolGuard

if TYPE_CHECKING:
    from guard.conftest import Place

BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


class Again(AgentMiddleware):
    """Calls the tool again while its message is an error, with these arguments, if there are some."""

    def __init__(self, args: dict[str, Any] | None = None) -> None:
        super().__init__()
        self._args = args

    def _next(self, request: Any) -> Any:
        if self._args is None:
            return request
        return request.override(tool_call={**request.tool_call, "args": self._args})

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run the call."""
        result = handler(request)
        for _ in range(3):
            if result.status == "error":
                result = handler(self._next(request))
        return result

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """The same in an event loop."""
        result = await handler(request)
        for _ in range(3):
            if result.status == "error":
                result = await handler(self._next(request))
        return result


@BOTH_WAYS
def test_a_middleware_that_calls_again_gets_the_new_result(place: Place, asynchronous: bool) -> None:
    """An error message is no result to give back to a middleware that asks for another attempt."""

    def fail_twice() -> None:
        if place.effects("charge") < 3:
            raise ToolException("try again")

    charge = StructuredTool.from_function(place.effects.tools[0], handle_tool_error=True)
    graph = place.graph("create_agent", tools=[charge], bodies={"charge": fail_twice}, middleware=[Again()])
    result = go(graph, PAY, asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR"}
    assert place.effects("charge") == 3


@BOTH_WAYS
def test_a_middleware_that_corrects_arguments_gets_the_new_result(place: Place, asynchronous: bool) -> None:
    """The corrected call runs, though it has the id of the one with invalid arguments."""
    wrong = {**CHARGE, "args": {"euros": "many"}}
    graph = place.graph("create_agent", rounds=[[wrong]], middleware=[Again({"euros": 40})])
    result = go(graph, PAY, asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR"}
    assert place.effects("charge") == 1


@pytest.mark.parametrize("restore", ["crashed", "always"])
def test_a_lent_memory_that_a_node_removes_is_not_stored(place: Place, restore: Any) -> None:
    """A node trims what it was lent and its sibling raises: the thread goes on, and takes new messages."""
    place.crash("tool_node")
    seen, failing = [], [True]

    def trim(state: MessagesState) -> Any:
        seen.extend(m.id for m in state["messages"])
        return {"messages": [RemoveMessage(id=m.id) for m in state["messages"][:-1]]}

    def other(_: MessagesState) -> Any:
        if failing:
            raise ConnectionError("no bank")
        return {}

    graph = StateGraph(MessagesState)
    for name, node in (("trim", trim), ("other", other)):
        graph.add_node(name, node)
        graph.add_edge(START, name)
    app = graph.compile(checkpointer=place.saver(restore_memory=restore))
    with pytest.raises(ConnectionError):
        go(app, {"messages": [("user", "two")]})
    assert "session-memory" in seen
    failing.clear()
    for given, last in ((None, "two"), (None, "two"), ({"messages": [("user", "three")]}, "three")):
        messages = go(app, given)["messages"]
        assert [m.text for m in messages if m.id != "session-memory"] == [last]
    assert not [r for r in records(place.log) if r["type"] != "message" and "session-memory" in str(r)]


@BOTH_WAYS
def test_a_hand_off_to_the_parent_completes_the_call(place: Place, asynchronous: bool) -> None:
    """A graph in the tool ends with a Command for its parent: the exception that carries it is the call's end."""
    handed = ToolMessage("handed off", tool_call_id="charge-1")
    inner = StateGraph(MessagesState)
    inner.add_node("pay", lambda _: Command(graph=Command.PARENT, goto="after", update={"messages": [handed]}))
    inner.add_edge(START, "pay")
    within = inner.compile()

    def charge(euros: int) -> str:
        """Charge the card."""
        within.invoke(PAY)
        return "never"

    saver = place.saver()
    guard = ToolGuard(saver)
    graph = StateGraph(MessagesState)
    graph.add_node("agent", lambda _: {"messages": [AIMessage("", tool_calls=[CHARGE])]})
    graph.add_node(
        "tools", ToolNode([charge], wrap_tool_call=guard.wrap_tool_call, awrap_tool_call=guard.awrap_tool_call)
    )
    graph.add_node("after", lambda _: {"messages": [AIMessage("done")]})
    graph.add_edge(START, "agent")
    graph.add_edge("agent", "tools")
    result = go(graph.compile(checkpointer=saver), PAY, asynchronous=asynchronous)
    assert [m.text for m in result["messages"]][2:] == ["handed off", "done"]
    assert [call.status for call in saver.resume_state("t").tool_calls] == ["completed"]


def test_a_retry_of_a_node_waits_for_the_sibling_that_it_left(place: Place) -> None:
    """Under a RetryPolicy one tool raised and the other still runs: the next attempt takes its result."""
    again = asyncio.Event()
    runs = {"charge": 0, "mail": 0}

    async def charge(euros: int) -> str:
        """Charge the card."""
        runs["charge"] += 1
        await again.wait()
        return "charged"

    async def mail(to: str) -> str:
        """Send a mail."""
        runs["mail"] += 1
        if runs["mail"] == 1:
            raise ConnectionError("no mail")
        again.set()
        return "mailed"

    guard = ToolGuard()
    node = ToolNode([charge, mail], awrap_tool_call=guard.awrap_tool_call, handle_tool_errors=False)
    graph = StateGraph(MessagesState)
    graph.add_node("agent", lambda _: {"messages": [AIMessage("", tool_calls=[CHARGE, MAIL])]})
    graph.add_node("tools", node, retry_policy=RetryPolicy(initial_interval=0.01, jitter=False))
    graph.add_edge(START, "agent")
    graph.add_edge("agent", "tools")
    result = go(graph.compile(checkpointer=place.saver()), PAY, asynchronous=True)
    assert told(result["messages"]) == {"charge-1": "charged", "mail-1": "mailed"}
    assert runs == {"charge": 1, "mail": 2}


@BOTH_WAYS
def test_an_agent_that_keeps_no_checkpoints_runs_in_a_graph_that_does(place: Place, asynchronous: bool) -> None:
    """A subgraph with checkpointer=False has no checkpoint that a call could wait for."""
    hook = SessionMiddleware(timeout=3)
    agent = create_agent(Model(rounds=[[CHARGE]]), place.effects.tools, middleware=[hook], checkpointer=False)
    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_edge(START, "agent")
    result = go(graph.compile(checkpointer=place.saver()), PAY, asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR"}
    assert place.effects("charge") == 1


@pytest.mark.parametrize("kind", ["sqlite", "none", "nested under exit"])
def test_the_same_call_the_next_day_is_not_asked_about(place: Place, kind: str) -> None:
    """A run that ended well is over, though the saver never saw its results delivered."""
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite") if kind == "sqlite" else None
    for day in (1, 2):
        with JsonlSaver(place.root / "sessions") as saver:
            model = Model(rounds=[[CHARGE]] * day if kind != "none" else [[CHARGE]], fresh_ids=True)
            way: dict[str, Any] = {}
            checkpointer: Any = None
            if sqlite:
                connection = sqlite3.connect(place.root / "checkpoints", check_same_thread=False)
                checkpointer = sqlite.SqliteSaver(connection)
            graph = build("tool_node", saver, place.effects.tools, model)
            graph.checkpointer = checkpointer
            if kind == "nested under exit":
                outer = StateGraph(MessagesState)
                outer.add_node("agent", graph)
                outer.add_edge(START, "agent")
                graph, way = outer.compile(checkpointer=saver), {"durability": "exit"}
            result = go(graph, PAY, **way)
            if sqlite:
                connection.close()
        assert asked(result) == []
        assert place.effects("charge") == day


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_guarded_node_runs_in_a_functional_workflow(place: Place, durability: Any) -> None:
    """A @task of an @entrypoint has no checkpoint of its own that its calls would have to wait for."""
    guard = ToolGuard(timeout=3)
    node = ToolNode(place.effects.tools, wrap_tool_call=guard.wrap_tool_call)

    @task
    def run(call: Any) -> Any:
        return node.invoke([AIMessage("", tool_calls=[call])])

    @entrypoint(checkpointer=place.saver())
    def flow(_: str) -> list[str]:
        return [m.text for future in [run(CHARGE), run(LOOKUP)] for m in future.result()]

    assert flow.invoke("go", CONFIG, durability=durability) == ["charged 40 EUR", "order 7: 40 EUR"]
    assert (place.effects("charge"), place.effects("lookup")) == (1, 1)
