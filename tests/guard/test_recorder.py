"""SessionRecorder: tools that are called without a guard are recorded, and no uncertain one is started."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from cases.logs import records
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from guard.scene import CHARGE, CONFIG, PAY, asked, go
from langgraph_jsonl_checkpoint import (
    SessionRecorder,
    ToolCallRunningError,
    ToolLogError,
    ToolPolicy,
    UncertainToolCallError,
)

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node", "handling", "direct"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])

# Before langchain-core 1.8 a callback was told of no tool that asyncio cancels.
TELLS_OF_A_CANCEL = "except BaseException" in inspect.getsource(BaseTool.arun)


def start(place: Place, shape: str, *, policy: Any = None, bodies: Any = None) -> Any:
    """A graph without a guard, and the config with the recorder: (saver, graph, config)."""
    saver = place.saver()
    graph = place.graph(shape, saver=saver, hook=False, bodies=bodies)
    recorder = SessionRecorder(saver, policy=ToolPolicy(**(policy or {})))
    return saver, graph, {**CONFIG, "callbacks": [recorder]}


def statuses(place: Place) -> list[str]:
    """How the calls went."""
    return [r["status"] for r in records(place.log) if r["type"] == "tool"]


@SHAPES
@BOTH_WAYS
def test_a_call_is_recorded(place: Place, shape: str, asynchronous: bool) -> None:
    """Its request, start and end, with its result."""
    saver, graph, config = start(place, shape)
    go(graph, PAY, config, asynchronous=asynchronous)
    assert statuses(place) == ["requested", "started", "completed"]
    (call,) = saver.resume_state("t").tool_calls
    assert (call.name, call.args, call.status, call.result_text) == (
        "charge", {"euros": 40}, "completed", "charged 40 EUR"
    )  # fmt: skip
    assert any(r["type"] == "open" and r.get("hook") for r in records(place.log))


@SHAPES
@BOTH_WAYS
def test_an_uncertain_call_is_not_started(place: Place, shape: str, asynchronous: bool) -> None:
    """Nobody can be asked here: the run stops until somebody has decided, and then the call runs."""
    place.crash(shape, records=True, hook=False, way={"asynchronous": asynchronous})
    saver, graph, config = start(place, shape)
    for _ in range(2):
        with pytest.raises(UncertainToolCallError, match="resolve"):
            go(graph, None, config, asynchronous=asynchronous)
    assert (place.effects("charge"), place.model.requests) == (1, [])
    (call,) = saver.uncertain("t")
    saver.resolve("t", call.tool_call_id, {"type": "approve"})
    result = go(graph, None, config, asynchronous=asynchronous)
    assert place.effects("charge") == 2
    assert result["messages"][-1].text == ("charged 40 EUR" if shape == "direct" else "done")


@pytest.mark.parametrize("shape", ["create_agent", "tool_node", "direct"])
@BOTH_WAYS
def test_a_call_that_raised_is_not_started_by_another_process(place: Place, shape: str, asynchronous: bool) -> None:
    """Failed is not safe here either."""
    assert place.process(shape, records=True, hook=False, raises=["charge"])["code"] == 1
    assert statuses(place) == ["requested", "started", "failed"]
    _, graph, config = start(place, shape)
    with pytest.raises(UncertainToolCallError):
        go(graph, None, config, asynchronous=asynchronous)
    assert place.effects("charge") == 1


@pytest.mark.parametrize("policy", ["read_only", "idempotent"])
@SHAPES
@BOTH_WAYS
def test_what_may_run_twice_runs_again(place: Place, shape: str, asynchronous: bool, policy: str) -> None:
    """By the recorder's own policy."""
    place.crash(shape, records=True, hook=False, policy={policy: ["charge"]})
    _, graph, config = start(place, shape, policy={policy: ["charge"]})
    go(graph, None, config, asynchronous=asynchronous)
    assert place.effects("charge") == 2


@pytest.mark.parametrize("shape", ["create_agent", "tool_node", "direct"])
@BOTH_WAYS
def test_a_call_that_waits_for_a_human_is_paused(place: Place, shape: str, asynchronous: bool) -> None:
    """An interrupt comes to a callback as an error, and is none."""
    _, graph, config = start(place, shape, bodies={"before charge": lambda: interrupt("charge?")})
    assert asked(go(graph, PAY, config, asynchronous=asynchronous)) == ["charge?"]
    assert statuses(place) == ["requested", "started", "paused"]


@pytest.mark.parametrize("shape", ["create_agent", "handling", "direct"])
@BOTH_WAYS
def test_a_call_that_cannot_be_recorded_is_not_started(place: Place, shape: str, asynchronous: bool) -> None:
    """A file where the writers' folder belongs: the run stops with the storage error."""
    (place.root / "sessions").mkdir()
    (place.root / "sessions" / ".writers").write_text("")
    _, graph, config = start(place, shape)
    with pytest.raises(ToolLogError):
        go(graph, PAY, config, asynchronous=asynchronous, durability="exit")
    assert place.effects("charge") == 0


class Bank:
    """A tool that never comes back from its first call, and a node that calls it itself."""

    def __init__(self, place: Place, call: Any) -> None:
        self._place = place
        self._call = call
        self.entered = asyncio.Event()

    async def charge(self, euros: int) -> str:
        """Charge the card."""
        said = self._place.effects._have("charge", f"charged {euros} EUR")
        self.entered.set()
        if self._place.effects("charge") == 1:
            await asyncio.Event().wait()
        return said

    def graph(self, saver: Any) -> Any:
        """The graph with the node."""
        tool = StructuredTool.from_function(coroutine=self.charge, name="charge")

        async def pay(_: MessagesState, config: RunnableConfig) -> Any:
            return {"messages": [AIMessage(await self._call(tool, config))]}

        graph = StateGraph(MessagesState)
        graph.add_node("pay", pay)
        graph.add_edge(START, "pay")
        return graph.compile(checkpointer=saver)


async def test_a_call_that_was_cancelled_is_not_started_again(place: Place) -> None:
    """Before langchain-core 1.8 no callback tells of it: another recorder of the saver does not start it."""
    bank = Bank(place, lambda tool, config: tool.ainvoke({"euros": 40}, config))
    saver = place.saver()
    graph = bank.graph(saver)
    run = asyncio.create_task(graph.ainvoke(PAY, {**CONFIG, "callbacks": [SessionRecorder(saver)]}))
    await bank.entered.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    config = {**CONFIG, "callbacks": [SessionRecorder(saver)]}
    for _ in range(2):
        with pytest.raises(UncertainToolCallError, match="stopped while it ran"):
            await graph.ainvoke(None, config)
    assert place.effects("charge") == 1
    (call,) = (await saver.aresume_state("t")).tool_calls
    await asyncio.to_thread(saver.resolve, "t", call.tool_call_id, {"type": "approve"})
    result = await graph.ainvoke(None, config)
    assert (result["messages"][-1].text, place.effects("charge")) == ("charged 40 EUR", 2)


async def test_a_node_that_stops_its_tool_may_call_it_again(place: Place) -> None:
    """Who cancelled it and wants it again is the program, in one execution of its task: each attempt is recorded."""

    async def twice(tool: Any, config: RunnableConfig) -> str:
        call = {"name": "charge", "args": {"euros": 40}, "id": "charge-1", "type": "tool_call"}
        try:
            said = await asyncio.wait_for(tool.ainvoke(call, config), 0.5)
        except TimeoutError:
            said = await tool.ainvoke(call, config)
        return str(said.text)

    saver = place.saver()
    result = await Bank(place, twice).graph(saver).ainvoke(PAY, {**CONFIG, "callbacks": [SessionRecorder(saver)]})
    assert (result["messages"][-1].text, place.effects("charge")) == ("charged 40 EUR", 2)
    told = ["cancelled"] if TELLS_OF_A_CANCEL else ["requested"]  # the other is another call, while nobody knows
    assert statuses(place) == ["requested", "started", *told, "started", "completed"]


@BOTH_WAYS
@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
@pytest.mark.parametrize("guarded", [False, True], ids=["alone", "with a guard"])
@pytest.mark.parametrize("more", [{}, {"max_concurrency": 1}], ids=["parallel", "one after the other"])
def test_two_calls_with_one_id_both_run(
    place: Place, shape: str, asynchronous: bool, guarded: bool, more: dict[str, Any]
) -> None:
    """A model gave two calls of one message the same id: both have their effect."""
    saver = place.saver()
    twins = [CHARGE, {**CHARGE, "args": {"euros": 50}}]
    graph = place.graph(shape, saver=saver, hook=guarded, rounds=[twins])
    config = {**CONFIG, **more, "callbacks": [SessionRecorder(saver)]}
    result = go(graph, PAY, config, asynchronous=asynchronous)
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["charged 40 EUR", "charged 50 EUR"]
    assert place.effects("charge") == 2
    assert [call.status for call in saver.resume_state("t").tool_calls] == ["completed"] * 2


def test_a_tool_may_be_called_twice_with_nothing_that_tells_the_calls_apart(place: Place) -> None:
    """No id and the same arguments, each in a chain of its own: both run, and are recorded."""
    saver = place.saver()
    tool = StructuredTool.from_function(place.effects.tools[0])
    chain = RunnableLambda(lambda given: given) | tool

    def pay(_: MessagesState, config: RunnableConfig) -> Any:
        return {"messages": [AIMessage(chain.invoke({"euros": 40}, config)) for _ in range(2)]}

    graph = StateGraph(MessagesState).add_node("pay", pay).add_edge(START, "pay").compile(checkpointer=saver)
    result = graph.invoke(PAY, {**CONFIG, "callbacks": [SessionRecorder(saver)]})
    assert [m.text for m in result["messages"][1:]] == ["charged 40 EUR"] * 2
    assert [call.status for call in saver.resume_state("t").tool_calls] == ["completed"] * 2


def test_a_call_that_runs_is_not_started_beside_it(place: Place) -> None:
    """Somebody goes on with the thread while its tool works: refused, and the first one ends in good order."""
    entered, over = threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        over.wait(20)

    saver, graph, config = start(place, "direct", bodies={"charge": work})
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(graph.invoke, PAY, config, durability="sync")
        entered.wait(20)
        told = ToolCallRunningError if TELLS_OF_A_CANCEL else UncertainToolCallError  # it may have been left behind
        with pytest.raises(told):
            graph.invoke(None, {**CONFIG, "callbacks": [SessionRecorder(saver)]})
        assert place.effects("charge") == 1
        over.set()
        assert first.result()["messages"][-1].text == "charged 40 EUR"
    (call,) = saver.resume_state("t").tool_calls
    assert (call.status, place.effects("charge")) == ("completed", 1)


@pytest.mark.parametrize("pooled", [False, True], ids=["in the node's thread", "in a pool of the node's"])
def test_a_lost_call_that_is_asked_for_again_is_not_started(place: Place, pooled: bool) -> None:
    """Under `exit` its message was lost with its process, and the model asks under a new id, from any thread."""
    place.crash("direct", records=True, hook=False, way={"durability": "exit"})
    saver = place.saver()
    tool = StructuredTool.from_function(place.effects.tools[0])

    def pay(_: MessagesState, config: RunnableConfig) -> Any:
        if not pooled:
            return {"messages": [AIMessage(tool.invoke({"euros": 40}, config))]}
        with ThreadPoolExecutor(1) as pool:
            return {"messages": [AIMessage(pool.submit(tool.invoke, {"euros": 40}, config).result())]}

    graph = StateGraph(MessagesState).add_node("pay", pay).add_edge(START, "pay").compile(checkpointer=saver)
    with pytest.raises(UncertainToolCallError):
        graph.invoke(PAY, {**CONFIG, "callbacks": [SessionRecorder(saver)]}, durability="exit")
    assert place.effects("charge") == 1


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize("kind", ["respond", "reject"])
def test_what_the_error_advises_works(place: Place, shape: str, asynchronous: bool, kind: str) -> None:
    """A recorder cannot give the result that somebody decided upon: it says what to decide instead."""
    place.crash(shape, records=True, hook=False)
    saver, graph, config = start(place, shape)
    (call,) = saver.uncertain("t")
    saver.resolve("t", call.tool_call_id, {"type": kind, "message": "receipt 1"})
    for _ in range(2):
        with pytest.raises(UncertainToolCallError, match=r"resolve\(.*'approve'"):
            go(graph, None, config, asynchronous=asynchronous)
    saver.resolve("t", call.tool_call_id, {"type": "approve"})
    go(graph, None, config, asynchronous=asynchronous)
    assert place.effects("charge") == 2
    with pytest.raises(ValueError, match="is not uncertain"):
        saver.resolve("t", call.tool_call_id, {"type": "respond", "message": "receipt 1"})
