"""An answer is taken once, by the question that it answers: an older one, and the tool's own, are no approval."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.tools import StructuredTool
from langgraph.types import Command, interrupt

from guard.scene import CHARGE, CONFIG, MAIL, PAY, asked, go, told
from langgraph_jsonl_checkpoint import SessionRecorder, ToolPolicy, decide

if TYPE_CHECKING:
    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node", "subgraph"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
APPROVE = {"type": "approve"}


def attempts(result: Any) -> list[int]:
    """The attempts that are asked about."""
    return [call["attempt"] for question in asked(result) for call in question["calls"]]


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize("attempt", [0, 1, 3])
def test_an_answer_about_another_attempt_is_asked_again(
    place: Place, shape: str, asynchronous: bool, attempt: int
) -> None:
    """Whoever looked at the first attempt has not seen the second."""
    place.crash(shape)
    place.process(shape, resumes=True)
    place.crash(shape, decisions={"charge-1": APPROVE})
    graph = place.graph(shape)
    assert attempts(go(graph, None, asynchronous=asynchronous)) == [2]
    old = Command(resume={"decisions": {"charge-1": {**APPROVE, "attempt": attempt}}})
    assert attempts(go(graph, old, asynchronous=asynchronous)) == [2]
    assert place.effects("charge") == 2
    go(graph, Command(resume={"decisions": {"charge-1": {**APPROVE, "attempt": 2}}}), asynchronous=asynchronous)
    assert place.effects("charge") == 3


@SHAPES
@BOTH_WAYS
def test_a_command_that_is_sent_twice_counts_once(place: Place, shape: str, asynchronous: bool) -> None:
    """A client that repeats its answer after a crash has not approved another attempt."""
    place.crash(shape)
    graph = place.graph(shape)
    go(graph, None, asynchronous=asynchronous)
    answer = decide(graph, CONFIG, {"charge-1": APPROVE})
    place.close()
    place.crash(shape, decisions={"charge-1": APPROVE})
    graph = place.graph(shape)
    assert attempts(go(graph, answer, asynchronous=asynchronous)) == [2]
    assert place.effects("charge") == 2


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize(
    "answer",
    [
        "approve",
        7,
        ["approve"],
        {},
        {"type": "yes"},
        {"type": "approve", "message": 7},
        {"type": "respond"},
        {"type": "respond", "message": ""},
        {"decisions": "approve"},
        {"decisions": {"mail-1": {"type": "approve"}}},
    ],
)
def test_what_cannot_be_understood_is_asked_again(
    place: Place, shape: str, asynchronous: bool, answer: Any, caplog: Any
) -> None:
    """Nothing but a decision runs the call, or ends it; a warning says once what was expected."""
    place.crash(shape)
    graph = place.graph(shape)
    go(graph, None, asynchronous=asynchronous)
    assert attempts(go(graph, Command(resume=answer), asynchronous=asynchronous)) == [1]
    assert place.effects("charge") == 1
    result = go(graph, Command(resume=APPROVE), asynchronous=asynchronous)
    assert (told(result["messages"]), place.effects("charge")) == ({"charge-1": "charged 40 EUR"}, 2)
    warnings = [r.getMessage() for r in caplog.records if r.name.endswith("agents.questions")]
    assert len(warnings) == (1 if answer != {} else 0)  # which LangGraph takes for no answer
    for warning in warnings:
        assert "about the tool calls 'charge-1' (attempt 1) does not say what is to be done" in warning
        assert '"approve" | "respond" | "reject"' in warning


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize("said", ["yes", {"type": "approve"}, {"type": "reject"}])
def test_what_the_tool_was_told_is_no_answer_to_the_guard(
    place: Place, shape: str, asynchronous: bool, said: Any, caplog: Any
) -> None:
    """The body had asked and was answered before the crash: that answer comes again, and decides nothing.

    And what decides is not what the body gets: it asks its own question again.
    """
    assert place.process(shape, asks=["charge"])["code"] == 0
    place.crash(shape, asks=["charge"], answer=said)
    assert place.effects("charge") == 1
    graph = place.graph(shape, bodies={"before charge": lambda: interrupt("charge?")})
    assert attempts(go(graph, None, asynchronous=asynchronous)) == [2]
    paused = go(graph, Command(resume=APPROVE), asynchronous=asynchronous)
    assert (asked(paused), place.effects("charge")) == (["charge?"], 1)
    result = go(graph, Command(resume="the second time"), asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR"}
    assert place.effects.lines("charge") == [str(said), "the second time"]
    assert not [r for r in caplog.records if r.name.endswith("agents.questions")]


@BOTH_WAYS
@pytest.mark.parametrize("order", [[CHARGE, MAIL], [MAIL, CHARGE]], ids=["asked first", "asked last"])
def test_in_one_task_the_guards_answer_goes_to_no_tool(place: Place, asynchronous: bool, order: Any) -> None:
    """One call of a ToolNode is uncertain, another waits in its body: each question gets its own answer."""
    place.crash("tool_node", rounds=[order], asks=["mail"], after=["mail"])
    graph = place.graph("tool_node", rounds=[order], bodies={"before mail": lambda: interrupt("mail?")})
    assert attempts(go(graph, None, asynchronous=asynchronous)) == [1]
    paused = go(graph, Command(resume=APPROVE), asynchronous=asynchronous)
    assert (asked(paused), place.effects("mail")) == (["mail?"], 0)
    result = go(graph, Command(resume="send it"), asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR", "mail-1": "mailed ann"}
    assert (place.effects("charge"), place.effects.lines("mail")) == (2, ["send it"])


@BOTH_WAYS
@pytest.mark.parametrize("order", [[CHARGE, MAIL], [MAIL, CHARGE]], ids=["asked first", "asked last"])
def test_in_one_task_the_tools_answer_goes_not_to_the_guard(place: Place, asynchronous: bool, order: Any) -> None:
    """One call was answered in its body, had its effect, and died with another that is uncertain, too."""
    assert place.process("tool_node", rounds=[order], asks={"mail": ["charge"]})["code"] == 0
    # `charge` is over; the run goes on with the answer for `mail`, which dies.
    place.crash("tool_node", "mail", rounds=[order], asks=["mail"], answer={"type": "approve"})
    assert (place.effects("charge"), place.effects("mail")) == (1, 1)
    graph = place.graph("tool_node", rounds=[order], bodies={"before mail": lambda: interrupt("mail?")})
    paused = go(graph, None, asynchronous=asynchronous)
    assert [call["tool_call_id"] for question in asked(paused) for call in question["calls"]] == ["mail-1"]
    result = go(graph, Command(resume={"type": "respond", "message": "it was sent"}), asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR", "mail-1": "it was sent"}
    assert (place.effects("charge"), place.effects("mail")) == (1, 1)


@SHAPES
@BOTH_WAYS
def test_an_approval_that_langgraph_gives_again_goes_to_no_tool(place: Place, shape: str, asynchronous: bool) -> None:
    """LangGraph keeps an answer without an interrupt's id, and gives it again behind those of a run with ids."""
    place.crash(shape)
    graph = place.graph(shape, bodies={"before charge": lambda: f"{interrupt('sure?')}, {interrupt('really?')}"})
    go(graph, None, asynchronous=asynchronous)
    paused = go(graph, Command(resume=APPROVE), asynchronous=asynchronous)
    assert asked(paused) == ["sure?"]
    (question,) = paused["__interrupt__"]
    paused = go(graph, Command(resume={question.id: "yes"}), asynchronous=asynchronous)
    assert (asked(paused), place.effects("charge")) == (["really?"], 1)
    go(graph, Command(resume="really"), asynchronous=asynchronous)
    assert place.effects.lines("charge") == ["once", "yes, really"]


@BOTH_WAYS
@pytest.mark.parametrize("order", [[CHARGE, MAIL], [MAIL, CHARGE]], ids=["asked first", "asked last"])
def test_a_tool_that_asks_does_not_end_those_beside_it(place: Place, asynchronous: bool, order: Any) -> None:
    """The run pauses when the task's other calls are over: none is cancelled in the middle, and run again unseen."""

    def settle() -> None:
        time.sleep(0.3)  # the bank is slower than the question

    graph = place.graph(
        "tool_node", rounds=[order], bodies={"before mail": lambda: interrupt("mail?"), "charge": settle}
    )
    assert asked(go(graph, PAY, asynchronous=asynchronous)) == ["mail?"]
    result = go(graph, Command(resume="send it"), asynchronous=asynchronous)
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR", "mail-1": "mailed ann"}
    assert (place.effects("charge"), place.effects.lines("mail")) == (1, ["send it"])


@SHAPES
@BOTH_WAYS
def test_an_approval_goes_to_no_tool_that_calls_a_recorded_one(place: Place, shape: str, asynchronous: bool) -> None:
    """A recorder says of a call in the task that no answers were used; those that the guard used stay used."""

    def look() -> str:
        """Look."""
        return "seen"

    def body() -> str:
        StructuredTool.from_function(look).invoke({})
        return str(interrupt("really?"))

    place.crash(shape)
    saver = place.saver()
    graph = place.graph(shape, saver=saver, bodies={"before charge": body})
    config = {**CONFIG, "callbacks": [SessionRecorder(saver, policy=ToolPolicy(read_only=["look"]))]}
    go(graph, None, config, asynchronous=asynchronous)
    paused = go(graph, decide(graph, CONFIG, {"charge-1": APPROVE}), config, asynchronous=asynchronous)
    assert (asked(paused), place.effects("charge")) == (["really?"], 1)
    go(graph, Command(resume="yes"), config, asynchronous=asynchronous)
    assert place.effects.lines("charge") == ["once", "yes"]
