"""However a graph passes the lent memory on, it is in no byte of the log."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from cases.logs import text
from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Overwrite, Send, interrupt
from typing_extensions import TypedDict

from langgraph_jsonl_checkpoint import JsonlSaver
from restore.scene import THREAD, Plain, config, plain, talk
from restore.test_restored_memory import GOAL, memories, restored

if TYPE_CHECKING:
    from pathlib import Path

    from restore.conftest import Program


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
        list,
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
    graph.add_conditional_edges(
        "agent", lambda state: [Send("sent", state), Send("sub", dict(state))], ["sent", "sub"]
    )
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
