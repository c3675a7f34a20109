"""A healthy log is salvaged whole, however its runs went: into a thread that is what the first one is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import Command, interrupt

from guard.scene import CHARGE, CONFIG, LOOKUP, PAY, asked, go, review
from langgraph_jsonl_checkpoint import decide

if TYPE_CHECKING:
    from collections.abc import Callable

    from guard.conftest import Place
    from langgraph_jsonl_checkpoint import JsonlSaver

RUNS: dict[str, Callable[[Place, str], JsonlSaver]] = {}
"""By name: runs of the thread; the saver that they left it with."""

SAVED = {"configurable": {"thread_id": "saved"}}


def run(make: Callable[[Place, str], JsonlSaver]) -> Callable[[Place, str], JsonlSaver]:
    """Enter runs into the table."""
    RUNS[make.__name__.replace("_", " ")] = make
    return make


@run
def done(place: Place, shape: str) -> JsonlSaver:
    """A run from begin to end."""
    saver = place.saver()
    go(place.graph(shape, saver=saver, rounds=[[LOOKUP], [CHARGE]]), PAY)
    return saver


@run
def killed(place: Place, shape: str) -> JsonlSaver:
    """Its process died in the tool."""
    place.crash(shape, rounds=[[LOOKUP, CHARGE]])
    return place.saver()


@run
def killed_and_asked(place: Place, shape: str) -> JsonlSaver:
    """A human is asked what the tool has done, and has not answered."""
    saver = killed(place, shape)
    assert asked(go(place.graph(shape, saver=saver, rounds=[[LOOKUP, CHARGE]]), None))
    return saver


@run
def killed_and_decided(place: Place, shape: str) -> JsonlSaver:
    """A human said that it may run again, and the run went on to its end."""
    saver = killed(place, shape)
    graph = place.graph(shape, saver=saver, rounds=[[LOOKUP, CHARGE]])
    go(graph, None)
    go(graph, decide(graph, CONFIG, {"charge-1": {"type": "approve"}}))
    return saver


@run
def raised(place: Place, shape: str) -> JsonlSaver:
    """A tool raised, and the run ended with it."""
    saver = place.saver()
    with pytest.raises(OSError, match="hung up"):
        go(place.graph(shape, saver=saver, bodies={"charge": _fail}), PAY)
    return saver


@run
def raised_and_went_on(place: Place, shape: str) -> JsonlSaver:
    """The same, and the next run called it again."""
    saver = raised(place, shape)
    go(place.graph(shape, saver=saver), None)
    return saver


@run
def raised_and_asked(place: Place, shape: str) -> JsonlSaver:
    """The same with another saver, which has not seen what it raised."""
    raised(place, shape).close()
    saver = place.saver()
    graph = place.graph(shape, saver=saver)
    assert asked(go(graph, None))
    go(graph, decide(graph, CONFIG, {"charge-1": {"type": "respond", "message": "it is paid"}}))
    return saver


@run
def waits_for_a_human(place: Place, shape: str) -> JsonlSaver:
    """A tool interrupts beside one that does not."""
    saver = place.saver()
    assert go(_asking(place, shape, saver), PAY)["__interrupt__"]
    return saver


@run
def answered(place: Place, shape: str) -> JsonlSaver:
    """The same, and a human answered."""
    saver = waits_for_a_human(place, shape)
    go(_asking(place, shape, saver), Command(resume="yes"))
    return saver


@run
def reviewed(place: Place, shape: str) -> JsonlSaver:
    """Another middleware lets a human review the call."""
    saver = place.saver()
    options = {} if shape == "tool_node" else {"middleware": [review(None)]}
    graph = place.graph(shape, saver=saver, **options)
    if asked(go(graph, PAY)):
        go(graph, Command(resume={"decisions": [{"type": "approve"}]}))
    return saver


@run
def without_a_hook(place: Place, shape: str) -> JsonlSaver:
    """No tool call is recorded."""
    saver = place.saver()
    go(place.graph(shape, saver=saver, hook=False), PAY)
    return saver


def _fail() -> None:
    raise OSError("the bank hung up")


def _asking(place: Place, shape: str, saver: JsonlSaver) -> Any:
    return place.graph(
        shape, saver=saver, rounds=[[LOOKUP, CHARGE]], bodies={"before charge": lambda: str(interrupt("sure?"))}
    )


def read(saver: JsonlSaver, thread: str) -> list[Any]:
    """What a reader sees of a thread, but for its name."""
    config = {"configurable": {"thread_id": thread}}
    state = saver.resume_state(thread)
    found: list[Any] = [(each.checkpoint, each.metadata, each.pending_writes) for each in saver.list(config)]
    calls = [(c.task_id, c.tool_call_id, c.status, c.attempt, c.args, c.result_text) for c in state.tool_calls]
    memory = str(saver.session_memory(thread))
    return [*found, saver.get_tuple(config).checkpoint, calls, state.ended, state.error, state.crashed, memory]


@pytest.mark.parametrize("shape", ["create_agent", "tool_node", "subgraph"])
@pytest.mark.parametrize("name", RUNS)
def test_a_healthy_log_is_salvaged_whole(place: Place, shape: str, name: str) -> None:
    """Nothing is left out; states, calls, how the run ended and the memory are equal, and a run goes on with it."""
    saver = RUNS[name](place, shape)
    assert saver.verify("t").ok
    report = saver.salvage("t", "saved")
    assert (report.missing, report.lost, report.dropped) == ((), (), ())
    assert saver.verify("saved").ok
    assert read(saver, "saved") == read(saver, "t")
    go(place.graph(shape, saver=saver, rounds=[]), {"messages": [("user", "thanks")]}, SAVED)
    assert saver.verify("saved").ok
    assert saver.get_tuple(SAVED).checkpoint["channel_values"]["messages"][-1].text == "done"
