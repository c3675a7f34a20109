"""What one call of a task did, drew or was told is no other's, whichever of them run again."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig  # noqa: TC002 - tools are told their config by it
from langchain_core.tools import tool
from langgraph.func import task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from guard.scene import CHARGE, CONFIG, MAIL, PAY, Model, agents_as_tools, asked, build, go, told
from langgraph_jsonl_checkpoint import SessionMiddleware, ToolGuard, decide
from langgraph_jsonl_checkpoint.agents import turn
from langgraph_jsonl_checkpoint.agents.numbers import Numbers, inside
from langgraph_jsonl_checkpoint.agents.turn import Turn
from langgraph_jsonl_checkpoint.tool_calls.ledger import Ledger

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

    from guard.conftest import Place

BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


def agents(place: Place, saver: Any, bodies: Any) -> Any:
    """Alpha charges, and beta, which begins behind it, mails."""
    place.effects.bodies = bodies
    return agents_as_tools(place.effects, saver, late="beta", until=lambda: time.sleep(0.1))


@BOTH_WAYS
@pytest.mark.parametrize("how", ["raises", "asks"])
def test_an_agent_that_runs_again_is_not_given_what_its_neighbour_came_to(
    place: Place, asynchronous: bool, how: str
) -> None:
    """LangGraph finds a subgraph by its number in its task; the one that is over draws none the second time."""

    def fail() -> str:
        time.sleep(0.3)  # alpha is over by then
        raise ConnectionError("no mail server")

    saver = place.saver()
    given: Any = None
    if how == "raises":
        with pytest.raises(ConnectionError):
            go(agents(place, saver, {"before mail": fail}), PAY, asynchronous=asynchronous)
        graph = agents(place, saver, {})
    else:
        graph = agents(place, saver, {"before mail": lambda: interrupt("mail?")})
        assert asked(go(graph, PAY, asynchronous=asynchronous)) == ["mail?"]
        given = Command(resume="send it")
    result = go(graph, given, asynchronous=asynchronous)
    assert told(result["messages"]) == {"alpha": "charged 40 EUR", "beta": "mailed ann"}
    assert (place.effects("charge"), place.effects("mail")) == (1, 1)


@BOTH_WAYS
@pytest.mark.parametrize("deep", [False, True], ids=["agents", "agents of an agent"])
def test_an_agent_of_a_killed_process_is_not_given_what_its_neighbour_came_to(
    place: Place, asynchronous: bool, deep: bool
) -> None:
    """Nobody recorded how far the calls were, and they begin in another order: each goes on with its own subgraph."""
    place.crash_of_agents(deep=deep)
    late: Any = {"late": "beta", "until": lambda: time.sleep(0.1)}
    graph = agents_as_tools(place.effects, place.saver(), **late, deep=deep)
    result, named = go(graph, None, asynchronous=asynchronous), []
    while asked(result):
        names = [call["tool_call_id"] for question in asked(result) for call in question["calls"]]
        said = {"mail-1": {"type": "respond", "message": "it is sent"}}
        given = {name: said.get(name, {"type": "approve"}) for name in names}
        result = go(graph, decide(graph, CONFIG, given), asynchronous=asynchronous)
        named.append(names)
    assert named == [["gamma"]] * deep + [["alpha", "beta"], ["mail-1"]]
    came_to = {"alpha": "charged 40 EUR", "beta": "it is sent"}
    assert told(result["messages"]) == ({"gamma": str(came_to)} if deep else came_to)
    assert (place.effects("charge"), place.effects("mail")) == (1, 1)


def test_calls_that_draw_many_numbers_draw_no_others() -> None:
    """In whatever order they draw, and in a tool of another task: each has the numbers that it has in any process."""
    calls = [("task", name) for name in ("first", "second", "third")]
    drawn = []
    for order in (calls * 1500, calls[::-1] * 1500):
        numbers = Numbers(itertools.count().__next__)
        with inside(("t", ("another task", "call"))):
            numbers.part(calls)
            for call in order:
                with inside(("t", call)):
                    numbers()
        drawn.append([numbers.drawn(call) for call in calls])
    assert drawn[0] == drawn[1]
    assert len({number for each in drawn[0] for number in each}) == 4500


def test_a_tool_is_behind_until_it_has_its_answer() -> None:
    """LangGraph gives a number and then the answer; in between another tool would take what is there."""
    key = ("task", "call")
    turn = Turn(numbers={"interrupts": Numbers(itertools.count().__next__)}, drew={key: [0]}, running={key})
    assert turn.is_behind(key, 0)
    with inside(("t", key)):
        assert turn.numbers["interrupts"]() == 0
    assert turn.is_behind(key, 0)
    assert not turn.is_behind(key, 1)


def test_a_task_that_a_tool_calls_is_not_given_what_its_neighbours_came_to(place: Place) -> None:
    """The same for a `@task` in a tool's body."""
    sent: list[str] = []

    @task
    def post(what: str) -> str:
        sent.append(what)
        return f"posted {what}"

    @tool
    def charge() -> str:
        """Charge the card."""
        return post("charge").result()

    @tool
    def mail() -> str:
        """Send a mail."""
        time.sleep(0.2)
        if not place.effects("mail"):
            place.effects._have("mail", "")
            raise ConnectionError("no mail server")
        return post("mail").result()

    calls = [{"name": name, "args": {}, "id": name} for name in ("charge", "mail")]
    graph = build("tool_node", place.saver(), [charge, mail], Model(rounds=[calls]))
    with pytest.raises(ConnectionError):
        go(graph, PAY)
    result = go(graph, None)
    assert told(result["messages"]) == {"charge": "posted charge", "mail": "posted mail"}
    assert sent == ["charge", "mail"]


@BOTH_WAYS
def test_an_answer_goes_to_the_tool_that_was_asked_however_long_it_works(
    place: Place, monkeypatch: pytest.MonkeyPatch, asynchronous: bool
) -> None:
    """It takes longer to its question than the others wait for a call that never comes; they are faster now."""
    monkeypatch.setattr(turn, "_PATIENCE", 0.1)
    slow = threading.Event()

    def charge() -> Any:
        time.sleep(0.3)
        return interrupt("charge?")

    def mail() -> Any:
        if not slow.is_set():
            time.sleep(0.6)
            slow.set()
        return interrupt("mail?")

    graph = place.graph("tool_node", rounds=[[MAIL, CHARGE]], bodies={"before charge": charge, "before mail": mail})
    result = go(graph, PAY, asynchronous=asynchronous)
    for question in ("charge?", "mail?"):
        assert asked(result) == [question]
        result = go(graph, Command(resume=f"to {question}"), asynchronous=asynchronous)
    assert (place.effects.lines("charge"), place.effects.lines("mail")) == (["to charge?"], ["to mail?"])


@BOTH_WAYS
def test_a_tool_that_asks_again_keeps_its_place(place: Place, asynchronous: bool) -> None:
    """It works between its two questions, and another tool is ready with its own: each gets its own answers."""

    def charge() -> str:
        first = interrupt("charge?")
        time.sleep(0.1)
        return f"{first}, {interrupt('really?')}"

    graph = place.graph(
        "tool_node",
        rounds=[[CHARGE, MAIL]],
        bodies={"before charge": charge, "before mail": lambda: interrupt("mail?")},
    )
    result = go(graph, PAY, asynchronous=asynchronous)
    questions = []
    while asked(result):
        questions += asked(result)
        assert len(questions) <= 3, questions
        result = go(graph, Command(resume=f"to {questions[-1]}"), asynchronous=asynchronous)
    assert sorted(questions) == ["charge?", "mail?", "really?"]
    assert place.effects.lines("charge") == ["to charge?, to really?"]
    assert place.effects.lines("mail") == ["to mail?"]


@BOTH_WAYS
@pytest.mark.parametrize("again", ["the same saver", "another saver"])
def test_a_tool_that_raised_gets_its_answer_again(place: Place, asynchronous: bool, again: str) -> None:
    """It asked, was answered and raised, and another waits: neither is told what the other was."""

    def fail() -> None:
        if place.effects("charge") == 1:
            raise TimeoutError("gateway timeout")

    drawn = threading.Event()

    def charge() -> Any:
        try:
            return interrupt("charge?")
        finally:
            drawn.set()

    def mail() -> Any:
        drawn.wait(5)
        return interrupt("mail?")

    bodies = {"before charge": charge, "before mail": mail, "charge": fail}
    graph = place.graph("tool_node", rounds=[[CHARGE, MAIL]], bodies=bodies)
    assert asked(go(graph, PAY, asynchronous=asynchronous)) == ["charge?"]
    with pytest.raises(TimeoutError):
        go(graph, Command(resume="to charge?"), asynchronous=asynchronous)
    if again == "another saver":
        place.close()
        graph = place.graph("tool_node", rounds=[[CHARGE, MAIL]], bodies=bodies)
    result = go(graph, None, asynchronous=asynchronous)
    while asked(result):
        (question,) = asked(result)
        given = Command(resume=f"to {question}")
        if isinstance(question, dict):
            # And about the other one, if asyncio stopped it when this one raised.
            given = decide(graph, CONFIG, {c["tool_call_id"]: {"type": "approve"} for c in question["calls"]})
        result = go(graph, given, asynchronous=asynchronous)
    assert set(place.effects.lines("charge")) == {"to charge?"}
    assert place.effects.lines("mail") == ["to mail?"]


@BOTH_WAYS
@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
def test_an_answer_that_a_task_has_is_not_given_to_its_next_question(
    place: Place, asynchronous: bool, shape: str
) -> None:
    """LangGraph gives the last answer to a run as a whole again; what raised behind it asks another thing now."""
    down = [None]

    def ask() -> str:
        first = interrupt("first?")
        if down:
            down.pop()
            raise ConnectionError("the bank hung up")
        return f"{first}, {interrupt('second?')}"

    graph = place.graph(shape, bodies={"before charge": ask})
    assert asked(go(graph, PAY, asynchronous=asynchronous)) == ["first?"]
    with pytest.raises(ConnectionError):
        go(graph, Command(resume="one"), asynchronous=asynchronous)
    assert asked(go(graph, None, asynchronous=asynchronous)) == ["second?"]
    go(graph, Command(resume="two"), asynchronous=asynchronous)
    assert place.effects.lines("charge") == ["one, two"]


@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
@pytest.mark.parametrize("first", ["raises", "asks"])
def test_a_call_whose_error_nobody_saw_is_asked_about(place: Place, shape: str, first: str) -> None:
    """Two tools stop a run, and whoever goes on with it saw one error or one question, not what the other raised."""
    charged = threading.Event()

    def fail() -> None:
        charged.set()
        raise ConnectionError("the bank hung up")

    def stop() -> Any:
        charged.wait(20)
        if first == "asks":
            return interrupt("mail?")
        raise ConnectionError("no mail server")

    saver = place.saver()
    graph = place.graph(shape, saver=saver, rounds=[[MAIL, CHARGE]], bodies={"before mail": stop, "charge": fail})
    paused: Any = {}
    try:
        paused = go(graph, PAY)
    except ConnectionError:
        paused = {}
    assert place.effects("charge") == 1
    assert "charge" in [call.name for call in saver.uncertain("t")]
    place.effects.bodies.clear()
    given = Command(resume="yes") if asked(paused) else None
    names = [c["name"] for q in asked(go(graph, given)) if isinstance(q, dict) for c in q["calls"]]
    assert ("charge" in names, place.effects("charge")) == (True, 1)
    saver.resolve("t", "charge-1", {"type": "respond", "message": "it was paid"})
    result = go(graph, None)
    while asked(result):
        calls = [c["tool_call_id"] for q in asked(result) for c in q["calls"]]
        result = go(graph, decide(graph, CONFIG, {call: {"type": "approve"} for call in calls}))
    assert (told(result["messages"])["charge-1"], place.effects("charge")) == ("it was paid", 1)


async def test_a_tool_may_hand_its_call_on(place: Place) -> None:
    """A tool that dispatches gives its own call's id to a ToolNode with the same guard: one call, and no waiting."""
    saver = place.saver()
    guard = ToolGuard(saver)
    wraps: Any = {"wrap_tool_call": guard.wrap_tool_call, "awrap_tool_call": guard.awrap_tool_call}
    node = ToolNode(place.effects.tools, **wraps)

    async def dispatch(name: str, params: dict[str, Any], config: RunnableConfig) -> str:
        """Call another tool."""
        call = {"name": name, "args": params, "id": "charge-1", "type": "tool_call"}
        result = await asyncio.wait_for(node.ainvoke([call], config), 10)
        return str(result["messages"][0].text)

    call = {"name": "dispatch", "args": {"name": "charge", "params": {"euros": 40}}, "id": "charge-1"}
    model = Model(rounds=[[call]])
    graph = StateGraph(MessagesState).add_node("agent", lambda s: {"messages": [model.invoke(s["messages"])]})
    graph.add_node("tools", ToolNode([dispatch], **wraps)).add_edge(START, "agent").add_edge("agent", "tools")
    result = await graph.compile(checkpointer=saver).ainvoke(PAY, CONFIG)
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR"}
    calls = (await saver.aresume_state("t")).tool_calls
    assert [(c.name, c.status) for c in calls] == [("dispatch", "completed")]


@pytest.mark.parametrize("times", [1, 2])
async def test_a_call_that_is_cancelled_before_its_tool_is_called_is_pending(
    place: Place, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """The disk is slow with `started`, and the run is cancelled meanwhile: nothing ran, and nobody is asked."""
    entered, enter = threading.Event(), Ledger.enter

    def slow(self: Ledger, *given: Any, **more: Any) -> Any:
        entered.set()
        time.sleep(0.3)
        return enter(self, *given, **more)

    graph = place.graph("tool_node")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "enter", slow)
        run = asyncio.create_task(graph.ainvoke(PAY, CONFIG))
        await asyncio.to_thread(entered.wait, 20)
        for _ in range(times):
            run.cancel()
            await asyncio.sleep(0.02)
        with pytest.raises(asyncio.CancelledError):
            await run
    other = place.saver()
    (call,) = (await other.aresume_state("t")).tool_calls
    assert (call.status, call.ended, call.attempt, place.effects("charge")) == ("pending", "withdrawn", 1, 0)
    result = await place.graph("tool_node", saver=other).ainvoke(None, CONFIG)
    assert (told(result["messages"]), place.effects("charge")) == ({"charge-1": "charged 40 EUR"}, 1)


def test_a_hook_is_told_of_though_its_session_was_closed_meanwhile(place: Place) -> None:
    """Other threads drive it out between the model's request and its answer's checkpoint: the log says that it is."""
    saver = place.saver(max_open=1)

    class Busy(Model):
        def answer(self, messages: list[Any]) -> AIMessage:
            for number in range(2):
                saver.get_tuple({"configurable": {"thread_id": f"other {number}"}})
            return super().answer(messages)

    model = Busy(rounds=[[CHARGE]])
    graph = create_agent(
        model, place.effects.tools, middleware=[SessionMiddleware()], checkpointer=saver, interrupt_before=["tools"]
    )
    graph.invoke(PAY, CONFIG)
    assert saver._sessions.peek("t").runs.is_hooked(saver._sessions.writer.id, "")
