"""A new request with the tool and arguments of an uncertain call: a decision about that one is not its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph

from guard.scene import CHARGE, CONFIG, MAIL, asked, go, told
from langgraph_jsonl_checkpoint import SessionRecorder, UncertainToolCallError, decide

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
DECISIONS = pytest.mark.parametrize("kind", ["approve", "respond", "reject"])
SECOND = {"messages": [("user", "now charge ann for a second lamp, too")]}
ROUNDS = [[CHARGE], [{**CHARGE, "id": "charge-2"}]]


@SHAPES
@BOTH_WAYS
@DECISIONS
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_an_old_decision_is_not_the_result_of_a_new_request(
    place: Place, shape: str, asynchronous: bool, kind: str, durability: Any
) -> None:
    """The model was told what was decided about the old call, and means the new one: a human is asked, once."""
    place.crash(shape)
    saver = place.saver()
    saver.resolve("t", "charge-1", {"type": kind, "message": "receipt 1"})
    graph = place.graph(shape, saver=saver, rounds=ROUNDS)
    (question,) = asked(go(graph, SECOND, asynchronous=asynchronous, durability=durability))
    (call,) = question["calls"]
    assert (call["tool_call_id"], f"decided then: {kind}: receipt 1" in call["description"]) == ("charge-2", True)
    assert place.effects("charge") == 1
    answer = decide(graph, CONFIG, {"charge-2": {"type": "approve"}})
    result = go(graph, answer, asynchronous=asynchronous, durability=durability)
    assert (told(result["messages"]), place.effects("charge")) == ({"charge-2": "charged 40 EUR"}, 2)


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize(("on_uncertain", "effects"), [("report", 1), ("replay", 2)])
def test_a_new_request_follows_the_policy(
    place: Place, shape: str, asynchronous: bool, on_uncertain: Any, effects: int
) -> None:
    """Where nobody is asked the model is told that the outcome is unknown, or the tool runs."""
    place.crash(shape)
    saver = place.saver()
    saver.resolve("t", "charge-1", {"type": "respond", "message": "receipt 1"})
    graph = place.graph(shape, saver=saver, rounds=ROUNDS, on_uncertain=on_uncertain)
    said = told(go(graph, SECOND, asynchronous=asynchronous)["messages"])["charge-2"]
    assert "receipt 1" not in said
    assert (said == "charged 40 EUR", place.effects("charge")) == (effects == 2, effects)


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("on_uncertain", ["interrupt", "report"])
def test_an_old_result_is_not_the_result_of_a_new_request(
    place: Place, shape: str, asynchronous: bool, durability: Any, on_uncertain: Any
) -> None:
    """The process died beside a call that was over: the model was told its result, nothing is uncertain of it."""
    place.crash(shape, "mail", rounds=[[CHARGE, MAIL]], after=["charge"])
    graph = place.graph(shape, rounds=[[CHARGE, MAIL], *ROUNDS[1:]], on_uncertain=on_uncertain)
    result = go(graph, SECOND, asynchronous=asynchronous, durability=durability)
    assert told(place.model.requests[0])["charge-1"] == "charged 40 EUR"
    assert (told(result["messages"])["charge-2"], place.effects("charge")) == ("charged 40 EUR", 2)


@SHAPES
@BOTH_WAYS
@DECISIONS
def test_an_old_decision_holds_for_a_call_whose_message_was_lost(
    place: Place, shape: str, asynchronous: bool, kind: str
) -> None:
    """Nothing of the crashed run was stored: the user asks again, and the decision is about that very request."""
    place.crash(shape, way={"durability": "exit"})
    saver = place.saver()
    saver.resolve("t", "charge-1", {"type": kind, "message": "receipt 1"})
    graph = place.graph(shape, saver=saver, rounds=ROUNDS[1:])
    result = go(graph, SECOND, asynchronous=asynchronous)
    assert (asked(result), place.effects("charge")) == ([], 2 if kind == "approve" else 1)
    assert ("receipt 1" in told(result["messages"])["charge-2"]) == (kind != "approve")


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize("before", [False, True], ids=["decided once", "decided anew"])
def test_a_decision_that_follows_the_new_request_holds_for_it(
    place: Place, shape: str, asynchronous: bool, before: bool
) -> None:
    """Whoever decides about the old call, when he is asked about the new one, has seen that."""
    place.crash(shape)
    saver = place.saver()
    if before:
        saver.resolve("t", "charge-1", {"type": "reject"})
    graph = place.graph(shape, saver=saver, rounds=ROUNDS)
    assert len(asked(go(graph, SECOND, asynchronous=asynchronous))) == 1
    saver.resolve("t", "charge-1", {"type": "respond", "message": "one receipt for both"})
    with pytest.raises(ValueError, match="not uncertain"):
        saver.resolve("t", "charge-1", {"type": "approve"})
    result = go(graph, None, asynchronous=asynchronous)
    assert (asked(result), told(result["messages"])["charge-2"]) == ([], "one receipt for both")
    assert place.effects("charge") == 1


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_recorder_names_a_call_that_can_be_decided_upon(place: Place, durability: Any) -> None:
    """It stops at a new request until somebody decides about the old call anew, and then it runs."""

    def charge(euros: int) -> str:
        """Charge the card."""
        return place.effects._have("charge", f"charged {euros} EUR")

    tool = StructuredTool.from_function(charge)

    def tools(state: MessagesState, config: RunnableConfig) -> Any:
        return {
            "messages": [tool.invoke({**c, "type": "tool_call"}, config) for c in state["messages"][-1].tool_calls]
        }

    def agent(_: MessagesState) -> Any:
        return {"messages": [AIMessage("", tool_calls=ROUNDS[1])]}

    place.crash("tool_node", records=True, hook=False)
    saver = place.saver()
    saver.resolve("t", "charge-1", {"type": "reject"})
    built = StateGraph(MessagesState).add_node(agent).add_node(tools)
    graph = built.add_edge(START, "agent").add_edge("agent", "tools").compile(checkpointer=saver)
    config = {**CONFIG, "callbacks": [SessionRecorder(saver)]}
    with pytest.raises(UncertainToolCallError, match=r"resolve\('t', 'charge-1'"):
        go(graph, SECOND, config, durability=durability)
    saver.resolve("t", "charge-1", {"type": "approve"})
    result = go(graph, None, config, durability=durability)
    assert (told(result["messages"])["charge-2"], place.effects("charge")) == ("charged 40 EUR", 2)
