"""Inputs with an id are applied once, however often their process is killed and started again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import Command

from langgraph_jsonl_checkpoint import JsonlSaver, aresume_or_invoke, resume_or_invoke
from restore.jobs import Counting, buyer
from restore.scene import THREAD, agent, asks, config, gives, plain, said, talk, waits

if TYPE_CHECKING:
    from pathlib import Path

    from restore.conftest import Program

FIRST = [("human", "buy 1"), ("ai", ""), ("tool", "found 1"), ("ai", "found 1")]
BOTH = [*FIRST, ("human", "buy 2"), ("ai", ""), ("tool", "found 2"), ("ai", "found 2")]
APPENDS = {"sync": 9, "async": 9, "exit": 1}


def apply_async(*given: Any, **options: Any) -> Any:
    """`aresume_or_invoke`, as a plain function."""
    return asyncio.run(aresume_or_invoke(*given, **options))


each_way = pytest.mark.parametrize("apply", [resume_or_invoke, apply_async], ids=["sync", "async"])


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("durability", "count"), [(how, count) for how, most in APPENDS.items() for count in range(1, most + 1)]
)
def test_a_killed_input_is_applied_once(program: Program, root: Path, durability: str, when: str, count: int) -> None:
    """Killed around any append and delivered again many times, it is in the thread once; the next is, too."""
    given = {"root": root, "input_id": "mail-1", "text": "buy 1", "durability": durability}
    program.try_to_kill("apply_input", **given, when=when, count=count)
    program.try_to_kill("apply_input", **given, when="after", count=1)
    for _ in range(3):
        program.run("apply_input", **given, when="", count=0)
    with JsonlSaver(root) as saver:
        state = saver.resume_state(THREAD)
        assert plain(state.messages) == FIRST
        assert (state.inputs, state.ended) == (frozenset({"mail-1"}), "completed")
        assert not saver.accepts(THREAD, "mail-1")
        assert saver.accepts(THREAD, "mail-2")
    program.run("apply_input", **given | {"input_id": "mail-2", "text": "buy 2"}, when="", count=0)
    program.run("apply_input", **given, when="", count=0)
    with JsonlSaver(root) as saver:
        assert plain(saver.resume_state(THREAD).messages) == BOTH


@pytest.mark.parametrize(("durability", "most"), APPENDS.items())
def test_the_places_to_die_are_all_there_are(root: Path, durability: str, most: int) -> None:
    """The test above kills around each append of a run, and there is no further one."""
    with Counting(root) as saver:
        resume_or_invoke(buyer(saver), said("buy 1"), config(), input_id="mail-1", durability=durability)
        assert saver.count == most


@each_way
def test_a_seen_input_changes_nothing(root: Path, apply: Any) -> None:
    """It gives what the thread holds; the model is not asked and the log does not grow."""
    with JsonlSaver(root) as saver:
        graph = talk(saver, ["hello"])
        first = apply(graph, said("hi"), config(), input_id="1")
        size = saver.path(THREAD).stat().st_size
        assert apply(graph, said("hi"), config(), input_id="1") == first
        assert apply(graph, said("hi"), config(input_id="1")) == first
        assert saver.path(THREAD).stat().st_size == size
    assert plain(first["messages"]) == [("human", "hi"), ("ai", "hello")]


@each_way
def test_a_new_input_is_applied(root: Path, apply: Any) -> None:
    """Another id is another input, also if it says the same; ids are a thread's own, and 7 is "7"."""
    with JsonlSaver(root) as saver:
        graph = talk(saver, ["one", "two"])
        apply(graph, said("hi"), config(), input_id="1")
        result = apply(graph, said("hi"), config(input_id=7))
        assert plain(result["messages"]) == [("human", "hi"), ("ai", "one"), ("human", "hi"), ("ai", "two")]
        assert saver.resume_state(THREAD).inputs == {"1", "7"}
        assert not saver.accepts(THREAD, 7)  # type: ignore[arg-type]
        assert saver.accepts("another", "7")


@each_way
def test_an_input_without_an_id_goes_on_or_is_applied(root: Path, apply: Any) -> None:
    """It is taken for the one that an unfinished run came from; where no run is unfinished it is new each time."""
    with JsonlSaver(root) as saver:
        down = [gives("act", OSError("down"))]
        with pytest.raises(OSError, match="down"):
            apply(agent(saver, [asks(("c", "act", {}))], down), said("hi"), config(), durability="sync")
        graph = agent(saver, [asks(("c", "act", {})), "done", "again"], [gives("act", "ok")])
        result = apply(graph, said("hi"), config())
        assert plain(result["messages"]) == [("human", "hi"), ("ai", ""), ("tool", "ok"), ("ai", "done")]
        result = apply(graph, said("hi"), config())
        assert plain(result["messages"])[4:] == [("human", "hi"), ("ai", "again")]
        assert saver.resume_state(THREAD).inputs == frozenset()


@each_way
def test_a_new_input_waits_for_the_run_that_was_killed(program: Program, root: Path, apply: Any) -> None:
    """The unfinished run of another input goes on first; then the new one is applied."""
    program.kill("apply_input", root, input_id="mail-1", text="buy 1", durability="sync", when="after", count=3)
    with JsonlSaver(root) as saver:
        result = apply(buyer(saver), said("buy 2"), config(), input_id="mail-2")
        assert plain(result["messages"]) == BOTH
        assert saver.resume_state(THREAD).inputs == {"mail-1", "mail-2"}


@each_way
def test_a_run_whose_next_is_empty_goes_on(program: Program, root: Path, apply: Any) -> None:
    """All tasks have stored their writes and the checkpoint behind them is missing: that is unfinished, too."""
    program.kill("die_before_the_end", root)
    with JsonlSaver(root, restore_memory="never") as saver:
        graph = buyer(saver)
        state = graph.get_state(config())
        assert (state.next, len(state.tasks)) == ((), 1)
        assert plain(state.values["messages"]) == FIRST
        assert saver.resume_state(THREAD).ended is None
        assert plain(apply(graph, said("buy 1"), config(), input_id="1")["messages"]) == FIRST
        assert saver.resume_state(THREAD).ended == "completed"


@each_way
def test_a_failed_run_goes_on(root: Path, apply: Any) -> None:
    """A run that raised is unfinished: its input is not applied a second time."""
    with JsonlSaver(root) as saver:
        failing = agent(saver, [asks(("c", "lookup", {}))], [gives("lookup", OSError("down"))])
        for _ in range(2):
            with pytest.raises(OSError, match="down"):
                apply(failing, said("hi"), config(), input_id="1")
        assert not saver.accepts(THREAD, "1")
    with JsonlSaver(root) as saver:
        graph = agent(saver, [asks(("c", "lookup", {})), "done"], [gives("lookup", "up")])
        result = apply(graph, said("hi"), config(), input_id="1")
    assert plain(result["messages"]) == [("human", "hi"), ("ai", ""), ("tool", "up"), ("ai", "done")]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_failed_run_has_its_input(root: Path, durability: str) -> None:
    """Whenever the checkpoints are stored, also only at the end of a run that raises."""
    with JsonlSaver(root) as saver:
        failing = agent(saver, [asks(("c", "lookup", {}))], [gives("lookup", OSError("down"))])
        with pytest.raises(OSError, match="down"):
            resume_or_invoke(failing, said("hi"), config(), input_id="1", durability=durability)
    with JsonlSaver(root) as saver:
        assert not saver.accepts(THREAD, "1")
        graph = agent(saver, [asks(("c", "lookup", {})), "done"], [gives("lookup", "up")])
        for _ in range(2):
            result = resume_or_invoke(graph, said("hi"), config(), input_id="1", durability=durability)
            assert plain(result["messages"]) == [("human", "hi"), ("ai", ""), ("tool", "up"), ("ai", "done")]


@each_way
def test_a_run_that_waits_for_a_human_goes_on_waiting(root: Path, apply: Any) -> None:
    """Neither the same input nor a new one is taken for the answer; a `Command` is; then the new input is applied."""
    with JsonlSaver(root) as saver:
        graph = agent(saver, [asks(("c", "ask", {"what": "sure?"})), "done", "next"], [waits("ask")])
        for name in ("1", "1", "2"):
            result = apply(graph, said(f"message {name}"), config(), input_id=name)
            assert [each.value for each in result["__interrupt__"]] == ["sure?"]
        assert saver.accepts(THREAD, "2")
        result = apply(graph, Command(resume="yes"), config())
        answered = [("human", "message 1"), ("ai", ""), ("tool", "answered yes"), ("ai", "done")]
        assert plain(result["messages"]) == answered
        result = apply(graph, said("message 2"), config(), input_id="2")
        assert plain(result["messages"]) == [*answered, ("human", "message 2"), ("ai", "next")]


def test_the_id_may_come_with_the_config_of_a_plain_invoke(root: Path) -> None:
    """`graph.invoke` with an input_id records it, too: the id belongs to the input alone, not to what comes after."""
    with JsonlSaver(root) as saver:
        graph = talk(saver, ["one", "two"])
        graph.invoke(said("hi"), config(input_id="1"))
        graph.update_state(config(input_id="edit"), said("changed"))
        assert saver.resume_state(THREAD).inputs == {"1"}


def test_pruning_and_copying_keep_the_ids(root: Path) -> None:
    """An input is applied once also if the checkpoint that says so is gone, and to a copy of the thread."""
    with JsonlSaver(root) as saver:
        graph = talk(saver, ["one", "two", "three"])
        for name in ("1", "2"):
            resume_or_invoke(graph, said("hi"), config(), input_id=name)
        saver.prune([THREAD])
        assert len(list(saver.list(config()))) == 1
        saver.copy_thread(THREAD, "copy")
        saver.prune([THREAD])
        resume_or_invoke(graph, said("hi"), config(), input_id="3")
        saver.prune([THREAD])
    with JsonlSaver(root) as saver:
        assert saver.resume_state(THREAD).inputs == {"1", "2", "3"}
        assert saver.resume_state("copy").inputs == {"1", "2"}
        assert saver.accepts("copy", "3")


def test_a_deleted_thread_accepts_its_inputs_again(root: Path) -> None:
    """A thread that is deleted is a new one."""
    with JsonlSaver(root) as saver:
        graph = talk(saver, ["one"])
        resume_or_invoke(graph, said("hi"), config(), input_id="1")
        saver.delete_thread(THREAD)
        assert saver.accepts(THREAD, "1")
        result = resume_or_invoke(graph, said("hi"), config(), input_id="1")
    assert plain(result["messages"]) == [("human", "hi"), ("ai", "one")]


def test_a_graph_without_a_saver_is_refused() -> None:
    """Its inputs could not be told apart."""
    with pytest.raises(ValueError, match="checkpointer"):
        resume_or_invoke(talk(None, ["one"]), said("hi"), config(), input_id="1")
