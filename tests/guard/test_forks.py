"""Forks and time travel run tools again; a resume does not; a crash that no hook saw is asked about by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import Command

from guard.scene import CHARGE, CONFIG, LOOKUP, PAY, asked, go, told

if TYPE_CHECKING:
    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


def before_tools(graph: Any) -> Any:
    """The checkpoint that leads to the tools."""
    return next(state for state in graph.get_state_history(CONFIG) if state.next and set(state.next) == {"tools"})


@SHAPES
@BOTH_WAYS
def test_time_travel_runs_finished_calls_again(place: Place, shape: str, asynchronous: bool) -> None:
    """Each time, and nobody is asked: whoever goes back wants what follows anew."""
    graph = place.graph(shape)
    go(graph, PAY, asynchronous=asynchronous)
    for times in (2, 3):
        result = go(graph, None, before_tools(graph).config, asynchronous=asynchronous)
        assert (asked(result), place.effects("charge")) == ([], times)


@SHAPES
@BOTH_WAYS
def test_a_resume_runs_no_finished_call_again(place: Place, shape: str, asynchronous: bool) -> None:
    """The same task: what has a result is given back, as often as the thread is resumed."""
    rounds = [[LOOKUP, CHARGE]]
    place.crash(shape, after=["lookup"], rounds=rounds)
    for _ in range(3):
        graph = place.graph(shape, rounds=rounds)
        assert len(asked(go(graph, None, asynchronous=asynchronous))) == 1
        place.close()
    assert (place.effects("lookup"), place.effects("charge")) == (1, 1)


@SHAPES
@BOTH_WAYS
def test_a_fork_of_an_uncertain_call_is_asked_about(place: Place, shape: str, asynchronous: bool) -> None:
    """The fork would have the effect that may be there already; decided upon there, it is decided."""
    place.crash(shape)
    saver = place.saver()
    graph = place.graph(shape, saver=saver)
    asking = before_tools(graph)
    node = "model" if shape == "create_agent" else "agent"
    fork = graph.update_state(asking.config, {"messages": [asking.values["messages"][-1]]}, as_node=node)
    (question,) = asked(go(graph, None, fork, asynchronous=asynchronous))
    assert [(c["tool_call_id"], c["attempt"]) for c in question["calls"]] == [("charge-1", 0)]
    assert place.effects("charge") == 1
    result = go(graph, Command(resume={"type": "respond", "message": "it is paid"}), asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": "it is paid"}
    assert (place.effects("charge"), saver.uncertain("t")) == (1, ())


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize(
    ("decision", "charges", "answer"),
    [("approve", 2, "charged 40 EUR"), ("respond", 1, "said"), ("reject", 1, "Outcome unknown")],
)
def test_a_crash_that_no_hook_saw_is_asked_about(
    place: Place, shape: str, asynchronous: bool, decision: str, charges: int, answer: str
) -> None:
    """Nobody recorded whether the call was started, so it may have been; it is asked about until somebody answers."""
    place.crash(shape, hook=False, way={"durability": "sync"})
    saver = place.saver()
    assert [call.tool_call_id for call in saver.uncertain("t")] == ["charge-1"]
    graph = place.graph(shape, saver=saver)
    for _ in range(2):
        (question,) = asked(go(graph, None, asynchronous=asynchronous))
        (call,) = question["calls"]
        assert (call["tool_call_id"], call["args"], call["attempt"]) == ("charge-1", {"euros": 40}, 0)
        assert [call.tool_call_id for call in saver.uncertain("t")] == ["charge-1"]
    assert place.effects("charge") == 1
    result = go(graph, Command(resume={"type": decision, "message": "said"}), asynchronous=asynchronous)
    assert told(result["messages"])["charge-1"].startswith(answer)
    assert place.effects("charge") == charges


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize(("kind", "charges"), [("approve", 2), ("respond", 1)])
def test_a_crash_that_no_hook_saw_can_be_decided_from_outside(
    place: Place, shape: str, asynchronous: bool, kind: str, charges: int
) -> None:
    """`resolve` knows the call from the messages alone; the hook then asks nobody."""
    place.crash(shape, hook=False, way={"durability": "sync"})
    saver = place.saver()
    saver.resolve("t", "charge-1", {"type": kind, "message": "said"})
    assert saver.uncertain("t") == ()
    result = go(place.graph(shape, saver=saver), None, asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR" if kind == "approve" else "said"}
    assert place.effects("charge") == charges


@SHAPES
def test_a_pause_that_no_hook_saw_is_not_asked_about(place: Place, shape: str) -> None:
    """Stopped before the tools by its caller, in a process that ended in good order: the call was never started."""
    saver = place.saver()
    graph = place.graph(shape, saver=saver, hook=False)
    go(graph, PAY, interrupt_before=["tools"])
    saver.close()
    result = go(place.graph(shape), None)
    assert (told(result["messages"]), place.effects("charge")) == ({"charge-1": "charged 40 EUR"}, 1)
