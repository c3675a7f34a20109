"""A result of an uncertain call that somebody puts into the state with `update_state`: it decides about the call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import ToolMessage

from guard.scene import CHARGE, CONFIG, PAY, asked, go, told
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
AGAIN = {**CHARGE, "id": "charge-2"}
RESULT = ToolMessage("the bank has it", tool_call_id="charge-1", name="charge")


def update(graph: Any, messages: list[Any], node: str, *, asynchronous: bool) -> None:
    """Change the state by hand, as if a node had returned the messages."""
    if asynchronous:
        asyncio.run(graph.aupdate_state(CONFIG, {"messages": messages}, as_node=node))
    else:
        graph.update_state(CONFIG, {"messages": messages}, as_node=node)


def known(place: Place) -> tuple[list[str], str]:
    """What another saver takes for uncertain, and its memory of the session."""
    with JsonlSaver(place.root / "sessions") as saver:
        return [call.tool_call_id for call in saver.uncertain("t")], str(saver.session_memory("t"))


@SHAPES
@BOTH_WAYS
def test_a_result_that_is_put_into_the_state_decides(place: Place, shape: str, asynchronous: bool) -> None:
    """Nobody is asked about the call, nor about another one like it that the model makes then."""
    place.crash(shape)
    assert known(place)[0] == ["charge-1"]
    graph = place.graph(shape, rounds=[[CHARGE], [AGAIN]])
    update(graph, [RESULT], "tools", asynchronous=asynchronous)
    uncertain, memory = known(place)
    assert uncertain == []
    assert "the bank has it" in memory
    assert "may have had" not in memory
    assert "outcome unknown" not in memory.lower()
    result = go(graph, None, asynchronous=asynchronous)
    assert asked(result) == []
    assert told(result["messages"]) == {"charge-1": "the bank has it", "charge-2": "charged 40 EUR"}
    assert place.effects("charge") == 2


@SHAPES
@BOTH_WAYS
def test_another_change_of_the_state_decides_nothing(place: Place, shape: str, asynchronous: bool) -> None:
    """A note to the model, and the result of a call of an earlier turn that had the same id."""
    graph = place.graph(shape, rounds=[[CHARGE]])
    go(graph, PAY)
    place.close()
    place.crash(shape, rounds=[[CHARGE], [CHARGE]])
    assert known(place)[0] == ["charge-1"]
    graph = place.graph(shape, rounds=[[CHARGE], [CHARGE]])
    update(graph, [("user", "be careful")], "__start__", asynchronous=asynchronous)
    assert known(place)[0] == ["charge-1"]
