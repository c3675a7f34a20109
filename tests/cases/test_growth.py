"""Growth: what a thread costs on disk and in work follows what is new, not how long the thread is."""

from __future__ import annotations

import itertools
import math
import operator
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from scripted import ScriptedModel

from cases.graphs import (
    ChatState,
    DeltaChatState,
    call,
    config,
    prose,
    put,
    sequence,
)
from cases.logs import of_type, text
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _sizes(root: Path, turn: Callable[[JsonlSaver, int], None], steps: tuple[int, ...], reopened: bool) -> list[int]:
    """The bytes of the log after so many turns each."""
    saver = JsonlSaver(root, fsync="never")
    found = []
    for before, after in itertools.pairwise((0, *steps)):
        for number in range(before, after):
            turn(saver, number)
            if reopened:
                saver.close()
                saver = JsonlSaver(root, fsync="never")
        if reopened:
            saver.pack("t")  # a closed log is packed now and then: all of it, where it is measured
        found.append(saver.path("t").stat().st_size)
    saver.close()
    return found


def _exponent(sizes: list[int]) -> float:
    """By what power the bytes grow over the last doubling."""
    return math.log2(sizes[-1] / sizes[-2])


def _messages(state: type) -> Callable[[JsonlSaver, int], None]:
    """A turn of a chat: a question and an answer of 1 kB each."""

    def reply(values: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [AIMessage(prose(len(values["messages"]), 1000))]}

    def turn(saver: JsonlSaver, number: int) -> None:
        graph = sequence(state, ("reply", reply)).compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage(prose(-number, 1000))]}, config())

    return turn


def _list_of_dicts(saver: JsonlSaver, number: int) -> None:
    class State(ChatState):
        events: Annotated[list[dict], operator.add]

    node = lambda values: {"events": [{"n": len(values["events"]), "text": prose(number, 500)}]}
    sequence(State, ("node", node)).compile(checkpointer=saver).invoke({"events": []}, config())


def _files(saver: JsonlSaver, number: int) -> None:
    class State(ChatState):
        files: Annotated[dict, operator.or_]

    node = lambda _: {"files": {f"f{number}.py": prose(number, 500)}}
    sequence(State, ("node", node)).compile(checkpointer=saver).invoke({"files": {}}, config())


def _trimmed(saver: JsonlSaver, number: int) -> None:
    """A conversation of which the node keeps the last twenty messages."""

    def node(values: dict[str, Any]) -> dict[str, Any]:
        old = [RemoveMessage(message.id) for message in values["messages"][:-20]]
        return {"messages": [*old, AIMessage(prose(number, 500))]}

    graph = sequence(ChatState, ("node", node)).compile(checkpointer=saver)
    graph.invoke({"messages": [HumanMessage(str(number))]}, config())


def _subgraph(saver: JsonlSaver, number: int) -> None:
    """The conversation is handed to a subgraph that remembers a list of its own."""

    class Inner(ChatState):
        notes: Annotated[list, operator.add]

    inner = sequence(Inner, ("note", lambda _: {"notes": [prose(number, 300)]})).compile(checkpointer=True)
    reply = lambda _: {"messages": [AIMessage(prose(number, 300))]}
    graph = sequence(ChatState, ("reply", reply), ("inner", inner)).compile(checkpointer=saver)
    graph.invoke({"messages": [HumanMessage(str(number))]}, config())


@pytest.mark.slow
@pytest.mark.parametrize("reopened", [False, True], ids=["one-saver", "a-saver-each-turn"])
@pytest.mark.parametrize(
    ("turn", "new", "turns"),
    [
        (_messages(ChatState), 2000, 120),
        # A DeltaChannel stores a snapshot every fifty turns.
        (_messages(DeltaChatState), 2000, 200),
        (_list_of_dicts, 520, 160),
        (_files, 510, 160),
        (_trimmed, 510, 120),
        (_subgraph, 610, 100),
    ],
    ids=["messages", "delta", "dicts", "files", "trimmed", "subgraph"],
)
def test_bytes_grow_linearly(root: Path, turn: Callable, new: int, turns: int, reopened: bool) -> None:
    """deer-flow#3011, gaia PR#818, pizza-bot#58: twice the turns are twice the bytes, no more."""
    sizes = _sizes(root, turn, (turns // 4, turns // 2, turns), reopened)
    # A part that grows with the square and is a tenth of the whole would make this 1.13.
    assert _exponent(sizes) <= 1.08
    # What is new, and five hundred bytes for each commit; a saver of snapshots holds many times this.
    assert sizes[-1] <= turns * new + 500 * text(JsonlSaver(root).path("t")).count(b',"chain":"')


@pytest.mark.slow
def test_five_hundred_turns_of_two_kilobytes_cost_what_is_new(root: Path) -> None:
    """deer-flow#3011: 500 turns of 2 kB, of which a saver of snapshots makes hundreds of megabytes."""
    sizes = _sizes(root, _messages(ChatState), (125, 250, 500), reopened=False)
    assert _exponent(sizes) <= 1.05
    assert sizes[-1] <= 500 * 4000


def test_a_channel_that_does_not_change_is_stored_once(root: Path) -> None:
    """Gaia PR#818: `files` of 100 kB beside fifty turns is in the log once, though saved at every step."""
    files = {f"{n}.py": prose(n, 5000) for n in range(20)}
    needle = files["7.py"][100:200].encode()
    with JsonlSaver(root) as saver:
        graph = sequence(
            type("State", (ChatState,), {"__annotations__": {"files": dict}}),
            ("a", lambda _: {"messages": [("ai", "ok")]}),
        ).compile(checkpointer=saver)
        graph.invoke({"messages": [], "files": files}, config())
        first = saver.path("t").stat().st_size
        for turn in range(50):
            graph.invoke({"messages": [("user", str(turn))]}, config())
        assert graph.get_state(config()).values["files"] == files
        assert text(saver.path("t")).count(needle) == 1
        assert saver.path("t").stat().st_size - first < 50 * 3 * 1500
    with JsonlSaver(root) as saver:
        stored = saver.get_tuple(config())
        put(saver, "ffff", {"files": stored.checkpoint["channel_values"]["files"]})
        assert text(saver.path("t")).count(needle) == 1, "nor again after a restart"


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    return prose(word, 400)


@pytest.mark.parametrize("reopened", [False, True])
def test_input_and_task_channels_hold_no_copies_of_the_state(root: Path, reopened: bool) -> None:
    """Gaia PR#818: `__start__`, `__pregel_tasks` and Send arguments refer to the messages they carry."""
    turns = 8
    script = [
        message
        for n in range(turns)
        for message in (
            AIMessage(
                prose(f"ai-{n}", 300),
                tool_calls=[call("lookup", f"c{n}-{i}", word=f"{n}") for i in range(2)],
            ),
            AIMessage(f"done {n} {prose(n, 300)}"),
        )
    ]
    saver = JsonlSaver(root)
    for turn in range(turns):
        if reopened:
            saver.close()
            saver = JsonlSaver(root)
        agent = create_agent(ScriptedModel(script=script), [lookup], checkpointer=saver)
        agent.invoke({"messages": [HumanMessage(f"question-{turn} {prose(turn, 300)}", id=f"h{turn}")]}, config())
    messages = agent.get_state(config()).values["messages"]
    assert len(messages) == 5 * turns
    assert len(of_type(saver.path("t"), "message")) == len(messages)
    lines = text(saver.path("t"))
    for turn in range(turns):
        assert lines.count(f"question-{turn} ".encode()) == 1
        assert lines.count(prose(f"ai-{turn}", 300).encode()) == 1
    saver.close()


def test_a_send_carries_no_copy_of_its_argument(root: Path) -> None:
    """Gaia PR#818: forty sends of one state cost forty references."""
    from langgraph.types import Send

    builder = StateGraph(ChatState)
    builder.add_node("worker", lambda _: {"messages": []})
    builder.add_conditional_edges(START, lambda state: [Send("worker", state)] * 40, ["worker"])
    with JsonlSaver(root) as saver:
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage(f"needle {prose(n, 900)}") for n in range(10)]}, config())
        assert text(saver.path("t")).count(b"needle") == 10
        assert len(text(saver.path("t"))) < 10 * 1500 + 40 * 1000
