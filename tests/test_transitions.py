"""State transitions are records: where a checkpoint leads, what it changed, and why a run stopped."""

from __future__ import annotations

import json
import operator
from typing import TYPE_CHECKING, Annotated, Any

import pytest
import zstandard
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from langgraph_jsonl_checkpoint.versions import next_version

if TYPE_CHECKING:
    from langgraph_jsonl_checkpoint import JsonlSaver

CONFIG = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    done: Annotated[list[str], operator.add]


def lines(saver: JsonlSaver) -> list[dict[str, Any]]:
    """The records of the log, read without the package."""
    with saver.path("t").open("rb") as log:
        text = zstandard.ZstdDecompressor().stream_reader(log, read_across_frames=True).read()
    return [json.loads(line) for line in text.splitlines()]


def transitions(saver: JsonlSaver) -> list[tuple[int, str, list[str]]]:
    """(step, source, next nodes) of each checkpoint record."""
    return [(r["step"], r["source"], r["next"]) for r in lines(saver) if r["type"] == "checkpoint"]


def ends(saver: JsonlSaver) -> list[str]:
    """Why the thread's runs stopped."""
    return [r["reason"] for r in lines(saver) if r["type"] == "terminal"]


def node(name: str) -> Any:
    """A node that says that it ran."""
    return lambda _: {"done": [name]}


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_checkpoint_says_where_it_leads_and_what_it_changed(saver: JsonlSaver, durability: str) -> None:
    """Step, source and next nodes are what LangGraph's own state snapshots say, for edges, joins and fan-outs."""
    graph = StateGraph(State)
    for name in "abcd":
        graph.add_node(name, node(name))
    graph.add_edge(START, "a")
    graph.add_conditional_edges("a", lambda _: [Send("b", {}), Send("c", {}), Send("b", {})], ["b", "c"])
    graph.add_edge(["b", "c"], "d")
    app = graph.compile(checkpointer=saver)
    app.invoke({"done": []}, CONFIG, durability=durability)
    snapshots = {s.metadata["step"]: sorted(set(s.next)) for s in app.get_state_history(CONFIG)}
    assert {step: sorted(next_) for step, _, next_ in transitions(saver)} == snapshots
    assert [source for _, source, _ in transitions(saver)] == ["input", "loop", "loop", "loop", "loop"]
    changed = [r["changed"] for r in lines(saver) if r["type"] == "checkpoint"]
    assert "done" in changed[2]
    assert ends(saver) == ["completed"]


def test_a_deferred_node_is_next_only_when_all_others_are_done(saver: JsonlSaver) -> None:
    """A node with defer=True is triggered early and waits: the checkpoints before do not lead to it."""
    graph = StateGraph(State)
    graph.add_node("a", node("a"))
    graph.add_node("b", node("b"))
    graph.add_node("last", node("last"), defer=True)
    graph.add_edge(START, "a")
    graph.add_edge(START, "last")
    graph.add_edge("a", "b")
    app = graph.compile(checkpointer=saver)
    app.invoke({"done": []}, CONFIG)
    snapshots = {s.metadata["step"]: sorted(s.next) for s in app.get_state_history(CONFIG)}
    assert {step: sorted(next_) for step, _, next_ in transitions(saver)} == snapshots


def test_a_run_that_asks_a_human_ends_interrupted_and_then_completed(saver: JsonlSaver) -> None:
    """One terminal record for an interrupt, however many tasks ask at once; one for the end."""
    graph = StateGraph(State)
    for name in ("left", "right"):
        graph.add_node(name, lambda _: {"done": [interrupt("go on?")]})
        graph.add_edge(START, name)
    app = graph.compile(checkpointer=saver)
    app.invoke({"done": []}, CONFIG)
    assert ends(saver) == ["interrupted"]
    app.invoke(Command(resume={i.id: "yes" for i in app.get_state(CONFIG).interrupts}), CONFIG)
    assert ends(saver) == ["interrupted", "completed"]


def test_a_run_that_fails_says_so_with_its_error(saver: JsonlSaver) -> None:
    """The error stands in the terminal record; the run that goes on after it completes."""
    broken = [True]

    def fragile(_: State) -> State:
        if broken:
            broken.clear()
            raise ValueError("no such file")
        return {"done": ["fragile"]}

    app = StateGraph(State).add_node("fragile", fragile).add_edge(START, "fragile").compile(checkpointer=saver)
    with pytest.raises(ValueError, match="no such file"):
        app.invoke({"done": []}, CONFIG)
    failed = [r for r in lines(saver) if r["type"] == "terminal"]
    assert [(r["reason"], r["error"]) for r in failed] == [("failed", "ValueError('no such file')")]
    app.invoke(None, CONFIG)
    assert ends(saver) == ["failed", "completed"]


def test_an_update_of_the_state_is_not_the_end_of_a_run(saver: JsonlSaver) -> None:
    """A checkpoint that nobody's run made leads nowhere and ends nothing."""
    app = (
        StateGraph(State).add_node("a", node("a")).add_edge("a", END).set_entry_point("a").compile(checkpointer=saver)
    )
    app.update_state(CONFIG, {"done": ["by hand"]}, as_node="a")
    assert transitions(saver)[-1][1:] == ("update", [])
    assert ends(saver) == []


def test_an_entrypoint_ends_as_a_graph_does(saver: JsonlSaver) -> None:
    """The functional API has no branches: its run is over when its one node has run."""

    @task
    def double(x: int) -> int:
        return 2 * x

    @entrypoint(checkpointer=saver)
    def flow(x: int) -> int:
        return double(x).result()

    assert flow.invoke(21, CONFIG) == 42
    assert transitions(saver)[0] == (-1, "input", ["__start__"]) or transitions(saver)[0][2] == ["flow"]
    assert ends(saver) == ["completed"]


@pytest.mark.parametrize(
    "current",
    [None, 1, 2**70, 1.0, 1.5, 2.0**60, "1", "9", "abc", "z", "~9.x", "é", f"{7:032}.0.123", f"{7:032}.5c0ffee-1"],
)
def test_the_next_version_sorts_after_the_one_before(current: Any) -> None:
    """Of any saver's version, for a hundred steps; numbers stay numbers, and strings differ between forks."""
    version = current
    for step in range(100):
        after = next_version(version, f"u-{step:x}")
        if version is not None:
            assert after > version
            assert type(after) is type(version)
        version = after
    if not isinstance(current, int | float):
        assert next_version(current, "u-1") != next_version(current, "u-2")
