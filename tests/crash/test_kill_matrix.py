"""Killed before, in or behind a tool with a side effect: however its thread goes on, nothing runs twice unseen."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from crash.scene import ARGS, RESULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from crash.conftest import Run, Session

SHAPES = ["create_agent", "tool_node", "subgraph"]
DURABILITIES = ["sync", "async", "exit"]
# Where charge_card's process dies, and how often it has charged by then.
PLACES = {"requested": 0, "started": 0, "charged": 1, "returned": 1}
WAYS = ["invoke", "ainvoke", "message"]

BEGIN = "please pay order 7"
AGAIN = "did it work?"
UNKNOWN = "outcome unknown"
CHARGED = RESULTS["charge_card"].lower()


def go_on(session: Session, durability: str, way: str) -> Run:
    """A new process goes on; where nothing is stored the thread's id is not enough, and the user has to speak."""
    if way == "message":
        return session.run(AGAIN)
    if durability != "exit":
        return session.run()
    charged = session.effects("charge_card")
    assert session.run().kinds == ["nothing stored"]
    assert session.effects("charge_card") == charged
    return session.run(AGAIN)


def question(run: Run, attempt: int = 1) -> str:
    """The id of the one call that the run asks about: charge_card, at this attempt of this call."""
    assert run.kinds[-1] == "asked"
    ((call_id, call),) = run.asked.items()
    assert (call["name"], call["args"], call["attempt"]) == ("charge_card", ARGS["charge_card"], attempt)
    return call_id


def says(run: Run, answer: str) -> bool:
    """Whether the model was told this of charge_card, and what lookup found."""
    assert run.kinds[-1] == "end"
    assert RESULTS["lookup"] in run.told["lookup"]
    return answer in run.told["charge_card"].lower()


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_thread_that_goes_on_by_its_id_charges_once(
    start: Callable[..., Session], shape: str, durability: str, place: str, way: str
) -> None:
    """A call never started runs, a recorded result is taken, and what may have happened is for a human to say."""
    session = start(shape, durability, asynchronous=way == "ainvoke")
    session.run(BEGIN, place=place)
    assert (session.effects("charge_card"), session.effects("lookup")) == (PLACES[place], 1)
    run = session.run()
    if place in ("started", "charged"):
        assert "model" not in run.kinds
        run = session.run(decisions={question(run): {"type": "reject", "message": ""}})
        assert says(run, UNKNOWN)
        assert session.effects("charge_card") == PLACES[place]
    else:
        assert says(run, CHARGED)
        assert session.effects("charge_card") == 1
    assert session.effects("lookup") == 1


@pytest.mark.parametrize("asynchronous", [False, True], ids=["message", "amessage"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
def test_a_message_after_the_crash_gets_true_answers_beside_it(
    start: Callable[..., Session], shape: str, durability: str, place: str, asynchronous: bool
) -> None:
    """A user who writes instead of resuming starts no tool; the model is told what the log knows of each call."""
    session = start(shape, durability, asynchronous=asynchronous)
    session.run(BEGIN, place=place)
    run = session.run(AGAIN)
    assert run.kinds == ["model", "end"]
    answer = {"requested": "never started", "returned": CHARGED}.get(place, UNKNOWN)
    assert says(run, answer)
    assert (session.effects("charge_card"), session.effects("lookup")) == (PLACES[place], 1)


# Where the model's request is lost, so that it asks again under new ids: `exit` had stored nothing; and a subgraph
# gives its messages to its parent when it ends, so that a new message starts it anew.
LOST = [*itertools.product(SHAPES, ["exit"], WAYS), ("subgraph", "sync", "message"), ("subgraph", "async", "message")]


@pytest.mark.parametrize("place", ["started", "charged"])
@pytest.mark.parametrize(("shape", "durability", "way"), LOST)
def test_a_call_that_is_asked_for_anew_is_asked_about_first(
    start: Callable[..., Session], shape: str, durability: str, place: str, way: str
) -> None:
    """A new call equal to one that may have had its effect is not run before a human says so."""
    session = start(shape, durability, asynchronous=way == "ainvoke")
    session.run(BEGIN, place=place)
    run = go_on(session, durability, way)
    assert session.effects("charge_card") == PLACES[place]
    run = session.run(decisions={question(run, 0): {"type": "reject", "message": ""}})
    assert says(run, UNKNOWN)
    assert session.effects("charge_card") == PLACES[place]


@pytest.mark.parametrize(("shape", "durability", "way"), LOST)
def test_a_call_that_was_never_started_runs_when_it_is_asked_for_anew(
    start: Callable[..., Session], shape: str, durability: str, way: str
) -> None:
    """Equal arguments alone are no reason to ask."""
    session = start(shape, durability, asynchronous=way == "ainvoke")
    session.run(BEGIN, place="requested")
    assert says(go_on(session, durability, way), CHARGED)
    assert session.effects("charge_card") == 1


@pytest.mark.parametrize(("shape", "durability", "way"), LOST)
def test_a_result_that_nobody_saw_is_no_reason_to_run_again(
    start: Callable[..., Session], shape: str, durability: str, way: str
) -> None:
    """A new call equal to one that ended, and whose result was lost with its process, is asked about as well."""
    session = start(shape, durability, asynchronous=way == "ainvoke")
    session.run(BEGIN, place="returned")
    run = go_on(session, durability, way)
    assert session.effects("charge_card") == 1
    run = session.run(decisions={question(run, 0): {"type": "reject", "message": ""}})
    assert says(run, CHARGED)
    assert session.effects("charge_card") == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_an_approval_is_for_one_attempt(start: Callable[..., Session], shape: str, durability: str, way: str) -> None:
    """Killed in the approved attempt, a call is asked about again: the stored approval is spent."""
    session = start(shape, durability, asynchronous=way == "ainvoke")
    session.run(BEGIN, place="charged")
    asked = go_on(session, durability, "invoke")
    assert session.effects("charge_card") == 1
    # Under `exit` the model has asked anew: this call was not started yet.
    attempt = 0 if durability == "exit" else 1
    session.run(decisions={question(asked, attempt): {"type": "approve", "message": ""}}, place="charged")
    assert session.effects("charge_card") == 2
    run = session.run(AGAIN) if way == "message" else session.run()
    if way != "message" or shape == "subgraph":
        attempt = 0 if way == "message" else attempt + 1
        decision = {"type": "respond", "message": "One charge was given back."}
        run = session.run(decisions={question(run, attempt): decision})
        assert says(run, "one charge was given back.")
    else:
        assert says(run, UNKNOWN)
    assert session.effects("charge_card") == 2


@pytest.mark.parametrize(
    ("decision", "charges", "answer"),
    [("approve", 2, CHARGED), ("respond", 1, "paid"), ("reject", 1, UNKNOWN)],
)
@pytest.mark.parametrize("durability", ["async", "exit"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_model_is_told_what_the_human_decided(
    start: Callable[..., Session], shape: str, durability: str, decision: str, charges: int, answer: str
) -> None:
    """An approval makes it exactly one more; the other decisions run nothing."""
    session = start(shape, durability)
    session.run(BEGIN, place="charged")
    asked = go_on(session, durability, "invoke")
    attempt = 0 if durability == "exit" else 1
    run = session.run(decisions={question(asked, attempt): {"type": decision, "message": "The bank says: paid."}})
    assert says(run, answer)
    assert session.effects("charge_card") == charges


@pytest.mark.parametrize("lookup", ["side_effects", "idempotent"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_finished_sibling_is_not_run_again(
    start: Callable[..., Session], shape: str, durability: str, place: str, lookup: str
) -> None:
    """What is recorded as done is taken as done, and nobody is asked about it, whatever class it is of."""
    session = start(shape, durability, lookup=lookup)
    session.run(BEGIN, place=place)
    run = session.run()
    if place in ("started", "charged"):
        run = session.run(decisions={question(run): {"type": "reject", "message": ""}})
    assert run.kinds[-1] == "end"
    assert run.told["lookup"] == RESULTS["lookup"]
    assert session.effects("lookup") == 1


@pytest.mark.parametrize(("shape", "durability", "way"), [case for case in LOST if case[2] != "ainvoke"])
def test_a_finished_sibling_that_is_asked_for_anew_is_asked_about_with_the_other(
    start: Callable[..., Session], shape: str, durability: str, way: str
) -> None:
    """One that has side effects, ended, and whose result no model saw, does not run again unseen either."""
    session = start(shape, durability, lookup="side_effects")
    session.run(BEGIN, place="charged")
    run = go_on(session, durability, way)
    assert sorted(call["name"] for call in run.asked.values()) == ["charge_card", "lookup"]
    run = session.run(decisions={call: {"type": "reject", "message": ""} for call in run.asked})
    assert says(run, UNKNOWN)
    assert (session.effects("charge_card"), session.effects("lookup")) == (1, 1)
