"""What was answered, decided or done counts once, and for its own call."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from guard.scene import CHARGE, CONFIG, MAIL, PAY, Model, asked, build, go, told
from langgraph_jsonl_checkpoint import JsonlSaver, ToolLogError, decide
from langgraph_jsonl_checkpoint.agents.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node", "subgraph"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
ONE_AFTER_THE_OTHER = {**CONFIG, "max_concurrency": 1}
APPROVE = {"type": "approve"}
TWINS = [CHARGE, {**CHARGE, "args": {"euros": 50}}]


def attempts(result: Any) -> list[tuple[str, int]]:
    """The calls that are asked about, and which attempt it is about."""
    return [(call["tool_call_id"], call["attempt"]) for value in asked(result) for call in value["calls"]]


def results(result: Any) -> list[str]:
    """What the tools said."""
    return [m.text for m in result["messages"] if m.type == "tool"]


@SHAPES
@BOTH_WAYS
def test_a_bare_approval_that_was_used_is_not_taken_again(place: Place, shape: str, asynchronous: bool) -> None:
    """LangGraph keeps it behind a kill in the approved run: each run without an answer asks, and none runs it."""
    place.crash(shape)
    assert place.process(shape, resumes=True)["code"] == 0
    place.crash(shape, answer=APPROVE)
    assert place.effects("charge") == 2
    for _ in range(3):
        with JsonlSaver(place.root / "sessions") as saver:
            paused = go(place.graph(shape, saver=saver), None, asynchronous=asynchronous)
        assert attempts(paused) == [("charge-1", 2)]
    assert place.effects("charge") == 2
    go(place.graph(shape), Command(resume=APPROVE), asynchronous=asynchronous)
    assert place.effects("charge") == 3


@BOTH_WAYS
@pytest.mark.parametrize("order", [[CHARGE, MAIL], [MAIL, CHARGE]], ids=["charge first", "mail first"])
def test_two_tools_of_a_task_that_ask_get_their_own_answers(place: Place, asynchronous: bool, order: Any) -> None:
    """Two calls of one ToolNode wait in their bodies: an answer goes to the tool whose question was shown."""
    bodies = {"before charge": lambda: interrupt("charge?"), "before mail": lambda: interrupt("mail?")}
    graph = place.graph("tool_node", rounds=[order], bodies=bodies)
    result = go(graph, PAY, ONE_AFTER_THE_OTHER, asynchronous=asynchronous)
    questions = []
    while asked(result):
        questions.append(asked(result)[0])
        assert len(questions) <= 2, questions
        result = go(graph, Command(resume=f"to {questions[-1]}"), ONE_AFTER_THE_OTHER, asynchronous=asynchronous)
    assert sorted(questions) == ["charge?", "mail?"]
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR", "mail-1": "mailed ann"}
    assert (place.effects.lines("charge"), place.effects.lines("mail")) == (["to charge?"], ["to mail?"])


@BOTH_WAYS
@pytest.mark.parametrize("late", ["drawing", "raising"])
def test_an_answer_goes_to_the_tool_that_was_asked_however_its_threads_run(
    place: Place, asynchronous: bool, late: str
) -> None:
    """The second call's tool draws the first number; raises last; and comes second when there is an answer."""
    drawn, draws = threading.Event(), 0

    def charge() -> Any:
        nonlocal draws
        draws += 1
        if draws > 1:
            time.sleep(0.05)  # the other one is faster now
        try:
            return interrupt("charge?")
        finally:
            drawn.set()
            time.sleep(0.05 if late == "raising" else 0)

    def mail() -> Any:
        drawn.wait(5)
        return interrupt("mail?")

    bodies = {"before charge": charge, "before mail": mail}
    graph = place.graph("tool_node", rounds=[[MAIL, CHARGE]], bodies=bodies)
    result = go(graph, PAY, asynchronous=asynchronous)
    questions = []
    while asked(result):
        questions.append(asked(result)[0])
        assert len(questions) <= 2, questions
        result = go(graph, Command(resume=f"to {questions[-1]}"), asynchronous=asynchronous)
    assert questions == ["charge?", "mail?"]
    assert (place.effects.lines("charge"), place.effects.lines("mail")) == (["to charge?"], ["to mail?"])


@BOTH_WAYS
@pytest.mark.parametrize("by", ["the tool", "the guard"])
def test_a_run_that_asked_leaves_nothing_in_the_guard(place: Place, asynchronous: bool, by: str) -> None:
    """A process that serves many threads has one guard: what its executions had in hand is let go of."""
    others = _turns()
    if by == "the guard":
        place.crash("tool_node")
    graph = place.graph("tool_node", bodies={"before charge": lambda: interrupt("charge?")})
    assert asked(go(graph, None if by == "the guard" else PAY, asynchronous=asynchronous))
    assert [turn for turn in _turns() if not any(turn is other for other in others)] == []


def _turns() -> list[Turn]:
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, Turn)]


def _parallel(saver: JsonlSaver, tools: Any, before: dict[str, Callable[[], None]]) -> Any:
    graph = StateGraph(MessagesState)
    for name in ("A", "B"):
        model = Model(rounds=[[{**CHARGE, "id": f"call-{name}"}]])
        agent = StateGraph(MessagesState)
        agent.add_node("first", lambda _, name=name: before[name]() if name in before else {})
        agent.add_node("agent", build("tool_node", None, tools, model))
        agent.add_edge(START, "first")
        agent.add_edge("first", "agent")
        graph.add_node(name, agent.compile())
        graph.add_edge(START, name)
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize("rejected", ["A", "B"])
def test_decisions_about_equal_calls_are_each_for_its_own(place: Place, rejected: str) -> None:
    """One of two parallel agents had its effect, the other comes to ask for the same: both decisions are held."""
    entered = threading.Event()

    def stop() -> None:
        entered.wait(20)
        raise ConnectionError("no model")

    def fail() -> None:
        entered.set()
        raise ConnectionError("no bank")

    place.effects.bodies = {"charge": fail}
    with JsonlSaver(place.root / "sessions") as saver, pytest.raises(ConnectionError):
        _parallel(saver, place.effects.tools, {"A": stop}).invoke(PAY, CONFIG)
    assert place.effects("charge") == 1
    place.effects.bodies = {}
    saver = place.saver()
    graph = _parallel(saver, place.effects.tools, {})
    assert sorted(attempts(go(graph, None))) == [("call-A", 0), ("call-B", 1)]
    answers = {f"call-{name}": {"type": "reject" if name == rejected else "approve"} for name in ("A", "B")}
    result = go(graph, decide(graph, CONFIG, answers))
    said = told(result["messages"])
    approved = "B" if rejected == "A" else "A"
    assert said[f"call-{approved}"] == "charged 40 EUR"
    assert "not run again" in said[f"call-{rejected}"]
    assert place.effects("charge") == 2


@SHAPES
@BOTH_WAYS
def test_another_saver_asks_about_a_call_that_raised(place: Place, shape: str, asynchronous: bool) -> None:
    """Who saw it raise lives on, and yet another saver or process does not run it again unasked."""

    def fail() -> None:
        raise TimeoutError("gateway timeout")

    with pytest.raises(TimeoutError):
        go(place.graph(shape, bodies={"charge": fail}), PAY, asynchronous=asynchronous)
    assert place.process(shape, resumes=True)["code"] == 0
    assert place.effects("charge") == 1
    other = place.saver()
    assert [call.tool_call_id for call in other.uncertain("t")] == ["charge-1"]
    paused = go(place.graph(shape, saver=other), None, asynchronous=asynchronous)
    assert (attempts(paused), place.effects("charge")) == ([("charge-1", 1)], 1)
    assert "gateway timeout" in asked(paused)[0]["calls"][0]["description"]


@SHAPES
def test_a_call_that_was_cancelled_is_asked_about_by_the_saver_that_saw_it(place: Place, shape: str) -> None:
    """A tool raised, and asyncio stopped the one beside it in the middle: only what was raised was seen."""

    def fail() -> None:
        raise ConnectionError("no mail")

    def settle() -> None:
        charged.set()
        time.sleep(0.3)

    charged = threading.Event()
    saver = place.saver()
    bodies = {"before mail": lambda: charged.wait(20), "mail": fail, "charge": settle}
    graph = place.graph(shape, saver=saver, rounds=[[CHARGE, MAIL]], bodies=bodies)
    with pytest.raises(ConnectionError):
        go(graph, PAY, asynchronous=True)
    assert {call.name: call.status for call in saver.resume_state("t").tool_calls} == {
        "charge": "cancelled",
        "mail": "failed",
    }
    assert [call.name for call in saver.uncertain("t")] == ["charge"]
    assert "charge(euros=40) was stopped while it ran" in str(saver.session_memory("t"))
    place.effects.bodies = {}
    paused = go(graph, None, asynchronous=True)
    assert (attempts(paused), place.effects("charge")) == ([("charge-1", 1)], 1)
    assert "stopped while it ran" in asked(paused)[0]["calls"][0]["description"]
    result = go(graph, Command(resume={"type": "respond", "message": "it was paid"}), asynchronous=True)
    assert told(result["messages"]) == {"charge-1": "it was paid", "mail-1": "mailed ann"}
    assert (place.effects("charge"), place.effects("mail")) == (1, 2)


class Deadline(AgentMiddleware):
    """Stops a tool that takes too long, and tries it once more."""

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run the call."""
        try:
            return await asyncio.wait_for(handler(request), 0.5)
        except TimeoutError:
            return await handler(request)


async def test_whoever_cancels_a_call_and_wants_it_again_is_not_asked(place: Place) -> None:
    """A middleware outside of the guard stops a slow tool and tries again: in this execution it decides."""

    async def charge(euros: int) -> str:
        """Charge the card."""
        said = place.effects._have("charge", f"charged {euros} EUR")
        if place.effects("charge") == 1:
            await asyncio.Event().wait()
        return said

    graph = place.graph("create_agent", tools=[charge], middleware=[Deadline()])
    result = await graph.ainvoke(PAY, CONFIG)
    assert (asked(result), results(result), place.effects("charge")) == ([], ["charged 40 EUR"], 2)


@BOTH_WAYS
@pytest.mark.parametrize("config", [CONFIG, ONE_AFTER_THE_OTHER], ids=["parallel", "one after the other"])
@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
def test_two_calls_with_one_id_both_run(place: Place, shape: str, asynchronous: bool, config: Any) -> None:
    """A model gave two calls of one message the same id: each has its effect and its own result."""
    result = go(place.graph(shape, rounds=[TWINS]), PAY, config, asynchronous=asynchronous)
    assert results(result) == ["charged 40 EUR", "charged 50 EUR"]
    assert place.effects("charge") == 2


@BOTH_WAYS
def test_two_calls_with_one_id_keep_their_results(place: Place, asynchronous: bool) -> None:
    """Both were over when a third call of the task raised: the resumed task gets each one's own result."""

    def fail() -> None:
        raise ConnectionError("no mail")

    graph = place.graph("tool_node", rounds=[[*TWINS, MAIL]], bodies={"mail": fail})
    with pytest.raises(ConnectionError):
        go(graph, PAY, ONE_AFTER_THE_OTHER)
    assert place.effects("charge") == 2
    place.effects.bodies.clear()
    result = go(graph, None, ONE_AFTER_THE_OTHER, asynchronous=asynchronous)
    assert results(result) == ["charged 40 EUR", "charged 50 EUR", "mailed ann"]
    assert (place.effects("charge"), place.effects("mail")) == (2, 2)


def test_an_end_that_could_not_be_written_is_not_running(place: Place) -> None:
    """The disk was full when the call ended: another saver of the process asks, and does not take it for alive."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))

    graph = place.graph("tool_node", bodies={"charge": fill})
    try:
        with pytest.raises(ToolLogError):
            go(graph, PAY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for _ in range(2):
        assert attempts(go(place.graph("tool_node"), None)) == [("charge-1", 1)]
    assert place.effects("charge") == 1
