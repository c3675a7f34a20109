"""Calls that a model gives no id: they are known by their tools' names, in all that is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.tools import StructuredTool

from guard.scene import CHARGE, LOOKUP, PAY, asked, build, go
from langgraph_jsonl_checkpoint import decide

if TYPE_CHECKING:
    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
AGAIN = {"messages": [("user", "did it work?")]}
ROUND = [{**LOOKUP, "id": ""}, {**CHARGE, "id": ""}]


@SHAPES
@BOTH_WAYS
def test_an_open_call_without_an_id_is_answered_with_what_is_known(
    place: Place, shape: str, asynchronous: bool
) -> None:
    """It was started, so it is not said that it never was; and it is listed once."""
    place.crash(shape, rounds=[ROUND], after=["lookup"])
    saver = place.saver()
    graph = place.graph(shape, saver=saver, rounds=[ROUND])
    calls = [(c.name, c.status) for c in saver.resume_state("t").tool_calls]
    assert sorted(calls) == [("charge", "uncertain"), ("lookup", "completed")]
    go(graph, AGAIN, asynchronous=asynchronous)
    said = {m.name: (m.text, m.tool_call_id) for m in place.model.requests[-1] if m.type == "tool"}
    assert said["lookup"] == ("order 7: 40 EUR", "")
    assert said["charge"][0].startswith("Outcome unknown: charge was started")


@SHAPES
@BOTH_WAYS
def test_what_was_decided_is_the_answer_to_a_call_without_an_id(place: Place, shape: str, asynchronous: bool) -> None:
    """It is shown with the name that it can be decided upon by, and answered with the id that it has."""
    place.crash(shape, rounds=[ROUND], after=["lookup"])
    graph = place.graph(shape, rounds=[ROUND])
    (question,) = asked(go(graph, None, asynchronous=asynchronous))
    (call,) = question["calls"]
    answer = decide(graph, {"configurable": {"thread_id": "t"}}, {call["tool_call_id"]: {"type": "reject"}})
    result = go(graph, answer, asynchronous=asynchronous)
    said = {m.name: m.tool_call_id for m in result["messages"] if m.type == "tool"}
    assert said == {"lookup": "", "charge": ""}
    assert (place.effects("charge"), place.effects("lookup")) == (1, 1)


@BOTH_WAYS
def test_each_call_without_an_id_has_its_own_tools_effect(place: Place, asynchronous: bool) -> None:
    """A sibling that only reads does not make a call harmless: who asks for it anew is asked about it."""

    def look(order: int) -> str:
        """Look an order up."""
        return "40 EUR"

    lookup = StructuredTool.from_function(look, name="lookup", metadata={"readOnlyHint": True})

    def hang_up() -> Any:
        raise RuntimeError("the bank hung up")

    saver = place.saver()
    place.graph("tool_node", rounds=[ROUND, ROUND])  # makes the model
    place.effects.bodies["charge"] = hang_up
    graph = build("tool_node", saver, [place.effects.tools[0], lookup], place.model)
    with pytest.raises(RuntimeError, match="hung up"):
        go(graph, PAY, asynchronous=asynchronous)
    other = build("tool_node", place.saver(), [place.effects.tools[0], lookup], place.model)
    (question,) = asked(go(other, AGAIN, asynchronous=asynchronous))
    assert [call["name"] for call in question["calls"]] == ["charge"]
    assert place.effects("charge") == 1
