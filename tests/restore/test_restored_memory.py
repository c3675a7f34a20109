"""The memory that a saver lends to a crashed thread's restored messages, and never stores."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Overwrite, Send, interrupt
from typing_extensions import TypedDict

from cases.logs import text
from langgraph_jsonl_checkpoint import JsonlSaver
from restore.scene import THREAD, Plain, agent, config, die, hand_written, plain, said, talk
from values.same import difference

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
        assert difference(stored.checkpoint, put) is None
        assert not saver.resume_state(THREAD).crashed


def test_a_process_killed_while_it_waits_for_a_human_has_not_crashed(program: Program, root: Path) -> None:
    """The run had paused; the answer goes to the run, and the model is told nothing else."""
    program.kill("wait_and_die", root)
    with JsonlSaver(root) as saver:
        state = saver.resume_state(THREAD)
        assert (state.crashed, state.ended) == (False, "interrupted")
        assert memories(restored(saver)) == []


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


class Wide(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    other: Any


@dataclasses.dataclass
class Box:
    """What a user may put messages into."""

    messages: list[Any]


@pytest.mark.parametrize(
    "written",
    [
        lambda given: list(given),
        lambda given: [RemoveMessage(REMOVE_ALL_MESSAGES), *given],
        lambda given: Overwrite(list(given)),
        lambda given: [m.model_copy() for m in given],
        lambda given: [copy.deepcopy(m) for m in given],
    ],
    ids=["list", "removed and given again", "Overwrite", "model_copy", "deepcopy"],
)
def test_a_node_that_gives_all_messages_back_does_not_store_it(program: Program, root: Path, written: Any) -> None:
    """However a node writes the messages that it was given, the memory is left out of what is stored."""
    program.kill("die_in_model", root)
    seen: list[int] = []

    def node(state: Any) -> Any:
        seen.append(len(memories(state["messages"])))
        return {"messages": written(state["messages"])}

    with JsonlSaver(root) as saver:
        graph = StateGraph(Wide).add_node("agent", node).add_node("again", node)
        graph.add_edge(START, "agent").add_edge("agent", "again").compile(checkpointer=saver).invoke(None, config())
        assert seen == [1, 1]
        assert memories(restored(saver)) == []
        assert b"session-memory" not in text(saver.path(THREAD))
        assert len(saver.resume_state(THREAD).messages) == 3


@pytest.mark.parametrize(
    "kept",
    [
        lambda given: given,
        lambda given: given[0],
        tuple,
        lambda given: {"a": {"b": list(given)}},
        lambda given: {"first": given[0]},
        lambda given: Box(list(given)),
        lambda given: [list(given), 1],
        lambda given: [Box(list(given)), given[0], "x"],
        lambda given: Send("agent", {"messages": list(given)}),
    ],
    ids=["list", "message", "tuple", "nested", "value", "dataclass", "list of lists", "mixed", "Send"],
)
def test_what_a_node_keeps_elsewhere_does_not_hold_it(program: Program, root: Path, kept: Any) -> None:
    """Messages that are copied into another channel are stored without it."""
    program.kill("die_in_model", root)
    with JsonlSaver(root) as saver:
        graph = StateGraph(Wide).add_node("agent", lambda state: {"other": kept(state["messages"])})
        graph.add_edge(START, "agent").compile(checkpointer=saver).invoke(None, config())
        assert memories(restored(saver)) == []
        assert b"Notes on this session" not in text(saver.path(THREAD))


def test_sends_and_subgraphs_do_not_store_it(program: Program, root: Path) -> None:
    """A task that is given the messages, and a subgraph whose state they become, store them without it."""
    program.kill("die_in_model", root)
    seen: list[tuple[str, int]] = []

    def look(name: str) -> Any:
        def node(state: Any) -> Any:
            seen.append((name, len(memories(state["messages"]))))
            return {"messages": [AIMessage(name, id=name)]}

        return node

    inner = StateGraph(Plain).add_node("in", look("inner")).add_node("more", look("more"))
    inner.add_edge(START, "in").add_edge("in", "more")
    graph = StateGraph(Plain).add_node("agent", lambda state: None).add_node("sent", look("sent"))
    graph.add_node("sub", inner.compile()).add_edge(START, "agent")
    graph.add_conditional_edges("agent", lambda state: [Send("sent", state), Send("sub", dict(state))], ["sent", "sub"])
    with JsonlSaver(root) as saver:
        graph.compile(checkpointer=saver).invoke(None, config())
        log = text(saver.path(THREAD))
        assert memories(restored(saver)) == []
    assert sorted(seen) == [("inner", 1), ("more", 1), ("sent", 1)]
    assert b"$send" in log
    assert b"session-memory" not in log


def test_an_interrupt_that_shows_the_messages_does_not_store_it(program: Program, root: Path) -> None:
    """What a human is shown is stored without it, and so is the state that they send back."""
    program.kill("die_in_model", root)

    def node(state: Any) -> Any:
        return {"messages": interrupt({"messages": state["messages"]})}

    with JsonlSaver(root) as saver:
        graph = StateGraph(Plain).add_node("agent", node).add_edge(START, "agent").compile(checkpointer=saver)
        graph.invoke(None, config())
        graph.update_state(config(), {"messages": graph.get_state(config()).values["messages"]}, as_node="agent")
        graph.invoke(Command(resume=[AIMessage("ok")]), config())
        assert b"session-memory" not in text(saver.path(THREAD))


def test_an_edited_state_does_not_hold_it(program: Program, root: Path) -> None:
    """`update_state` of a crashed thread stores the messages alone."""
    program.kill("die_in_model", root)
    with JsonlSaver(root, restore_memory="always") as saver:
        graph = talk(saver, ["hello", "found"])
        graph.update_state(config(), {"messages": [AIMessage("by hand", id="edit")]}, as_node="agent")
        assert b"session-memory" not in text(saver.path(THREAD))
        assert plain(saver.resume_state(THREAD).messages)[-2:] == [("human", GOAL), ("ai", "by hand")]


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
    from restore.scene import asks, fails, gives

    with JsonlSaver(root) as saver:
        graph = agent(saver, [asks(("1", "act", {"what": "x"}))], [gives("act", OSError("no space"))])
        with pytest.raises(OSError, match="no space"):
            graph.invoke(said("do something useful"), config())
        assert memories(restored(saver)) == []
    with JsonlSaver(root) as saver:
        (memory,) = memories(restored(saver))
        assert "outcome unknown: act(what='x') raised an error (OSError: no space)" in memory.text
        graph = agent(saver, [asks(("1", "act", {"what": "x"})), "done", "next"], [fails("act", "")], hooked=False)
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


def test_dying_kills() -> None:
    """The jobs of these tests end by a signal that no handler sees."""
    assert die.__doc__ == "End this process as an out-of-memory killer does."
