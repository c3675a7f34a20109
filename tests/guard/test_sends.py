"""What a tool writes to the state beside its result, as a deep agent's file tools do, is part of what it did."""

from __future__ import annotations

import json
import operator
import threading
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from cases.logs import records
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.tools import tool
from langgraph.config import get_config
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import RetryPolicy

from guard.scene import PAY, Model, go, told
from langgraph_jsonl_checkpoint import JsonlSaver, SessionMiddleware, ToolGuard, ToolLogError

if TYPE_CHECKING:
    from guard.conftest import Place

BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
WRITE = {"name": "write", "args": {"path": "/a"}, "id": "write-1"}
BREAK = {"name": "break_down", "args": {}, "id": "break-1"}
TEXT = "what the file holds, and it is not short: " + "words " * 100

Files = Annotated[dict[str, str], operator.or_]
Log = Annotated[list[str], operator.add]


class Agent(AgentState[Any]):
    files: Files
    log: Log


class Node(MessagesState):
    files: Files
    log: Log


class Failing(JsonlSaver):
    """Its disk fails when what a task wrote to `files` comes; what came before is there, as after a kill."""

    _down = False

    def _append(self, writes: Any) -> None:
        self._down = self._down or any(channel == "files" for channel, _ in writes)
        if self._down:
            raise OSError("no space left")

    def put(self, *given: Any) -> Any:
        """Store a checkpoint."""
        self._append(())
        return super().put(*given)

    async def aput(self, *given: Any) -> Any:
        """Store a checkpoint."""
        self._append(())
        return await super().aput(*given)

    def put_writes(self, config: Any, writes: Any, *given: Any) -> None:
        """Store writes."""
        self._append(writes)
        super().put_writes(config, writes, *given)

    async def aput_writes(self, config: Any, writes: Any, *given: Any) -> None:
        """Store writes."""
        self._append(writes)
        await super().aput_writes(config, writes, *given)


def graph_of(
    shape: str,
    saver: JsonlSaver,
    place: Place,
    rounds: Any,
    *,
    broken: int = 0,
    middleware: Any = (),
    content: Any = None,
) -> Any:
    """An agent that writes files to its state, and has a tool that breaks down a few times."""
    left = [None] * broken

    @tool
    def write(path: str) -> str:
        """Write a file."""
        place.effects._have("write", "")
        send = get_config()["configurable"]["__pregel_send"]
        send([("files", {path: TEXT if content is None else content})])
        send([("log", [path])])
        return f"wrote {path}"

    @tool
    def break_down() -> str:
        """Break down."""
        if left:
            left.pop()
            raise ConnectionError("down")
        return "up"

    model = Model(rounds=rounds)
    if shape == "create_agent":
        hook = SessionMiddleware(memory=False)
        return create_agent(
            model, [write, break_down], middleware=[*middleware, hook], checkpointer=saver, state_schema=Agent
        )
    guard = ToolGuard()
    tools = ToolNode(
        [write, break_down],
        wrap_tool_call=guard.wrap_tool_call,
        awrap_tool_call=guard.awrap_tool_call,
        handle_tool_errors=False,
    )
    graph = StateGraph(Node)
    graph.add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node(
        "tools", tools, retry_policy=RetryPolicy(initial_interval=0, jitter=False, retry_on=ConnectionError)
    )
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile(checkpointer=saver)


@SHAPES
@BOTH_WAYS
def test_what_a_call_sent_comes_with_its_recorded_result(place: Place, asynchronous: bool, shape: str) -> None:
    """The call ended and its task's writes were lost: its result is given, and what it sent is in the state once."""
    with Failing(place.root / "sessions") as saver, pytest.raises(OSError, match="no space"):
        go(graph_of(shape, saver, place, [[WRITE]]), PAY, asynchronous=asynchronous, durability="sync")
    result = go(graph_of(shape, place.saver(), place, [[WRITE]]), None, asynchronous=asynchronous)
    assert told(result["messages"]) == {"write-1": "wrote /a"}
    assert (result["files"], result["log"]) == ({"/a": TEXT}, ["/a"])
    assert place.effects("write") == 1


@BOTH_WAYS
@pytest.mark.parametrize("broken", [1, 2])
def test_a_retried_node_sends_again_what_its_finished_calls_sent(
    place: Place, asynchronous: bool, broken: int
) -> None:
    """LangGraph drops a task's writes before each attempt; the call that is over does not run again."""
    graph = graph_of("tool_node", place.saver(), place, [[WRITE, BREAK]], broken=broken)
    result = go(graph, PAY, asynchronous=asynchronous)
    assert told(result["messages"]) == {"write-1": "wrote /a", "break-1": "up"}
    assert (result["files"], result["log"]) == ({"/a": TEXT}, ["/a"])
    assert place.effects("write") == 1


def test_a_result_that_is_given_twice_in_one_attempt_sends_nothing_twice(place: Place) -> None:
    """Something outside of the guard calls it again with the same arguments, and its task still holds the writes."""

    class Twice(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            handler(request)
            return handler(request)

    graph = graph_of("create_agent", place.saver(), place, [[WRITE]], middleware=[Twice()])
    result = go(graph, PAY)
    assert (result["files"], result["log"], place.effects("write")) == ({"/a": TEXT}, ["/a"], 1)


def test_what_a_call_sent_outlives_packing_and_pruning(place: Place) -> None:
    """A large value is a number in the record; rewritten logs keep it, and a salvaged one does."""
    with Failing(place.root / "sessions") as saver, pytest.raises(OSError, match="no space"):
        go(graph_of("create_agent", saver, place, [[WRITE]]), PAY, durability="sync")
    with JsonlSaver(place.root / "sessions") as saver:
        saver.pack("t")
        saver.prune(["t"])
        saver.copy_thread("t", "copied")
        for thread in ("t", "copied"):
            config = {"configurable": {"thread_id": thread}}
            result = graph_of("create_agent", saver, place, [[WRITE]]).invoke(None, config)
            assert (result["files"], result["log"], place.effects("write")) == ({"/a": TEXT}, ["/a"], 1)
            assert saver.verify(thread).ok


def test_what_redacting_changes_is_not_kept(place: Place) -> None:
    """The record holds none of it, and the model is told that the record is not all of what came of the call."""
    options: Any = {"redact": lambda name, value: json.loads(json.dumps(value).replace("words", "-"))}
    with Failing(place.root / "sessions", **options) as saver, pytest.raises(OSError, match="no space"):
        go(graph_of("create_agent", saver, place, [[WRITE]]), PAY, durability="sync")
    tools = [r for r in records(place.log) if r["type"] == "tool"]
    assert all("sent" not in r for r in tools)
    result = go(graph_of("create_agent", place.saver(**options), place, [[WRITE]]), None)
    assert "redacted" in told(result["messages"])["write-1"]
    assert place.effects("write") == 1


def test_what_cannot_be_stored_stops_the_run_and_the_call_is_uncertain(place: Place) -> None:
    """The tool had its effect, and what it wrote to the state can be given to nobody: somebody has to decide."""
    graph = graph_of("create_agent", place.saver(), place, [[WRITE]], content=threading.Lock())
    with pytest.raises(ToolLogError, match="cannot be stored"):
        go(graph, PAY)
    (call,) = JsonlSaver(place.root / "sessions").uncertain("t")
    assert (call.name, place.effects("write")) == ("write", 1)
