"""Forks and time travel, and a log that ends between a put and its writes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import Command, interrupt

from cases.graphs import SnapshotState, TwinState, at, both, chain, config, ids, is_twin, put, sequence
from cases.logs import frames
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from pathlib import Path

    from cases.conftest import Access, Graph


def _say(name: str) -> tuple[str, Any]:
    return name, lambda _: both(name)


def _history(graph: Graph, thread_id: str = "t") -> list[Any]:
    return graph.get_state_history(config(thread_id))


def _after(graph: Graph, *items: str) -> dict[str, Any]:
    """The config of the step at which the lists were these."""
    (step,) = [step for step in _history(graph) if step.values.get("plain") == [*items]]
    return step.config


@pytest.mark.parametrize("state", [TwinState, SnapshotState])
@pytest.mark.parametrize("how", ["update", "replay", "input"])
def test_a_fork_does_not_replay_the_branch_it_left(access: Access, state: type, how: str) -> None:
    """langgraph#8443: a DeltaChannel equals its plain twin on both branches, whichever way the fork began."""
    graph = access.graph(sequence(state, _say("a"), _say("b"), _say("c")))
    graph.invoke(both("in"), config())
    old = _after(graph, "in", "a")
    access.reopen()
    if how == "update":
        fork = graph.update_state(old, both("by hand"), as_node="a")
        expected = ["in", "a", "by hand", "b", "c"]
        live = graph.invoke(None, fork)
    elif how == "replay":
        expected = ["in", "a", "b", "c"]
        live = graph.invoke(None, old)
    else:
        expected = ["in", "a", "again", "a", "b", "c"]
        live = graph.invoke(both("again"), old)
    access.reopen()
    assert live == both(*expected)
    assert graph.get_state(config()).values == live
    assert [is_twin(step.values) for step in _history(graph)].count(False) == 0
    abandoned = [step for step in _history(graph) if step.values.get("plain") == ["in", "a", "b", "c"]]
    assert len(abandoned) == (2 if how == "replay" else 1)


def test_a_fork_of_a_fork_knows_only_its_own_ancestors(access: Access) -> None:
    """langgraph#8443: three branches from three places, each run on after the others were stored."""
    graph = access.graph(sequence(TwinState, _say("a"), _say("b"), _say("c")))
    graph.invoke(both("in"), config())
    first = graph.update_state(_after(graph, "in", "a", "b"), both("1"), as_node="b")
    second = graph.update_state(first, both("2"), as_node="a")
    third = graph.update_state(_after(graph, "in", "a"), both("3"), as_node="a")
    for fork, expected in [
        (first, ["in", "a", "b", "1", "c"]),
        (second, ["in", "a", "b", "1", "2", "b", "c"]),
        (third, ["in", "a", "3", "b", "c"]),
    ]:
        access.reopen()
        assert graph.invoke(None, fork) == both(*expected)
        assert graph.get_state(config()).values == both(*expected)
    assert all(is_twin(step.values) for step in _history(graph))


def test_a_fork_keeps_the_history_of_both_branches(access: Access) -> None:
    """langgraph#7361, #7498: a fork leaves both branches in the history, and each id is still that step."""
    graph = access.graph(sequence(TwinState, _say("a"), _say("b")))
    graph.invoke(both("in"), config())
    before = {step.config["configurable"]["checkpoint_id"]: step for step in _history(graph)}
    graph.invoke(None, graph.update_state(_after(graph, "in", "a"), both("fork"), as_node="a"))
    access.reopen()

    after = {step.config["configurable"]["checkpoint_id"]: step for step in _history(graph)}
    assert after.keys() > before.keys()
    for checkpoint_id, step in before.items():
        assert after[checkpoint_id].values == step.values
        assert after[checkpoint_id].metadata == step.metadata
        assert graph.get_state(config(checkpoint_id=checkpoint_id)).values == step.values
    leaves = [step.values["plain"] for step in after.values() if not step.next and "plain" in step.values]
    assert leaves == [["in", "a", "fork", "b"], ["in", "a", "b"]]


@pytest.mark.parametrize("ns", ["", "a:1|b:2"])
def test_a_tuple_read_by_id_is_that_checkpoint(access: Access, ns: str) -> None:
    """langgraph#7361: with an id it is that one with its own parent and writes; an unknown id is none."""
    chain(access, 4, ns=ns)
    put(access, at(9), {"n": "fork"}, ns=ns, parent=at(1))
    access.put_writes(config(ns=ns, checkpoint_id=at(1)), [("x", "old")], "task")
    access.put_writes(config(ns=ns, checkpoint_id=at(9)), [("x", "new")], "task")
    for place, value, parent, writes in [
        (0, 0, None, []),
        (1, 1, 0, [("task", "x", "old")]),
        (3, 3, 2, []),
        (9, "fork", 1, [("task", "x", "new")]),
    ]:
        found = access.get_tuple(config(ns=ns, checkpoint_id=at(place)))
        assert found.config == config(ns=ns, checkpoint_id=at(place))
        assert found.checkpoint["id"] == at(place)
        assert found.checkpoint["channel_values"] == {"n": value}
        assert found.parent_config == (None if parent is None else config(ns=ns, checkpoint_id=at(parent)))
        assert found.pending_writes == writes
    assert access.get_tuple(config(ns=ns, checkpoint_id=at(5))) is None
    assert access.get_tuple(config(ns=ns, checkpoint_id="")).checkpoint["id"] == at(9)
    assert access.get_tuple(config(ns=f"{ns}x", checkpoint_id=at(1))) is None
    assert ids(access.list(config(ns=ns, checkpoint_id=at(1)))) == [at(1)]


def _cut(log: Path, source: Path, size: int, into: Path) -> JsonlSaver:
    """A saver over a copy of the log that ends after `size` bytes."""
    shutil.rmtree(into, ignore_errors=True)
    copy = into / log.relative_to(source)
    copy.parent.mkdir(parents=True)
    copy.write_bytes(log.read_bytes()[:size])
    return JsonlSaver(into)


def test_a_log_cut_at_any_byte_is_the_state_before_or_after(root: Path, tmp_path: Path) -> None:
    """langgraph#8039: between a put and its writes, and inside each; then more is appended and read."""
    stored: list[tuple[int, Any]] = []
    with JsonlSaver(root) as saver:
        log = saver.path("t")

        def remember() -> None:
            stored.append((log.stat().st_size, [*saver.list(config())]))

        put(saver, at(0), {"items": ["a"]})
        remember()
        for place in (0, 1):
            saver.put_writes(config(checkpoint_id=at(place)), [("items", ["b"]), ("to", None)], f"task-{place}")
            remember()
            put(saver, at(place + 1), {"items": ["a", "b" * 300]}, parent=at(place))
            remember()

    sizes = [size for size, _ in stored]
    for size in range(sizes[1], sizes[-1] + 1):
        expected = next(found for end, found in reversed(stored) if end <= size)
        with _cut(log, root, size, tmp_path / "cut") as saver:
            assert [*saver.list(config())] == expected
            if size % 7 == 0 or size in sizes:
                put(saver, at(9), {"items": ["after"]}, parent=at(0))
                saver.put_writes(config(checkpoint_id=at(9)), [("items", ["later"])], "task")
                assert ids(saver.list(config())) == [at(9), *ids(expected)]
    with JsonlSaver(tmp_path / "cut") as saver:
        newest, *rest = saver.list(config())
        assert newest.pending_writes == [("task", "items", ["later"])]
        assert rest == stored[-1][1]


def test_a_run_cut_between_any_two_commits_resumes_to_the_same_end(root: Path, tmp_path: Path) -> None:
    """langgraph#8039: after each commit of an interrupted and resumed run, the run can be finished."""
    builder = sequence(TwinState, _say("a"), ("ask", lambda _: both(interrupt("sure?"))), _say("b"))
    with JsonlSaver(root) as saver:
        graph = builder.compile(checkpointer=saver)
        graph.invoke(both("in"), config())
        final = graph.invoke(Command(resume="yes"), config())
        log = saver.path("t")
    assert final == both("in", "a", "yes", "b")

    for end, _ in frames(log):
        with _cut(log, root, end, tmp_path / "cut") as saver:
            graph = builder.compile(checkpointer=saver)
            state = graph.get_state(config())
            assert is_twin(state.values)
            if not state.created_at:
                graph.invoke(both("in"), config())
            elif not state.interrupts and state.values != final:
                graph.invoke(None, config())
            if graph.get_state(config()).interrupts:
                graph.invoke(Command(resume="yes"), config())
            assert graph.get_state(config()).values == final
