"""What the log holds of a tool call, however it ends."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

import pytest
from cases.logs import records
from langgraph.types import Command, interrupt

from guard.scene import AGENTS, CHARGE, LOOKUP, NODES, PAY, asked, go
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node", "subgraph"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


def steps(place: Place, call: str = "charge-1") -> list[dict[str, Any]]:
    """The records of a call."""
    return [r for r in records(place.log) if r["type"] == "tool" and r["call"] == call]


def statuses(place: Place, call: str = "charge-1") -> list[str]:
    """How a call went."""
    return [record["status"] for record in steps(place, call)]


def value(place: Place, tree: Any) -> Any:
    """What a reference stands for."""
    (found,) = [r["message"] for r in records(place.log) if r["type"] == "message" and r["n"] == tree["$ref"]]
    return found


@SHAPES
@BOTH_WAYS
def test_a_call_that_completes(place: Place, shape: str, asynchronous: bool) -> None:
    """Requested says what, where and what it does; started says who and how often; completed refers to the result."""
    saver = place.saver()
    go(place.graph(shape, saver=saver), PAY, asynchronous=asynchronous)
    requested, started, completed = steps(place)
    assert (requested["status"], started["status"], completed["status"]) == ("requested", "started", "completed")
    assert (requested["name"], requested["args"], requested["effect"]) == ("charge", {"euros": 40}, "side_effects")
    assert started["attempt"] == 1
    opened = [r for r in records(place.log) if r["type"] == "open" and r["seq"] < started["seq"]]
    assert (started["by"], opened[-1]["hook"]) == (opened[-1]["writer"], True)
    assert value(place, completed["result"])["content"] == "charged 40 EUR"
    (writes,) = [r for r in records(place.log) if r["type"] == "writes" and r["task"] == requested["task"]]
    assert (writes["checkpoint"], writes["ns"]) == (requested["checkpoint"], requested.get("ns", ""))
    assert requested.get("ns", "").startswith("agent:") == (shape == "subgraph")
    (call,) = saver.resume_state("t").tool_calls
    assert (call.status, call.attempt, call.result_text) == ("completed", 1, "charged 40 EUR")
    assert (call.task_id, call.checkpoint_id, call.ns) == (writes["task"], writes["checkpoint"], writes["ns"])
    assert call.seqs == tuple(record["seq"] for record in steps(place))


@pytest.mark.parametrize("policy", ["read_only", "idempotent"])
def test_what_running_it_does_is_recorded(place: Place, policy: str) -> None:
    """The class that the policy gives a call stands in its request, with whether it is a check."""
    go(place.graph("create_agent", policy={policy: ["charge"], "checks": ["charge"]}), PAY)
    assert (steps(place)[0]["effect"], steps(place)[0]["check"]) == (policy, True)


@SHAPES
def test_a_result_is_in_the_log_once(place: Place, shape: str) -> None:
    """The call, the task's writes and the checkpoints refer to one message; its text stands nowhere else."""
    text = secrets.token_hex(20_000)
    go(place.graph(shape, bodies={"charge": lambda: text}), PAY)
    lines = [r for r in records(place.log) if text in str(r)]
    assert [line["type"] for line in lines] == ["message"]
    assert value(place, steps(place)[-1]["result"])["content"] == text


@BOTH_WAYS
def test_a_call_that_fails_with_a_message_for_the_model(place: Place, asynchronous: bool) -> None:
    """Its end is failed, and has the result that the model gets; a resume would give that back."""

    def fail() -> None:
        raise RuntimeError("the bank hung up")

    graph = place.graph("handling", bodies={"charge": fail})
    result = go(graph, PAY, asynchronous=asynchronous)
    assert statuses(place) == ["requested", "started", "failed"]
    message = value(place, steps(place)[-1]["result"])
    assert (message["status"], "the bank hung up" in message["content"]) == ("error", True)
    assert [m.text for m in result["messages"] if m.type == "tool"] == [message["content"]]


@BOTH_WAYS
def test_a_call_with_invalid_arguments(place: Place, asynchronous: bool) -> None:
    """The tool's code is never entered; the model's message about it is the call's result."""
    wrong = {**CHARGE, "args": {"euros": "many"}}
    go(place.graph("create_agent", rounds=[[wrong]]), PAY, asynchronous=asynchronous)
    assert (statuses(place)[-1], place.effects("charge")) == ("failed", 0)
    assert value(place, steps(place)[-1]["result"])["status"] == "error"


@SHAPES
@BOTH_WAYS
def test_a_call_that_raises(place: Place, shape: str, asynchronous: bool) -> None:
    """Its end is failed, with the error's text and without a result."""

    def fail() -> None:
        raise RuntimeError("the bank hung up")

    saver = place.saver()
    with pytest.raises(RuntimeError, match="hung up"):
        go(place.graph(shape, saver=saver, bodies={"charge": fail}), PAY, asynchronous=asynchronous)
    assert statuses(place) == ["requested", "started", "failed"]
    assert steps(place)[-1]["error"] == "RuntimeError: the bank hung up"
    assert "result" not in steps(place)[-1]
    (call,) = saver.resume_state("t").tool_calls
    assert (call.status, call.error) == ("failed", "RuntimeError: the bank hung up")


@SHAPES
@BOTH_WAYS
def test_the_same_living_saver_runs_a_call_again_that_raised(place: Place, shape: str, asynchronous: bool) -> None:
    """Who saw it raise runs it again: nothing is uncertain while its writer lives, and each attempt is counted."""
    saver = place.saver()

    def fail() -> None:
        raise RuntimeError("the bank hung up")

    graph = place.graph(shape, saver=saver, bodies={"charge": fail})
    with pytest.raises(RuntimeError, match="hung up"):
        go(graph, PAY, asynchronous=asynchronous)
    assert saver.uncertain("t") == ()
    place.effects.bodies.clear()
    assert asked(go(graph, None, asynchronous=asynchronous)) == []
    assert [(r["status"], r.get("attempt")) for r in steps(place)[1:]] == [
        ("started", 1), ("failed", None), ("started", 2), ("completed", None)
    ]  # fmt: skip
    assert place.effects("charge") == 2


@SHAPES
@BOTH_WAYS
def test_no_address_is_recorded(place: Place, shape: str, asynchronous: bool) -> None:
    """What is told of an error is the same in each process, so that a prompt cache holds: no object's address."""

    def fail() -> None:
        raise RuntimeError(f"no answer from {object()!r} and {fail!r} at 0xcafe")

    saver = place.saver()
    with pytest.raises(RuntimeError):
        go(place.graph(shape, saver=saver, bodies={"charge": fail}), PAY, asynchronous=asynchronous)
    function = f"<function {test_no_address_is_recorded.__name__}.<locals>.fail>"
    assert steps(place)[-1]["error"] == f"RuntimeError: no answer from <object object> and {function} at 0xcafe"


def test_a_retry_middleware_outside_makes_attempts(place: Place) -> None:
    """Each attempt of a retry is recorded as one."""
    tries = []

    def fail_once() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("the bank hung up")

    go(place.graph("retry", bodies={"charge": fail_once}), PAY)
    assert statuses(place) == ["requested", "started", "failed", "started", "completed"]
    assert [r["attempt"] for r in steps(place) if r["status"] == "started"] == [1, 2]


@pytest.mark.parametrize("shape", ["create_agent", "tool_node", "subgraph"])
async def test_a_call_that_is_cancelled(place: Place, shape: str) -> None:
    """Cancelled by asyncio in its body, its end is cancelled; it may have had its effect, so another saver asks.

    What asyncio hands on with it, an object perhaps, is in no record.
    """
    entered = asyncio.Event()

    async def charge(euros: int) -> str:
        """Charge the card."""
        place.effects._have("charge", "")
        entered.set()
        await asyncio.Event().wait()
        return "never"

    saver = place.saver()
    graph = place.graph(shape, saver=saver, tools=[charge])
    run = asyncio.create_task(graph.ainvoke(PAY, {"configurable": {"thread_id": "t"}}))
    await entered.wait()
    run.cancel(object())
    with pytest.raises(asyncio.CancelledError):
        await run
    assert statuses(place) == ["requested", "started", "cancelled"]
    assert steps(place)[-1]["error"] == "CancelledError"
    (call,) = (await saver.aresume_state("t")).tool_calls
    assert call.status == "cancelled"
    await asyncio.to_thread(saver.close)
    graph = place.graph(shape)
    paused = await graph.ainvoke(None, {"configurable": {"thread_id": "t"}})
    (question,) = asked(paused)
    assert "stopped while it ran" in question["calls"][0]["description"]
    assert place.effects("charge") == 1
    await graph.ainvoke(Command(resume={"type": "approve"}), {"configurable": {"thread_id": "t"}})
    assert place.effects("charge") == 2


@SHAPES
@BOTH_WAYS
def test_a_call_that_waits_for_a_human_in_its_body(place: Place, shape: str, asynchronous: bool) -> None:
    """Its end is paused, not failed; answered, it runs as LangGraph has it: from its begin, as another attempt."""
    saver = place.saver()

    def confirm() -> Any:
        return interrupt("charge 40 EUR?")

    graph = place.graph(shape, saver=saver, bodies={"charge": confirm})
    paused = go(graph, PAY, asynchronous=asynchronous)
    assert asked(paused) == ["charge 40 EUR?"]
    assert statuses(place) == ["requested", "started", "paused"]
    (call,) = saver.resume_state("t").tool_calls
    assert (call.status, saver.uncertain("t")) == ("waiting", ())
    saver.close()
    result = go(place.graph(shape, bodies={"charge": confirm}), Command(resume="yes, 40"), asynchronous=asynchronous)
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["yes, 40"]
    assert statuses(place)[3:] == ["started", "completed"]


@SHAPES
@BOTH_WAYS
def test_a_call_that_a_human_decides_upon(place: Place, shape: str, asynchronous: bool) -> None:
    """Asked before the interrupt, resolved with the decision, and then what the decision comes to."""
    place.crash(shape)
    graph = place.graph(shape)
    go(graph, None, asynchronous=asynchronous)
    go(graph, Command(resume={"type": "respond", "message": "paid"}), asynchronous=asynchronous)
    assert statuses(place) == ["requested", "started", "asked", "resolved", "completed"]
    asking, resolved, completed = steps(place)[2:]
    assert asking["attempt"] == resolved["attempt"] == 1
    assert (resolved["decision"], resolved["message"], resolved["by"]) == ("respond", "paid", "answer")
    assert value(place, completed["result"])["content"] == "paid"


@pytest.mark.parametrize("shape", [*AGENTS, *NODES])
def test_a_result_that_was_not_stored_yet_is_not_lost(place: Place, shape: str) -> None:
    """Ended and killed before the task's writes: the recorded result is given, an error for the model is, too."""
    rounds = [[LOOKUP, CHARGE]]
    place.crash(shape, after=["lookup"], rounds=rounds)
    with JsonlSaver(place.root / "sessions") as saver:
        found = {call.name: call.status for call in saver.resume_state("t").tool_calls}
    assert found == {"lookup": "completed", "charge": "uncertain"}
    graph = place.graph(shape, rounds=rounds)
    go(graph, None)
    go(graph, Command(resume={"type": "reject"}))
    assert (place.effects("lookup"), place.effects("charge")) == (1, 1)
