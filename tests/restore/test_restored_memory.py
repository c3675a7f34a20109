"""The memory that a saver lends to a crashed thread's restored messages, and never stores."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from cases.logs import text
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from values.same import difference

from langgraph_jsonl_checkpoint import JsonlSaver
from restore.jobs import talk_and
from restore.scene import THREAD, Plain, agent, asks, config, gives, hand_written, plain, said, talk

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.messages import BaseMessage

    from restore.conftest import Program

BEGIN = "<session-memory>"
GOAL = "go on with the lexer, please"


class Put(JsonlSaver):
    """Keeps a copy of the last checkpoint that was put."""

    last: Any = None

    def put(self, config: Any, checkpoint: Any, *given: Any) -> Any:
        """A checkpoint."""
        self.last = copy.deepcopy(checkpoint)
        return super().put(config, checkpoint, *given)


def memories(messages: Any) -> list[BaseMessage]:
    """The memory messages among messages."""
    return [message for message in messages if BEGIN in message.text]


def restored(saver: JsonlSaver, thread: str = THREAD) -> list[BaseMessage]:
    """The messages of a thread's newest checkpoint."""
    stored = saver.get_tuple(config(thread))
    assert stored is not None
    found: list[BaseMessage] = stored.checkpoint["channel_values"]["messages"]
    return found


def test_a_crashed_threads_messages_begin_with_its_memory(program: Program, root: Path) -> None:
    """One message more, a user's by its role, in front of exactly those that were stored."""
    program.kill("die_in_model", root)
    with JsonlSaver(root) as saver, JsonlSaver(root, restore_memory="never") as never:
        memory, *messages = restored(saver)
        assert (memory.type, memory.id) == ("human", "session-memory")
        assert isinstance(memory, HumanMessage)
        assert memory.text == str(saver.session_memory(THREAD))
        assert GOAL in memory.text
        assert difference(messages, restored(never)) is None
        assert plain(messages) == [("human", "find the bug in the parser"), ("ai", "hello"), ("human", GOAL)]
        assert list(saver.resume_state(THREAD).messages) == messages


def test_only_the_newest_checkpoint_has_it(program: Program, root: Path) -> None:
    """A checkpoint that is asked for by its id, and those of a list, are what was put."""
    program.kill("die_in_model", root)
    with JsonlSaver(root) as saver:
        listed = list(saver.list(config()))
        assert [memories(found.checkpoint["channel_values"].get("messages", [])) for found in listed] == [[]] * 5
        for found in listed:
            again = saver.get_tuple(found.config)
            assert again is not None
            assert difference(again.checkpoint, found.checkpoint) is None


def test_the_resumed_run_has_it_and_the_next_one_not(program: Program, root: Path) -> None:
    """Every request of the run that goes on begins with it; the state has it no more when that has ended."""
    program.kill("die_in_model", root)
    requests: list[Any] = []
    with JsonlSaver(root) as saver:
        graph = talk(saver, ["hello", "found", "next"], requests=requests)
        graph.invoke(None, config())
        assert memories(restored(saver)) == []
        graph.invoke(said("thank you"), config())
        assert [len(memories(request)) for request in requests] == [1, 0]
        assert BEGIN in requests[0][0].text
        assert b"session-memory" not in text(saver.path(THREAD))
        assert plain(saver.resume_state(THREAD).messages)[-2:] == [("human", "thank you"), ("ai", "next")]


def test_a_new_message_after_a_crash_has_it(program: Program, root: Path) -> None:
    """A user who writes instead of resuming reaches a model that knows what happened."""
    program.kill("die_in_model", root)
    requests: list[Any] = []
    with JsonlSaver(root) as saver:
        talk(saver, ["hello", "found"], requests=requests).invoke(said("did it work?"), config())
        assert plain(requests[0][1:])[-1] == ("human", "did it work?")
        assert len(memories(requests[0])) == 1
        assert memories(restored(saver)) == []
        assert b"session-memory" not in text(saver.path(THREAD))


def test_never_means_exactly_what_was_put(root: Path, program: Program) -> None:
    """With `restore_memory="never"` a crashed thread is what it was."""
    program.kill("die_in_model", root)
    requests: list[Any] = []
    with JsonlSaver(root, restore_memory="never") as saver:
        assert memories(restored(saver)) == []
        talk(saver, ["hello", "found"], requests=requests).invoke(None, config())
        assert memories(requests[0]) == []


def test_always_lends_it_to_each_run(root: Path) -> None:
    """Each run has the memory once, however many turns there are, and none is stored."""
    requests: list[Any] = []
    with JsonlSaver(root, restore_memory="always") as saver:
        graph = talk(saver, [f"answer {n}" for n in range(5)], requests=requests)
        for turn in range(5):
            graph.invoke(said(f"message {turn} of this long story"), config())
        assert [len(memories(request)) for request in requests] == [0, 1, 1, 1, 1]
        assert "message 3 of" in requests[4][0].text
        assert b"session-memory" not in text(saver.path(THREAD))
        assert len(saver.resume_state(THREAD).messages) == 10


@pytest.mark.parametrize("how", ["completed", "interrupt", "interrupt_before"])
def test_what_was_put_is_what_is_read(root: Path, how: str) -> None:
    """A run that ended, or paused for a human and its writer closed, is no crash: nothing is added."""

    def node(_: Any) -> Any:
        return {"messages": [AIMessage(interrupt("sure?") if how == "interrupt" else "ok", id="a")]}

    with Put(root) as saver:
        graph = StateGraph(Plain).add_node("n", node).add_edge(START, "n")
        before = ["n"] if how == "interrupt_before" else None
        graph.compile(checkpointer=saver, interrupt_before=before).invoke(said("do something useful"), config())
        put = saver.last
    with JsonlSaver(root) as saver:
        stored = saver.get_tuple(config())
        assert stored is not None
        for key in sorted({*stored.checkpoint, *put}):  # the keys are LangGraph's, and their order means nothing
            assert difference(stored.checkpoint[key], put[key]) is None  # type: ignore[literal-required]
        assert not saver.resume_state(THREAD).crashed


@pytest.mark.parametrize(
    "job", ["wait_and_die", "wait_at_once_and_die", "wait_beside_a_subgraph_and_die", "wait_beside_a_tool_and_die"]
)
def test_a_process_killed_while_it_waits_for_a_human_has_not_crashed(program: Program, root: Path, job: str) -> None:
    """The run had paused; the answer goes to the run, and the model is told nothing else."""
    program.kill(job, root)
    with JsonlSaver(root) as saver:
        state = saver.resume_state(THREAD)
        assert (state.crashed, state.ended) == (False, "interrupted")
        assert memories(restored(saver)) == []


def test_a_crashed_run_that_somebody_ended_does_not_make_the_next_one_crash(program: Program, root: Path) -> None:
    """`update_state` took the thread to its end: a new run of a living process is told as one."""
    program.kill("die_unhooked", root)
    seen: list[Any] = []

    def look() -> dict[str, Any]:
        seen.append((saver.resume_state(THREAD).crashed, memories(restored(saver))))
        return {}

    with JsonlSaver(root) as saver:
        graph = talk_and(look, saver)
        assert saver.resume_state(THREAD).crashed
        graph.update_state(config(), {"messages": [AIMessage("given up")]}, as_node="node")
        for _ in range(2):
            graph.invoke(said("please do something else"), config())
        assert seen == [(False, [])] * 2


def test_a_static_pause_of_a_killed_writer_is_a_crash(program: Program, root: Path) -> None:
    """Nobody can tell it from a run that was killed there."""
    program.kill("pause_unwatched", root, how="killed")
    with JsonlSaver(root) as saver:
        assert saver.resume_state(THREAD).crashed
        assert len(memories(restored(saver))) == 1


def test_a_living_writers_thread_is_left_alone(program: Program, root: Path) -> None:
    """Its run goes on, in this process or another."""
    seen: list[Any] = []

    def look() -> AIMessage:
        with JsonlSaver(root) as other:
            seen.extend([*memories(restored(saver)), *memories(restored(other))])
        return AIMessage("ok")

    with JsonlSaver(root) as saver:
        talk(saver, [look]).invoke(said("do something useful"), config(), durability="sync")
    assert seen == []


def test_over_many_crashes_it_is_never_doubled(program: Program, root: Path) -> None:
    """Each request has it at most once, the log never, and no message is lost or repeated."""
    for turn in range(6):
        act = program.kill if turn % 2 else program.run
        for report in act("crash_often", root, turn=turn):
            assert report["memories"] == (1 if turn and not turn % 2 else 0)
        with JsonlSaver(root) as saver:
            assert len(memories(restored(saver))) == turn % 2
            assert b"session-memory" not in text(saver.path(THREAD))
    with JsonlSaver(root) as saver:
        messages = saver.resume_state(THREAD).messages
    assert [m.text for m in messages if m.type == "human"] == [f"message {n} has some words" for n in range(6)]


def test_a_second_crash_in_the_resumed_run_has_it_once(program: Program, root: Path) -> None:
    """A run that was killed, restored and killed again is restored with one memory, the newest."""
    program.kill("die_in_model", root)
    for _ in range(3):
        program.kill("resume_and_die", root)
    with JsonlSaver(root) as saver:
        assert len(memories(restored(saver))) == 1
        assert b"session-memory" not in text(saver.path(THREAD))


def test_copies_and_prunes_are_lent_it_too(program: Program, root: Path) -> None:
    """A copy of a crashed thread, and what a prune left of it, is still one that crashed."""
    program.kill("die_in_model", root)
    with JsonlSaver(root) as saver:
        saver.prune([THREAD])
        assert len(memories(restored(saver))) == 1
        saver.copy_thread(THREAD, "copy")
        assert len(memories(restored(saver, "copy"))) == 1
        assert b"session-memory" not in text(saver.path("copy")) + text(saver.path(THREAD))


@pytest.mark.parametrize("build", [agent, hand_written], ids=["SessionMiddleware", "inject"])
def test_with_a_hook_the_model_sees_it_once(program: Program, root: Path, build: Any) -> None:
    """The hook takes the lent one out of what it sends: only its own, in the system message, is left."""
    program.kill("die_in_model", root)
    requests: list[Any] = []
    with JsonlSaver(root) as saver:
        graph = build(saver, ["hello", "found", "next"], requests=requests)
        assert len(memories(restored(saver))) == 1
        graph.invoke(said("did you find it?"), config())
        graph.invoke(said("and where is it?"), config())
        for request in requests:
            assert [type(m) for m in memories(request)] == [SystemMessage]
            assert str(request).count(BEGIN) == 1
        assert b"session-memory" not in text(saver.path(THREAD))


def test_an_uncertain_call_keeps_the_memory_coming(root: Path) -> None:
    """A failed run with an uncertain call is lent it, though nobody was killed, until its next run ends."""
    with JsonlSaver(root) as saver:
        graph = agent(saver, [asks(("1", "act", {"what": "x"}))], [gives("act", OSError("no space"))])
        with pytest.raises(OSError, match="no space"):
            graph.invoke(said("do something useful"), config())
        assert memories(restored(saver)) == []
    with JsonlSaver(root) as saver:
        (memory,) = memories(restored(saver))
        assert "outcome unknown: act(what='x') raised an error (OSError: no space)" in memory.text
        saver.resolve(THREAD, "1", {"type": "reject"})
        assert memories(restored(saver)) == []


def test_a_thread_without_messages_is_left_alone(root: Path, program: Program) -> None:
    """Where no list of messages is, nothing is lent."""
    program.kill("die_without_messages", root)
    with JsonlSaver(root) as saver:
        assert saver.resume_state(THREAD).crashed
        stored = saver.get_tuple(config())
        assert stored is not None
        assert stored.checkpoint["channel_values"]["messages"] == ["plain text"]
        assert stored.checkpoint["channel_values"]["other"] == {"messages": []}
