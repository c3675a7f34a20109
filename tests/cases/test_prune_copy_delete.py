"""prune, copy_thread and delete_for_runs: what is kept is what it was, DeltaChannels too."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, interrupt

from cases.graphs import (
    ChatState,
    DeltaChatState,
    SnapshotState,
    TwinState,
    at,
    both,
    chain,
    config,
    ids,
    is_twin,
    parallel,
    put,
    sequence,
    wait_for_writes,
)
from cases.logs import of_type, records, text
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

    from cases.conftest import Access, Graph

STATES = [TwinState, SnapshotState]


def _run(name: str, thread_id: str = "t") -> RunnableConfig:
    where = config(thread_id)
    where["configurable"]["run_id"] = name
    return where


def _three_runs(access: Access, state: type, *threads: str) -> Graph:
    """Three runs of three supersteps on each thread, the last stopped by an interrupt."""

    def ask(values: dict[str, Any]) -> dict[str, Any]:
        return both(interrupt("sure?") if "in-3" in values["plain"] else "not asked")

    graph = access.graph(sequence(state, ("a", lambda values: both(f"a-{len(values['plain'])}")), ("ask", ask)))
    for thread in threads:
        for run in (1, 2, 3):
            graph.invoke(both(f"in-{run}"), _run(f"run-{run}", thread))
    return graph


def _states(graph: Graph, thread_id: str = "t") -> dict[str, Any]:
    """The values, next nodes and interrupts of every step."""
    return {
        step.config["configurable"]["checkpoint_id"]: (step.values, step.next, step.interrupts)
        for step in graph.get_state_history(config(thread_id))
    }


@pytest.mark.parametrize("state", STATES)
def test_a_pruned_thread_goes_on_like_its_twin(access: Access, state: type) -> None:
    """LangGraph PR#6883: the newest state, its interrupt and its resume are those of an unpruned thread."""
    graph = _three_runs(access, state, "t", "twin")
    before = _states(graph)
    newest = max(before)
    for _ in range(2):
        access.prune(["t", "missing"])
        assert graph.get_state(config()).values == before[newest][0]
        assert graph.get_state(config()).interrupts == before[newest][2]
    kept = _states(graph)
    assert kept == {checkpoint_id: before[checkpoint_id] for checkpoint_id in kept}
    if state is SnapshotState:
        assert len(kept) < len(before) / 2
    for thread in ("t", "twin"):
        graph.invoke(Command(resume="yes"), config(thread))
        graph.invoke(both("in-4"), config(thread))
    assert graph.get_state(config()).values == graph.get_state(config("twin")).values
    assert is_twin(graph.get_state(config()).values)
    assert not access.saver.path("missing").parent.exists()


def test_a_conversation_in_a_delta_channel_is_whole_after_prune(access: Access) -> None:
    """LangGraph PR#6883: messages with their ids, after a snapshot and before one, many turns later."""
    graph = access.graph(sequence(DeltaChatState, ("n", lambda s: {"messages": [("ai", str(len(s["messages"])))]})))
    expected: list[str] = []
    for turn in range(6):
        graph.invoke({"messages": [("user", f"hi {turn}")]}, config())
        expected += [f"hi {turn}", str(2 * turn + 1)]
        before = graph.get_state(config()).values
        access.prune(["t"])
        assert graph.get_state(config()).values == before
        assert [message.content for message in before["messages"]] == expected


def test_the_newest_of_each_namespace_is_kept_with_its_writes(access: Access) -> None:
    """LangGraph PR#6883: and without a parent, in a log of a new generation that says what left it."""
    for ns in ("", "child", "other|deep"):
        chain(access, 4, ns=ns)
        for place in (2, 3):
            access.put_writes(config(ns=ns, checkpoint_id=at(place)), [("x", [ns, place])], "task")
    chain(access, 2, thread_id="other")
    other = access.saver.path("other").read_bytes()
    access.prune(["t"], strategy="keep_latest")
    for ns in ("", "child", "other|deep"):
        (found,) = access.list(config(ns=ns))
        assert (found.checkpoint["id"], found.parent_config) == (at(3), None)
        assert found.checkpoint["channel_values"] == {"n": 3}
        assert found.pending_writes == [("task", "x", [ns, 3])]
        assert access.get_tuple(config(ns=ns, checkpoint_id=at(2))) is None
    assert access.saver.path("other").read_bytes() == other
    session, prune, *_ = records(access.saver.path("t"))
    assert (session["generation"], prune["type"], prune["strategy"]) == (1, "prune", "keep_latest")
    assert os.listdir(access.saver.path("t").parent) == ["session.jsonl.zst"]
    put(access, at(4), {"n": 4}, parent=at(3))
    assert ids(access.list(config())) == [at(4), at(3)]


def test_prune_delete_leaves_nothing(access: Access) -> None:
    """LangGraph PR#6883: the strategy `delete` is delete_thread for each."""
    for thread in ("a", "b", "c"):
        chain(access, 2, thread_id=thread)
    access.prune(["a", "b", "missing"], strategy="delete")
    assert [item.config["configurable"]["thread_id"] for item in access.list(None)] == ["c", "c"]
    assert not access.saver.path("a").parent.exists()


def test_prune_refuses_what_it_does_not_know(access: Access) -> None:
    """LangGraph PR#6883: an unknown strategy, or a bare string that would be taken letter by letter."""
    chain(access, 3)
    before = access.saver.path("t").read_bytes()
    with pytest.raises(ValueError, match="newest"):
        access.prune(["t"], strategy="newest")
    with pytest.raises(TypeError):
        access.prune("t")
    access.prune([])
    assert access.saver.path("t").read_bytes() == before


def test_no_tool_runs_twice_when_prune_comes_between_three_interrupts(access: Access) -> None:
    """redis#159: a batch of three tools, each asks; they are answered one by one, with a prune in between."""
    ran: list[str] = []

    def tool(name: str) -> tuple[str, Any]:
        def run(_: Any) -> dict[str, Any]:
            answer = interrupt(name)
            ran.append(f"{name}: {answer}")
            return both(name)

        return name, run

    graph = access.graph(parallel(TwinState, tool("a"), tool("b"), tool("c")))
    graph.invoke(both("in"), config())
    for count in range(3):
        access.prune(["t"])
        open_ones = sorted(graph.get_state(config()).interrupts, key=lambda asked: asked.value)
        assert [asked.value for asked in open_ones] == ["a", "b", "c"][count:]
        graph.invoke(Command(resume={open_ones[0].id: f"yes {count}"}), config())
        assert ran == ["a: yes 0", "b: yes 1", "c: yes 2"][: count + 1]
    access.prune(["t"])
    assert graph.get_state(config()).values == both("in", "a", "b", "c")
    assert graph.get_state(config()).next == ()


def test_answers_given_to_one_task_outlive_prune(access: Access) -> None:
    """redis#159: one task that asks three times; the answers before the prune are not asked for again."""
    builder = sequence(TwinState, ("ask", lambda _: both(*[interrupt(f"q{n}") for n in range(3)])))
    graph = access.graph(builder)
    graph.invoke(both("in"), config())
    for number in range(3):
        access.prune(["t"])
        assert [asked.value for asked in graph.get_state(config()).interrupts] == [f"q{number}"]
        graph.invoke(Command(resume=f"a{number}"), config())
    assert graph.get_state(config()).values == both("in", "a0", "a1", "a2")


def test_a_finished_sibling_does_not_run_again_after_prune(access: Access) -> None:
    """redis#159: one of two parallel tasks failed; the other's writes are kept by prune and used."""
    runs: list[str] = []

    def fails_once(_: Any) -> dict[str, Any]:
        runs.append("bad")
        if runs.count("bad") == 1:
            wait_for_writes(access.saver, "plain", 1)
            raise RuntimeError("first time")
        return both("bad")

    def good(_: Any) -> dict[str, Any]:
        runs.append("good")
        return both("good")

    graph = access.graph(parallel(TwinState, ("bad", fails_once), ("good", good)))
    with pytest.raises(RuntimeError, match="first time"):
        graph.invoke(both("in"), config())
    stored = access.get_tuple(config()).pending_writes
    assert ["good"] in [value for _, _, value in stored]
    access.prune(["t"])
    assert access.get_tuple(config()).pending_writes == stored
    assert graph.invoke(None, config()) == both("in", "bad", "good")
    assert runs.count("good") == 1


def test_an_interrupted_subgraph_stays_and_a_finished_one_goes(access: Access) -> None:
    """LangGraph PR#6883: a finished call's namespace goes with its root; an open one can be answered."""
    asks = sequence(TwinState, ("ask", lambda _: both(interrupt("inner?")))).compile()
    done = sequence(TwinState, ("say", lambda _: both("said"))).compile()
    graph = access.graph(sequence(TwinState, ("done", done), ("asks", asks)))
    for _ in range(2):
        graph.invoke(both("in"), config())
        graph.invoke(Command(resume="yes"), config())
    graph.invoke(both("in"), config())
    before = graph.get_state(config(), subgraphs=True)
    access.prune(["t"])
    namespaces = {item.config["configurable"]["checkpoint_ns"] for item in access.list(config(ns=None))}
    assert namespaces == {"", before.tasks[0].state.config["configurable"]["checkpoint_ns"]}
    after = graph.get_state(config(), subgraphs=True)
    assert after.tasks[0].state.values == before.tasks[0].state.values
    final = graph.invoke(Command(resume="yes"), config())
    assert is_twin(final)
    assert final["plain"][-1] == "yes"


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("gone", [["run-1"], ["run-2"], ["run-1", "run-2"], ["run-3"], ["none"]])
def test_deleting_runs_leaves_the_states_of_the_others_equal(access: Access, state: type, gone: list) -> None:
    """LangGraph PR#6883: a step that remains is what it was; of the deleted runs only what it needs stays."""
    graph = _three_runs(access, state, "t", "twin")
    before = {thread: _states(graph, thread) for thread in ("t", "twin")}
    runs = {item.checkpoint["id"]: item.metadata["run_id"] for item in access.list(None)}
    access.delete_for_runs(gone)
    for thread in ("t", "twin"):
        after = _states(graph, thread)
        assert after == {name: before[thread][name] for name in after}
        assert {name for name in before[thread] if runs[name] not in gone} <= after.keys()
        assert all(is_twin(values) for values, _, _ in after.values())
        if (state is SnapshotState and gone != ["none"]) or gone == ["run-3"]:
            assert len(after) < len(before[thread])
    assert is_twin(graph.invoke(both("in-4"), _run("run-4")))


@pytest.mark.parametrize("gone", [["run-1"], ["run-2"], ["run-1", "run-3"]])
def test_deleted_runs_of_a_plain_thread_are_gone(access: Access, gone: list[str]) -> None:
    """LangGraph PR#6883: their steps, their writes and what they said; the other steps are what they were."""

    def node(state: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [("ai", f"answer to {state['messages'][-1].content}")]}

    graph = access.graph(sequence(ChatState, ("n", node)))
    for run in ("run-1", "run-2", "run-3"):
        graph.invoke({"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), ("user", f"secret-{run}")]}, _run(run))
    before = _states(graph)
    runs = {item.checkpoint["id"]: item.metadata["run_id"] for item in access.list(None)}
    access.delete_for_runs(gone)
    kept = {name for name, run in runs.items() if run not in gone}
    assert _states(graph) == {name: before[name] for name in kept}
    for name in runs:
        assert (access.get_tuple(config(checkpoint_id=name)) is not None) == (name in kept)
    # The step in which the next run began is that run's own, and holds the messages it found.
    if "run-3" in gone:
        assert b"secret-run-3" not in text(access.saver.path("t"))


def test_deleting_every_run_leaves_an_empty_thread(access: Access) -> None:
    """LangGraph PR#6883: all namespaces, all writes; ids that were never there are no error."""
    for ns in ("", "child"):
        chain(access, 3, ns=ns, run_id="only")
    access.put_writes(config(checkpoint_id=at(2)), [("secret", "x" * 400)], "task")
    chain(access, 1, thread_id="other", run_id="other")
    access.delete_for_runs([])
    access.delete_for_runs(["only", "never was"])
    assert access.list(config(ns=None)) == []
    assert access.get_tuple(config()) is None
    assert ids(access.list(None)) == [at(0)]
    put(access, at(5), {"n": 5})
    assert ids(access.list(config())) == [at(5)]


@pytest.mark.parametrize("state", STATES)
def test_a_copied_thread_is_equal_and_independent(access: Access, state: type) -> None:
    """LangGraph PR#6883: every step, write and namespace; then each goes its own way."""
    graph = _three_runs(access, state, "t")
    old = sorted(_states(graph))[3]
    graph.update_state(config(checkpoint_id=old), both("fork"), as_node="a")
    chain(access, 2, ns="child")
    before = _states(graph)
    source = access.saver.path("t").read_bytes()
    access.copy_thread("t", "copy")
    assert access.saver.path("t").read_bytes() == source
    assert _states(graph, "copy") == _states(graph) == before
    for one, other in zip(access.list(config(ns=None)), access.list(config("copy", None)), strict=True):
        assert other.checkpoint == one.checkpoint
        assert other.metadata == one.metadata
        assert other.pending_writes == one.pending_writes
        assert other.config["configurable"] == one.config["configurable"] | {"thread_id": "copy"}
        if one.parent_config:
            assert other.parent_config["configurable"]["thread_id"] == "copy"
    (session,) = of_type(access.saver.path("copy"), "session")
    assert session["thread_id"] == "copy"
    assert graph.invoke(both("only here"), config("copy"))["plain"].count("only here") == 1
    assert _states(graph) == before
    access.delete_thread("t")
    assert is_twin(graph.get_state(config("copy")).values)


def test_a_thread_that_is_copied_to_where_one_was_deleted_takes_writes(root: Path) -> None:
    """Its checkpoints have the deleted one's ids: what comes for them is not too late, opened or not."""
    with JsonlSaver(root, max_open=1) as saver:
        name = chain(saver, 2, thread_id="backup")[-1]
        saver.copy_thread("backup", "work")
        for number in range(2):
            saver.delete_thread("work")
            saver.copy_thread("backup", "work")
            if number:
                assert saver.get_tuple(config("work")) is not None
            put(saver, at(0), thread_id=f"other {number}")  # and closes it
            saver.put_writes(config("work", checkpoint_id=name), [("n", 5)], "task")
            found = saver.get_tuple(config("work"))
            assert found is not None
            assert found.pending_writes == [("task", "n", 5)]
        saver.delete_thread("work")
        saver.put_writes(config("work", checkpoint_id=name), [("n", 6)], "task")
        assert saver.get_tuple(config("work")) is None


def test_a_checkpoint_that_was_put_again_is_pruned_behind_what_it_holds(root: Path) -> None:
    """Its last content refers to what came after the first: the pruned log is good, and is salvaged whole."""
    with JsonlSaver(root) as saver:
        first, last = [HumanMessage("a" * 300, id="1")], [HumanMessage("b" * 300, id="2")]
        put(saver, at(0), {"x": first})
        put(saver, at(1), {"x": first})
        put(saver, at(1), {"x": [*first, *last]})
        saver.put_writes(config(checkpoint_id=at(1)), [("x", 1)], "task")
        saver.prune(["t"])
        assert saver.verify("t").ok
        report = saver.salvage("t", "saved")
        assert (report.dropped, report.missing) == ((), ())
        for thread in ("t", "saved"):
            put(saver, at(2), {"y": 1}, thread_id=thread, parent=at(1))
            found = saver.get_tuple(config(thread, checkpoint_id=at(1)))
            assert found is not None
            assert found.checkpoint["channel_values"] == {"x": [*first, *last]}
            assert found.pending_writes == [("task", "x", 1)]
            assert saver.verify(thread).ok


def test_copy_thread_replaces_nothing(access: Access) -> None:
    """LangGraph PR#6883: onto a thread that is there it raises; of one that is not it does nothing."""
    chain(access, 3)
    chain(access, 1, thread_id="there")
    for target in ("there", "t"):
        with pytest.raises(ValueError, match=target):
            access.copy_thread("t", target)
    access.copy_thread("missing", "new")
    assert access.get_tuple(config("new")) is None
    assert not access.saver.path("new").parent.exists()
    assert (ids(access.list(config())), ids(access.list(config("there")))) == ([at(2), at(1), at(0)], [at(0)])
    access.delete_thread("there")
    access.copy_thread("t", "there")
    assert ids(access.list(config("there"))) == [at(2), at(1), at(0)]


def test_all_three_work_on_an_encrypted_thread(root: Path) -> None:
    """LangGraph PR#6883, #9004: a sealed value names its thread; the copy's values name the copy."""
    key = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    builder = sequence(SnapshotState, ("a", lambda state: both(f"secret-{len(state['plain'])}")))
    with JsonlSaver(root, serde=key) as saver:
        graph = builder.compile(checkpointer=saver)
        for run in (1, 2, 3):
            graph.invoke(both(f"in-{run}"), _run(f"run-{run}"))
        expected = graph.get_state(config()).values
        saver.copy_thread("t", "copy")
        saver.delete_for_runs(["run-2"])
        saver.prune(["t"])
    with JsonlSaver(root, serde=key) as saver:
        graph = builder.compile(checkpointer=saver)
        assert graph.get_state(config()).values == graph.get_state(config("copy")).values == expected
        for thread in ("t", "copy"):
            assert b"secret" not in repr(records(saver.path(thread))).encode()
