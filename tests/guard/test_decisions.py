"""What happens to an uncertain call: what `on_uncertain` says, and each way in which a human can decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cases.logs import records
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from guard.scene import CHARGE, CONFIG, LOOKUP, MAIL, PAY, REVIEW_MODES, asked, go, review, told
from langgraph_jsonl_checkpoint import SessionMiddleware, ToolGuard, adecide, decide

if TYPE_CHECKING:
    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node", "subgraph"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
UNKNOWN = "Outcome unknown: charge was started and its end was not recorded. It may or may not have had its effect."

DECISIONS = pytest.mark.parametrize(
    ("decision", "charges", "answer"),
    [
        ({"type": "approve"}, 2, "charged 40 EUR"),
        ({"type": "approve", "message": "go on"}, 2, "charged 40 EUR"),
        ({"type": "respond", "message": "it is paid"}, 1, "it is paid"),
        ({"type": "reject"}, 1, f"{UNKNOWN} It was not run again."),
        ({"type": "reject", "message": "ask Ann"}, 1, f"{UNKNOWN} It was not run again. A human says: ask Ann"),
    ],
)


@SHAPES
@BOTH_WAYS
def test_what_is_asked(place: Place, shape: str, asynchronous: bool) -> None:
    """One interrupt, with the call, its attempt, when it was started, and what is known of it; nothing runs."""
    place.crash(shape)
    graph = place.graph(shape)
    for _ in range(2):  # asked again as long as nobody answers
        (question,) = asked(go(graph, None, asynchronous=asynchronous))
        assert question["type"] == "tool_uncertain"
        (call,) = question["calls"]
        assert set(call) == {"tool_call_id", "name", "args", "attempt", "started_at", "description"}
        assert call["tool_call_id"] == "charge-1"
        assert (call["name"], call["args"], call["attempt"]) == ("charge", {"euros": 40}, 1)
        started = next(r for r in records(place.log) if r["type"] == "tool" and r["status"] == "started")
        assert call["started_at"] == started["ts"]
        assert "its end was not recorded" in call["description"]
    assert (place.effects("charge"), place.model.requests) == (1, [])


@SHAPES
@BOTH_WAYS
@DECISIONS
@pytest.mark.parametrize("way", ["bare", "decisions", "attempt", "decide"])
def test_a_human_answers(
    place: Place, shape: str, asynchronous: bool, decision: Any, charges: int, answer: str, way: str
) -> None:
    """The bare decision, or by call, with or without the attempt, or made by `decide`: each does the same."""
    place.crash(shape)
    graph = place.graph(shape)
    go(graph, None, asynchronous=asynchronous)
    command = {
        "bare": lambda: Command(resume=decision),
        "decisions": lambda: Command(resume={"decisions": {"charge-1": decision}}),
        "attempt": lambda: Command(resume={"decisions": {"charge-1": {**decision, "attempt": 1}}}),
        "decide": lambda: decide(graph, CONFIG, {"charge-1": decision}),
    }[way]()
    result = go(graph, command, asynchronous=asynchronous)
    assert (told(result["messages"]), asked(result)) == ({"charge-1": answer}, [])
    assert place.effects("charge") == charges
    assert told(place.model.requests[-1]) == {"charge-1": answer}


async def test_adecide(place: Place) -> None:
    """`decide` for an event loop."""
    place.crash("create_agent")
    graph = place.graph("create_agent")
    await graph.ainvoke(None, CONFIG)
    result = await graph.ainvoke(await adecide(graph, CONFIG, {"charge-1": {"type": "reject"}}), CONFIG)
    assert told(result["messages"]) == {"charge-1": f"{UNKNOWN} It was not run again."}


@SHAPES
@BOTH_WAYS
@DECISIONS
def test_a_decision_from_outside(
    place: Place, shape: str, asynchronous: bool, decision: Any, charges: int, answer: str
) -> None:
    """`resolve` before the run goes on, in any namespace: nobody is asked."""
    place.crash(shape)
    saver = place.saver()
    (call,) = saver.uncertain("t")
    assert call.ns.startswith("agent:") == (shape == "subgraph")
    saver.resolve("t", "charge-1", decision)
    assert saver.uncertain("t") == ()
    with pytest.raises(ValueError, match="not uncertain"):
        saver.resolve("t", "charge-1", decision)
    result = go(place.graph(shape), None, asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": answer}
    assert place.effects("charge") == charges


async def test_aresolve_and_a_decision_that_is_none(place: Place) -> None:
    """A word that is no decision, a call that is not there, or is over: each is refused, and nothing changes."""
    place.crash("create_agent", rounds=[[LOOKUP, CHARGE]], after=["lookup"], policy={"read_only": ["lookup"]})
    saver = place.saver()
    no_result = {"type": "respond"}
    for wrong in ({"type": "edit"}, {"type": "approve", "message": 7}, no_result, {}, "approve", None):
        with pytest.raises(ValueError, match="decision"):
            await saver.aresolve("t", "charge-1", wrong)  # type: ignore[arg-type]
    for call in ("charge-2", "lookup-1"):
        with pytest.raises(ValueError, match="not uncertain"):
            await saver.aresolve("t", call, {"type": "approve"})
    with pytest.raises(ValueError, match="not uncertain"):
        await saver.aresolve("another", "charge-1", {"type": "approve"})
    await saver.aresolve("t", "charge-1", {"type": "respond", "message": "paid"})
    assert saver.uncertain("t") == ()
    assert [r["by"] for r in records(place.log) if r["type"] == "tool" and r["status"] == "resolved"] == ["resolve"]


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize(("on_uncertain", "charges"), [("report", 1), ("replay", 2)])
def test_nobody_is_asked(place: Place, shape: str, asynchronous: bool, on_uncertain: str, charges: int) -> None:
    """With "report" the model hears that the outcome is unknown, "replay" runs the call; both are decisions."""
    place.crash(shape)
    result = go(place.graph(shape, on_uncertain=on_uncertain), None, asynchronous=asynchronous)
    assert asked(result) == []
    said = told(result["messages"])["charge-1"]
    if on_uncertain == "report":
        assert said == f"{UNKNOWN} It was not run again. Check what happened before you call it again."
        assert next(m for m in result["messages"] if m.type == "tool").status == "error"
    else:
        assert said == "charged 40 EUR"
    assert place.effects("charge") == charges
    (resolved,) = [r for r in records(place.log) if r["type"] == "tool" and r["status"] == "resolved"]
    assert (resolved["decision"], resolved["attempt"], resolved["by"]) == (on_uncertain, 1, "policy")


@pytest.mark.parametrize("door", [SessionMiddleware, ToolGuard])
def test_an_unknown_on_uncertain_is_refused(door: Any) -> None:
    """A misspelt option must not become the default."""
    with pytest.raises(ValueError, match="on_uncertain"):
        door(on_uncertain="ask")


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize("policy", ["read_only", "idempotent"])
def test_what_may_run_twice_just_runs(place: Place, shape: str, asynchronous: bool, policy: str) -> None:
    """A read-only or idempotent call is never uncertain, and runs again."""
    place.crash(shape, policy={policy: ["charge"]})
    saver = place.saver()
    assert saver.uncertain("t") == ()
    graph = place.graph(shape, saver=saver, policy={policy: ["charge"]})
    result = go(graph, None, asynchronous=asynchronous)
    assert (told(result["messages"]), place.effects("charge")) == ({"charge-1": "charged 40 EUR"}, 2)


@BOTH_WAYS
def test_two_uncertain_calls_of_an_agent_are_two_questions(place: Place, asynchronous: bool) -> None:
    """create_agent runs each call in a task of its own, so LangGraph wants an answer for each interrupt."""
    rounds = [[CHARGE, MAIL]]
    place.crash("create_agent", "charge", "mail", rounds=rounds)
    graph = place.graph("create_agent", rounds=rounds)
    paused = go(graph, None, asynchronous=asynchronous)
    assert sorted(c["tool_call_id"] for q in asked(paused) for c in q["calls"]) == ["charge-1", "mail-1"]
    # One of them first: the other is asked again, and the first not.
    partly = go(graph, decide(graph, CONFIG, {"mail-1": {"type": "approve"}}), asynchronous=asynchronous)
    assert [c["tool_call_id"] for q in asked(partly) for c in q["calls"]] == ["charge-1"]
    assert (place.effects("charge"), place.effects("mail")) == (1, 2)
    result = go(graph, decide(graph, CONFIG, {"charge-1": {"type": "reject"}}), asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": f"{UNKNOWN} It was not run again.", "mail-1": "mailed ann"}
    assert (place.effects("charge"), place.effects("mail")) == (1, 2)


@BOTH_WAYS
@pytest.mark.parametrize("bare", [False, True])
def test_two_uncertain_calls_of_a_tool_node_are_one_question(place: Place, asynchronous: bool, bare: bool) -> None:
    """One task asks once; what is not answered is asked again, and nothing runs before all is answered."""
    rounds = [[CHARGE, MAIL]]
    place.crash("tool_node", "charge", "mail", rounds=rounds)
    graph = place.graph("tool_node", rounds=rounds)
    (question,) = asked(go(graph, None, asynchronous=asynchronous))
    assert [c["tool_call_id"] for c in question["calls"]] == ["charge-1", "mail-1"]
    # A bare decision would be about both.
    (question,) = asked(go(graph, Command(resume={"type": "approve"}), asynchronous=asynchronous))
    assert [c["tool_call_id"] for c in question["calls"]] == ["charge-1", "mail-1"]
    (question,) = asked(go(graph, decide(graph, CONFIG, {"mail-1": {"type": "approve"}}), asynchronous=asynchronous))
    assert [c["tool_call_id"] for c in question["calls"]] == ["charge-1"]
    assert (place.effects("charge"), place.effects("mail")) == (1, 1)
    last = Command(resume={"type": "reject"}) if bare else decide(graph, CONFIG, {"charge-1": {"type": "reject"}})
    result = go(graph, last, asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": f"{UNKNOWN} It was not run again.", "mail-1": "mailed ann"}
    assert (place.effects("charge"), place.effects("mail")) == (1, 2)


def test_decide_says_what_is_wrong(place: Place) -> None:
    """About a call that nothing is asked about, no decision, or none at all: nothing is sent to the graph."""
    place.crash("create_agent")
    graph = place.graph("create_agent")
    with pytest.raises(ValueError, match="nothing is asked"):
        decide(graph, CONFIG, {"charge-1": {"type": "approve"}})
    go(graph, None)
    with pytest.raises(ValueError, match="nothing is asked about tool call 'mail-1'; asked is about 'charge-1'"):
        decide(graph, CONFIG, {"mail-1": {"type": "approve"}})
    with pytest.raises(ValueError, match="a decision is"):
        decide(graph, CONFIG, {"charge-1": {"type": "yes"}})
    with pytest.raises(ValueError, match='"respond" needs the call\'s result as its message'):
        decide(graph, CONFIG, {"charge-1": {"type": "respond"}})
    with pytest.raises(ValueError, match="no decision"):
        decide(graph, CONFIG, {})


@pytest.mark.skipif(REVIEW_MODES == [None], reason="langchain before 1.5 reviews calls together")
@BOTH_WAYS
def test_human_in_the_loop_outside_reviews_and_the_guard_still_asks(place: Place, asynchronous: bool) -> None:
    """Its stored approval, given before the crash, does not run the call again: the guard asks about that."""
    way: Any = {"asynchronous": asynchronous}
    graph = place.graph("create_agent", middleware=[review(REVIEW_MODES[0])])
    paused = go(graph, PAY, **way)
    assert (len(asked(paused)), place.effects("charge")) == (1, 0)
    assert asked(paused)[0]["type"] != "tool_uncertain"

    def fail() -> None:
        raise RuntimeError("the bank hung up")

    place.effects.bodies["charge"] = fail
    with pytest.raises(RuntimeError, match="hung up"):
        go(graph, Command(resume={"type": "approve"}), **way)
    assert place.effects("charge") == 1
    for saver in place._savers:
        saver.close()
    graph = place.graph("create_agent", middleware=[review(REVIEW_MODES[0])])
    paused = go(graph, None, **way)
    assert [question["type"] for question in asked(paused)] == ["tool_uncertain"]
    assert place.effects("charge") == 1
    result = go(graph, Command(resume={"type": "approve"}), **way)
    assert (told(result["messages"]), place.effects("charge")) == ({"charge-1": "charged 40 EUR"}, 2)


def test_a_decision_is_not_given_to_one_of_two_tasks(place: Place) -> None:
    """Two agents' models gave their calls the same id: whose call a decision is about has to be said."""
    question = {"type": "tool_uncertain", "calls": [{"tool_call_id": "call_0", "attempt": 1}]}
    graph = StateGraph(MessagesState)
    for name in "ab":
        graph.add_node(name, lambda _: interrupt(question) and {}).add_edge(START, name)
    asks = graph.compile(checkpointer=place.saver())
    asks.invoke(PAY, CONFIG)
    with pytest.raises(ValueError, match="2 tasks ask about a tool call 'call_0'"):
        decide(asks, CONFIG, {"call_0": {"type": "approve"}})
