"""A user writes after a crash instead of resuming: the model, and only it, gets an answer for each open call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import interrupt

from guard.scene import CHARGE, CONFIG, LOOKUP, MAIL, PAY, REVIEW_MODES, asked, go, review, told
from langgraph_jsonl_checkpoint import decide

if TYPE_CHECKING:
    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
AGAIN = {"messages": [("user", "did it work?")]}
ROUND = [LOOKUP, CHARGE, MAIL]
ANSWERS = {
    "lookup-1": "order 7: 40 EUR",
    "charge-1": "Outcome unknown: charge was started and its end was not recorded. "
    "It may or may not have had its effect.",
    "mail-1": "mail was never started.",
}


def shown(messages: Any) -> list[tuple[str, str]]:
    """The conversation that a model sees, without system messages."""
    return [(m.type, getattr(m, "tool_call_id", "") or m.text) for m in messages if m.type != "system"]


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("policy", [{}, {"read_only": ["lookup"]}])
def test_each_open_call_is_answered_in_the_request(
    place: Place, shape: str, asynchronous: bool, memory: bool, policy: Any
) -> None:
    """Directly behind the message that asks for it: done, with its result; outcome unknown; never started."""
    place.crash(shape, rounds=[ROUND], after=["lookup"], keeps=["mail"], policy=policy)
    saver = place.saver(restore_memory="never")
    graph = place.graph(shape, saver=saver, rounds=[ROUND], memory=memory, policy=policy)
    for turn in (1, 2):  # the state keeps the open calls, so each request has the answers
        result = go(graph, AGAIN, asynchronous=asynchronous)
        (request,) = place.model.requests
        place.model.requests.clear()
        said = [("human", "did it work?"), ("ai", "done")] * turn
        assert shown(request) == [
            ("human", "please pay order 7"), ("ai", ""),
            ("tool", "lookup-1"), ("tool", "charge-1"), ("tool", "mail-1"),
            *said[:-1],
        ]  # fmt: skip
        assert told(request) == ANSWERS
        assert [m.status for m in request if m.type == "tool"] == ["success", "error", "error"]
        assert any(m.type == "system" for m in request) == memory
        assert shown(result["messages"]) == [("human", "please pay order 7"), ("ai", ""), *said]
        assert shown(graph.get_state(CONFIG).values["messages"]) == shown(result["messages"])
    assert [place.effects(tool) for tool in ("lookup", "charge", "mail")] == [1, 1, 0]


@SHAPES
@BOTH_WAYS
def test_an_open_call_is_not_answered_with_what_its_id_stood_for_before(
    place: Place, shape: str, asynchronous: bool
) -> None:
    """The same tool, the same arguments, the same id: one ended, one was never started, and each is told so."""
    graph = place.graph(shape, rounds=[[CHARGE], [CHARGE]])
    for given in (PAY, None):  # the first call runs, the second is left
        go(graph, given, asynchronous=asynchronous, interrupt_before=["tools"])
    place.model.requests.clear()
    go(graph, AGAIN, asynchronous=asynchronous)
    said = [m.text for m in place.model.requests[-1] if m.type == "tool"]
    assert said == ["charged 40 EUR", "charge was never started."]
    assert place.effects("charge") == 1


@SHAPES
@BOTH_WAYS
def test_two_open_calls_with_one_id_have_an_answer_each(place: Place, shape: str, asynchronous: bool) -> None:
    """Left by two inputs, one after the other: nobody knows what one did, and the other was never started."""
    place.crash(shape, rounds=[[CHARGE], [CHARGE]])
    graph = place.graph(shape, rounds=[[CHARGE], [CHARGE]])
    go(graph, AGAIN, asynchronous=asynchronous, interrupt_before=["tools"])
    place.model.requests.clear()
    go(graph, AGAIN, asynchronous=asynchronous)
    said = [m.text for m in place.model.requests[-1] if m.type == "tool"]
    assert said == [ANSWERS["charge-1"], "charge was never started."]
    assert place.effects("charge") == 1


@SHAPES
@BOTH_WAYS
def test_a_call_that_raised_is_answered_with_its_error(place: Place, shape: str, asynchronous: bool) -> None:
    """With side effects its outcome is unknown all the same; what only reads failed."""
    assert place.process(shape, raises=["charge"])["code"] == 1
    go(place.graph(shape), AGAIN, asynchronous=asynchronous)
    assert told(place.model.requests[-1]) == {
        "charge-1": "Outcome unknown: charge was started and raised an error (RuntimeError: the bank hung up). "
        "It may or may not have had its effect."
    }


@SHAPES
@BOTH_WAYS
def test_a_read_only_call_that_raised_has_failed(place: Place, shape: str, asynchronous: bool) -> None:
    """It changed nothing: its error is all there is to say."""
    assert place.process(shape, raises=["charge"], policy={"read_only": ["charge"]})["code"] == 1
    go(place.graph(shape, policy={"read_only": ["charge"]}), AGAIN, asynchronous=asynchronous)
    assert told(place.model.requests[-1]) == {"charge-1": "charge failed: RuntimeError: the bank hung up"}


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize("kind", ["respond", "reject"])
def test_a_decision_from_outside_is_the_answer(place: Place, shape: str, asynchronous: bool, kind: str) -> None:
    """Decided upon before the user wrote: the model is told so."""
    place.crash(shape)
    saver = place.saver()
    saver.resolve("t", "charge-1", {"type": kind, "message": "it is paid"})
    go(place.graph(shape, saver=saver), AGAIN, asynchronous=asynchronous)
    (said,) = told(place.model.requests[-1]).values()
    assert said == "it is paid" if kind == "respond" else said.endswith("A human says: it is paid")
    assert place.effects("charge") == 1


@SHAPES
@BOTH_WAYS
def test_a_crash_that_no_hook_saw_is_answered_too(place: Place, shape: str, asynchronous: bool) -> None:
    """Nothing is recorded: the outcome is unknown, and not "never started"."""
    place.crash(shape, hook=False, way={"durability": "sync"})
    go(place.graph(shape), AGAIN, asynchronous=asynchronous)
    assert told(place.model.requests[-1])["charge-1"].startswith("Outcome unknown")


@SHAPES
@BOTH_WAYS
def test_a_call_that_waits_in_its_body_stays_open(place: Place, shape: str, asynchronous: bool) -> None:
    """A human may still answer it: nothing is said about it, and the finished sibling's result is given back."""
    rounds = [[LOOKUP, CHARGE]]
    graph = place.graph(shape, rounds=rounds, bodies={"before charge": lambda: interrupt("charge?")})
    assert asked(go(graph, PAY, asynchronous=asynchronous)) == ["charge?"]
    place.model.requests.clear()
    go(graph, AGAIN, asynchronous=asynchronous)
    assert told(place.model.requests[-1]) == {"lookup-1": "order 7: 40 EUR"}


@BOTH_WAYS
@pytest.mark.parametrize("mode", REVIEW_MODES)
def test_a_call_that_is_reviewed_stays_open(place: Place, asynchronous: bool, mode: Any) -> None:
    """HumanInTheLoopMiddleware asks before the guard sees the call."""
    graph = place.graph("create_agent", middleware=[review(mode)])
    assert len(asked(go(graph, PAY, asynchronous=asynchronous))) == 1
    place.model.requests.clear()
    go(graph, AGAIN, asynchronous=asynchronous)
    assert told(place.model.requests[-1]) == {}
    assert place.effects("charge") == 0


@SHAPES
@BOTH_WAYS
def test_an_uncertain_call_that_is_being_asked_about(place: Place, shape: str, asynchronous: bool) -> None:
    """Asked, and the user writes something else: the model hears that the outcome is unknown; nothing runs."""
    place.crash(shape)
    saver = place.saver()
    graph = place.graph(shape, saver=saver)
    assert len(asked(go(graph, None, asynchronous=asynchronous))) == 1
    go(graph, AGAIN, asynchronous=asynchronous)
    assert told(place.model.requests[-1]) == {"charge-1": ANSWERS["charge-1"]}
    assert place.effects("charge") == 1
    assert [call.tool_call_id for call in saver.uncertain("t")] == ["charge-1"]


@SHAPES
@BOTH_WAYS
def test_a_call_that_never_started_is_answered_whatever_waited_since(
    place: Place, shape: str, asynchronous: bool
) -> None:
    """A question about another call, asked later and answered: without an answer a provider refuses each request."""
    later = [{**CHARGE, "id": "charge-2"}, {**MAIL, "id": "mail-2"}]
    rounds = [[CHARGE, MAIL], later]
    place.crash(shape, rounds=rounds, keeps=["mail"])
    graph = place.graph(shape, rounds=rounds)
    assert len(asked(go(graph, AGAIN, asynchronous=asynchronous))) == 1
    place.model.requests.clear()
    go(graph, decide(graph, CONFIG, {"charge-2": {"type": "approve"}}), asynchronous=asynchronous)
    assert told(place.model.requests[-1]).keys() == {"charge-1", "mail-1", "charge-2", "mail-2"}
    assert told(place.model.requests[-1])["mail-1"] == ANSWERS["mail-1"]
