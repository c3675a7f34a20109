"""The seven ways in which asking a human about an uncertain call goes wrong."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from cases.test_full_disk import files_of_at_most
from langgraph.types import Command

from guard.scene import AGENTS, CHARGE, CONFIG, LOOKUP, MAIL, NODES, PAY, Finished, asked, go, told
from langgraph_jsonl_checkpoint import ToolLogError, decide

if TYPE_CHECKING:
    from guard.conftest import Place

APPROVE, REJECT = {"type": "approve"}, {"type": "reject"}
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


def ids(result: Any) -> list[list[str]]:
    """The calls that each question of a run is about."""
    return [sorted(call["tool_call_id"] for call in question["calls"]) for question in asked(result)]


@BOTH_WAYS
@pytest.mark.parametrize("policy", [{}, {"read_only": ["lookup"]}, {"idempotent": ["lookup"]}])
def test_1_a_finished_sibling_is_given_back_and_not_run(place: Place, policy: Any, asynchronous: bool) -> None:
    """Sibling re-run: while one call of a task asks, and when it runs again, the finished one keeps its result."""
    rounds = [[LOOKUP, CHARGE]]
    place.crash("tool_node", after=["lookup"], rounds=rounds, policy=policy, way={"asynchronous": asynchronous})
    graph = place.graph("tool_node", rounds=rounds, policy=policy)
    assert ids(go(graph, None, asynchronous=asynchronous)) == [["charge-1"]]
    assert (place.effects("lookup"), place.effects("charge")) == (1, 1)
    result = go(graph, Command(resume=APPROVE), asynchronous=asynchronous)
    assert told(result["messages"]) == {"lookup-1": "order 7: 40 EUR", "charge-1": "charged 40 EUR"}
    assert (place.effects("lookup"), place.effects("charge")) == (1, 2)


@BOTH_WAYS
@pytest.mark.parametrize("shape", ["tool_node", "create_agent"])
def test_2_each_call_gets_the_answer_that_was_given_for_it(place: Place, shape: str, asynchronous: bool) -> None:
    """Crossed answers: a task asks once for all its calls, and each answer names its call."""
    rounds = [[CHARGE, MAIL]]
    place.crash(shape, "charge", "mail", rounds=rounds, way={"asynchronous": asynchronous})
    graph = place.graph(shape, rounds=rounds)
    questions = ids(go(graph, None, asynchronous=asynchronous))
    assert sorted(questions) == ([["charge-1"], ["mail-1"]] if shape == "create_agent" else [["charge-1", "mail-1"]])
    decisions = {
        "mail-1": {"type": "respond", "message": "the mail is there"},
        "charge-1": {"type": "respond", "message": "the card is charged"},
    }
    result = go(graph, decide(graph, CONFIG, decisions), asynchronous=asynchronous)
    assert told(result["messages"]) == {"mail-1": "the mail is there", "charge-1": "the card is charged"}
    assert (place.effects("charge"), place.effects("mail")) == (1, 1)


@BOTH_WAYS
@pytest.mark.parametrize("shape", ["tool_node", "create_agent", "subgraph"])
@pytest.mark.parametrize("given", ["answer", "decisions"])
def test_3_an_answer_is_used_once(place: Place, shape: str, asynchronous: bool, given: str) -> None:
    """Stale answer: killed in the approved attempt, the next run finds the approval again, and asks all the same."""
    way = {"asynchronous": asynchronous}
    place.crash(shape, way=way)
    assert place.process(shape, resumes=True, way=way)["code"] == 0
    # The bare answer, or one that says which attempt it is about.
    place.crash(shape, way=way, **({"answer": APPROVE} if given == "answer" else {given: {"charge-1": APPROVE}}))
    assert place.effects("charge") == 2
    graph = place.graph(shape)
    (question,) = asked(go(graph, None, asynchronous=asynchronous))
    assert [call["attempt"] for call in question["calls"]] == [2]
    assert place.effects("charge") == 2
    result = go(graph, Command(resume={"type": "respond", "message": "two charges"}), asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": "two charges"}
    assert place.effects("charge") == 2


@BOTH_WAYS
@pytest.mark.parametrize("shape", ["tool_node", "create_agent", "subgraph"])
def test_4_a_call_whose_message_was_lost_is_asked_about(place: Place, shape: str, asynchronous: bool) -> None:
    """New call id: nothing but the log of calls survived; the model asks again, under another id."""
    place.crash(shape, fresh_ids=True, way={"asynchronous": asynchronous, "durability": "exit"})
    saver = place.saver()
    (lost,) = saver.uncertain("t")
    assert (lost.name, lost.args, lost.attempt) == ("charge", {"euros": 40}, 1)
    graph = place.graph(shape, saver=saver, fresh_ids=True)
    (question,) = asked(go(graph, PAY, asynchronous=asynchronous))
    (call,) = question["calls"]
    assert call["tool_call_id"] != lost.tool_call_id
    assert (call["name"], call["args"], place.effects("charge")) == ("charge", {"euros": 40}, 1)
    result = go(graph, Command(resume=REJECT), asynchronous=asynchronous)
    assert told(result["messages"])[call["tool_call_id"]].startswith("Outcome unknown")
    assert (place.effects("charge"), saver.uncertain("t")) == (1, ())


@BOTH_WAYS
@pytest.mark.parametrize("shape", ["tool_node", "create_agent", "subgraph"])
def test_5_a_call_that_raised_is_asked_about(place: Place, shape: str, asynchronous: bool) -> None:
    """Failed is not safe: a tool that raised may have had its effect, so another process does not just run it."""
    assert place.process(shape, raises=["charge"], way={"asynchronous": asynchronous})["code"] == 1
    graph = place.graph(shape)
    (question,) = asked(go(graph, None, asynchronous=asynchronous))
    assert "the bank hung up" in question["calls"][0]["description"]
    assert place.effects("charge") == 1
    result = go(graph, Command(resume=APPROVE), asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR"}
    assert place.effects("charge") == 2


class FullDisk(Finished):
    """The disk is full from the first tool call on."""

    def __init__(self, place: Place, room: contextlib.ExitStack) -> None:
        super().__init__()
        self._place, self._room = place, room

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Fill it, and run the call."""
        self._room.enter_context(files_of_at_most(self._place.log.stat().st_size))
        return super().wrap_tool_call(request, handler)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """The same in an event loop."""
        self._room.enter_context(files_of_at_most(self._place.log.stat().st_size))
        return await super().awrap_tool_call(request, handler)


@BOTH_WAYS
@pytest.mark.parametrize("shape", [*AGENTS, *NODES, "subgraph"])
def test_6_a_call_that_cannot_be_recorded_stops_the_run(place: Place, shape: str, asynchronous: bool) -> None:
    """Swallowed storage errors: no handler, retry or model gets it; with room the call, never started, runs."""
    way: Any = {"asynchronous": asynchronous, "durability": "sync"}
    with contextlib.ExitStack() as room:
        graph = place.graph(shape, finished=FullDisk(place, room))
        with pytest.raises(ToolLogError, match="File too large") as stopped:
            go(graph, PAY, **way)
        assert isinstance(stopped.value.__cause__, OSError)
        assert (len(place.model.requests), place.effects("charge")) == (1, 0)
    (call,) = place.saver().resume_state("t").tool_calls
    assert (call.tool_call_id, call.status, call.attempt) == ("charge-1", "pending", 0)
    result = go(place.graph(shape), None, **way)
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR"}
    assert (len(place.model.requests), place.effects("charge")) == (1, 1)


@BOTH_WAYS
@pytest.mark.parametrize("shape", ["tool_node", "create_agent"])
def test_7_a_fork_runs_its_calls_and_a_resume_does_not(place: Place, shape: str, asynchronous: bool) -> None:
    """Forks: the task is a part of a call's key, so the same tool_call_id in another task is another call."""
    graph = place.graph(shape)
    go(graph, PAY, asynchronous=asynchronous)
    before = next(state for state in graph.get_state_history(CONFIG) if state.next == ("tools",))
    asking = before.values["messages"][-1]
    fork = graph.update_state(
        before.config, {"messages": [asking]}, as_node="model" if shape == "create_agent" else "agent"
    )
    assert place.effects("charge") == 1
    go(graph, None, fork, asynchronous=asynchronous)
    assert place.effects("charge") == 2
    go(graph, None, before.config, asynchronous=asynchronous)
    assert place.effects("charge") == 3
    go(graph, None, asynchronous=asynchronous)
    assert place.effects("charge") == 3
