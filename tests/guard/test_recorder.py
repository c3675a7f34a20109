"""SessionRecorder: tools that are called without a guard are recorded, and no uncertain one is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cases.logs import records
from langgraph.types import interrupt

from guard.scene import CONFIG, PAY, asked, go
from langgraph_jsonl_checkpoint import SessionRecorder, ToolLogError, ToolPolicy, UncertainToolCallError

if TYPE_CHECKING:
    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node", "handling", "direct"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


def start(place: Place, shape: str, *, policy: Any = None, bodies: Any = None) -> Any:
    """A graph without a guard, and the config with the recorder: (saver, graph, config)."""
    saver = place.saver()
    graph = place.graph(shape, saver=saver, hook=False, bodies=bodies)
    recorder = SessionRecorder(saver, policy=ToolPolicy(**(policy or {})))
    return saver, graph, {**CONFIG, "callbacks": [recorder]}


def statuses(place: Place) -> list[str]:
    """How the calls went."""
    return [r["status"] for r in records(place.log) if r["type"] == "tool"]


@SHAPES
@BOTH_WAYS
def test_a_call_is_recorded(place: Place, shape: str, asynchronous: bool) -> None:
    """Its request, start and end, with its result."""
    saver, graph, config = start(place, shape)
    go(graph, PAY, config, asynchronous=asynchronous)
    assert statuses(place) == ["requested", "started", "completed"]
    (call,) = saver.resume_state("t").tool_calls
    assert (call.name, call.args, call.status, call.result_text) == (
        "charge", {"euros": 40}, "completed", "charged 40 EUR"
    )  # fmt: skip
    assert any(r["type"] == "open" and r.get("hook") for r in records(place.log))


@SHAPES
@BOTH_WAYS
def test_an_uncertain_call_is_not_started(place: Place, shape: str, asynchronous: bool) -> None:
    """Nobody can be asked here: the run stops until somebody has decided, and then the call runs."""
    place.crash(shape, records=True, hook=False, way={"asynchronous": asynchronous})
    saver, graph, config = start(place, shape)
    for _ in range(2):
        with pytest.raises(UncertainToolCallError, match="resolve"):
            go(graph, None, config, asynchronous=asynchronous)
    assert (place.effects("charge"), place.model.requests) == (1, [])
    (call,) = saver.uncertain("t")
    saver.resolve("t", call.tool_call_id, {"type": "approve"})
    result = go(graph, None, config, asynchronous=asynchronous)
    assert place.effects("charge") == 2
    assert result["messages"][-1].text == ("charged 40 EUR" if shape == "direct" else "done")


@pytest.mark.parametrize("shape", ["create_agent", "tool_node", "direct"])
@BOTH_WAYS
def test_a_call_that_raised_is_not_started_by_another_process(place: Place, shape: str, asynchronous: bool) -> None:
    """Failed is not safe here either."""
    assert place.process(shape, records=True, hook=False, raises=["charge"])["code"] == 1
    assert statuses(place) == ["requested", "started", "failed"]
    _, graph, config = start(place, shape)
    with pytest.raises(UncertainToolCallError):
        go(graph, None, config, asynchronous=asynchronous)
    assert place.effects("charge") == 1


@pytest.mark.parametrize("policy", ["read_only", "idempotent"])
@SHAPES
@BOTH_WAYS
def test_what_may_run_twice_runs_again(place: Place, shape: str, asynchronous: bool, policy: str) -> None:
    """By the recorder's own policy."""
    place.crash(shape, records=True, hook=False, policy={policy: ["charge"]})
    _, graph, config = start(place, shape, policy={policy: ["charge"]})
    go(graph, None, config, asynchronous=asynchronous)
    assert place.effects("charge") == 2


@pytest.mark.parametrize("shape", ["create_agent", "tool_node", "direct"])
@BOTH_WAYS
def test_a_call_that_waits_for_a_human_is_paused(place: Place, shape: str, asynchronous: bool) -> None:
    """An interrupt comes to a callback as an error, and is none."""
    _, graph, config = start(place, shape, bodies={"before charge": lambda: interrupt("charge?")})
    assert asked(go(graph, PAY, config, asynchronous=asynchronous)) == ["charge?"]
    assert statuses(place) == ["requested", "started", "paused"]


@pytest.mark.parametrize("shape", ["create_agent", "handling", "direct"])
@BOTH_WAYS
def test_a_call_that_cannot_be_recorded_is_not_started(place: Place, shape: str, asynchronous: bool) -> None:
    """A file where the writers' folder belongs: the run stops with the storage error."""
    (place.root / "sessions").mkdir()
    (place.root / "sessions" / ".writers").write_text("")
    _, graph, config = start(place, shape)
    with pytest.raises(ToolLogError):
        go(graph, PAY, config, asynchronous=asynchronous, durability="exit")
    assert place.effects("charge") == 0
