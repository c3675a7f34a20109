"""Agents within agents: under a namespace of the thread, or on a thread of their own that names its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cases.logs import records
from langchain_core.runnables import RunnableConfig  # noqa: TC002 - LangChain reads the annotation
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph

from langgraph_jsonl_checkpoint import JsonlSaver
from restore.scene import THREAD, Plain, agent, asks, config, gives, hand_written, said, talk

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from langgraph_jsonl_checkpoint import ToolCall


def places(calls: Iterable[ToolCall]) -> list[tuple[str, list[str], str]]:
    """Of each call its tool, the nodes that its namespace leads through, and its status."""
    return [(c.name, [part.partition(":")[0] for part in c.ns.split("|") if part], c.status) for c in calls]


def clerk(result: Any, *, checkpointer: Any = None) -> Any:
    """An agent that pays."""
    script = [asks(("pay-1", "pay", {"what": "chair"})), "bought"]
    return agent(checkpointer, script, [gives("pay", result)], name="clerk")


def asking(inner: Any, thread: str = "") -> Any:
    """A tool that hands its work to an agent; on a thread of its own, if one is given."""

    @tool
    def delegate(what: str, config: RunnableConfig) -> str:
        """Have it done."""
        own = {"configurable": {"thread_id": thread, "parent_thread_id": config["configurable"]["thread_id"]}}
        result = inner.invoke(said(f"please see to it: {what}"), own if thread else None, durability="sync")
        return str(result["messages"][-1].text)

    return delegate


def test_a_subgraphs_calls_are_told_under_its_namespace(root: Path) -> None:
    """An agent that is a node of a graph, and one that is a node of that."""
    middle = StateGraph(Plain).add_node("clerk", clerk("paid")).add_edge(START, "clerk").compile()
    outer = StateGraph(Plain).add_node("office", middle).add_edge(START, "office")
    with JsonlSaver(root) as saver:
        outer.compile(checkpointer=saver).invoke(said("please buy a chair"), config())
        state = saver.resume_state(THREAD)
        assert places(state.tool_calls) == [("pay", ["office", "clerk"], "completed")]
        assert state.ended == "completed"
        (item,) = state.memory.completed_work
        assert item.text == "pay(what='chair'): paid"
        namespaces = {line["ns"] for line in records(saver.path(THREAD)) if line["type"] == "checkpoint"}
        assert state.tool_calls[0].ns in namespaces


@pytest.mark.parametrize("build", [agent, hand_written], ids=["create_agent", "ToolNode"])
def test_an_agent_called_as_a_tool_is_told_under_its_call(root: Path, build: Any) -> None:
    """Its calls stand under the task of the call that started it; what it left uncertain can be decided upon."""
    script = [asks(("d-1", "delegate", {"what": "a chair"})), "done"]
    with JsonlSaver(root) as saver:
        graph = build(saver, script, [asking(clerk(OSError("no money"), checkpointer=None))])
        with pytest.raises(OSError, match="no money"):
            graph.invoke(said("please buy a chair"), config(), durability="sync")
    with JsonlSaver(root) as saver:
        state = saver.resume_state(THREAD)
        assert places(state.tool_calls) == [("delegate", [], "uncertain"), ("pay", ["tools"], "uncertain")]
        delegate, pay = state.tool_calls
        assert pay.ns == f"tools:{delegate.task_id}"
        saver.resolve(THREAD, "pay-1", {"type": "respond", "message": "it was paid"})
        assert [c.name for c in saver.uncertain(THREAD)] == ["delegate"]


def test_a_resumed_agent_of_a_tool_does_not_run_its_call_again(root: Path) -> None:
    """Approved, the outer call runs again; the inner one has its recorded result."""
    script = [asks(("d-1", "delegate", {"what": "a chair"})), "done"]
    with JsonlSaver(root) as saver:
        broken = [gives("pay", "paid"), gives("pack", OSError("no box"))]
        inner = agent(None, [asks(("p", "pay", {})), asks(("q", "pack", {})), "bought"], broken)
        with pytest.raises(OSError, match="no box"):
            agent(saver, script, [asking(inner)]).invoke(said("please buy a chair"), config(), durability="sync")
    paid: list[str] = []
    with JsonlSaver(root) as saver:
        pay = gives("pay", "")
        pay.func = lambda what="": paid.append("again") or "paid"
        inner = agent(
            None, [asks(("p", "pay", {})), asks(("q", "pack", {})), "bought"], [pay, gives("pack", "packed")]
        )
        for call in saver.uncertain(THREAD):
            saver.resolve(THREAD, call.tool_call_id, {"type": "approve"})
        result = agent(saver, script, [asking(inner)]).invoke(None, config(), durability="sync")
        assert [m.text for m in result["messages"]][-2:] == ["bought", "done"]
        assert places(saver.resume_state(THREAD).tool_calls) == [
            ("delegate", [], "completed"),
            ("pay", ["tools"], "completed"),
            ("pack", ["tools"], "completed"),
        ]
    assert paid == []


def family(saver: JsonlSaver) -> None:
    """A thread whose tool runs an agent on a thread of its own, whose tool does so again."""
    last = clerk("paid", checkpointer=saver)
    script = [asks(("d-2", "delegate", {"what": "a chair"})), "done"]
    middle = agent(saver, script, [asking(last, "grandchild")])
    script = [asks(("d-1", "delegate", {"what": "a chair"})), "done"]
    agent(saver, script, [asking(middle, "child")]).invoke(said("please buy a chair"), config(), durability="sync")


def test_a_childs_thread_names_its_parent(root: Path) -> None:
    """Its header has the parent and its own depth, one more than the parent's; its calls are its own."""
    with JsonlSaver(root) as saver:
        family(saver)
    with JsonlSaver(root) as saver:
        headers = {name: saver.resume_state(name).header for name in (THREAD, "child", "grandchild")}
        assert {name: header["delegation_depth"] for name, header in headers.items()} == {
            THREAD: 0,
            "child": 1,
            "grandchild": 2,
        }
        parents = {name: header["parent"] for name, header in headers.items()}
        assert parents == {THREAD: None, "child": THREAD, "grandchild": "child"}
        calls = {name: [c.name for c in saver.resume_state(name).tool_calls] for name in headers}
        assert calls == {THREAD: ["delegate"], "child": ["delegate"], "grandchild": ["pay"]}
        head = records(saver.path("child"))[0]
        assert (head["type"], head["delegation_depth"]) == ("session", 1)


def test_a_parent_that_has_no_log_is_named_all_the_same(root: Path) -> None:
    """It may be in another place; the child is one of somebody's at any rate."""
    with JsonlSaver(root) as saver:
        talk(saver, ["hello"]).invoke(said("hi"), config("child", parent_thread_id="elsewhere"))
        header = saver.resume_state("child").header
    assert (header["parent"], header["delegation_depth"]) == ("elsewhere", 1)


def test_a_thread_that_exists_keeps_its_parent(root: Path) -> None:
    """The header is never rewritten: a later run by somebody else changes nothing."""
    with JsonlSaver(root) as saver:
        graph = talk(saver, ["one", "two", "three"])
        graph.invoke(said("hi"), config("mine"))
        graph.invoke(said("hi"), config("mine", parent_thread_id=THREAD))
        assert saver.resume_state("mine").header["parent"] is None
        graph.invoke(said("hi"), config("child", parent_thread_id=THREAD))
        graph.invoke(said("hi"), config("child"))
        saver.copy_thread("child", "copy")
        saver.prune(["child"])
        for name in ("child", "copy"):
            header = saver.resume_state(name).header
            assert (header["parent"], header["delegation_depth"]) == (THREAD, 1)


def test_a_child_is_not_offered_as_the_latest_session(root: Path) -> None:
    """The last changed thread that is nobody's child comes first; the children are there for who asks."""
    with JsonlSaver(root) as saver:
        talk(saver, ["hello"]).invoke(said("hi"), config("other"))
        family(saver)
        assert {info.thread_id for info in saver.sessions()} == {THREAD, "other"}
        found = {info.thread_id: (info.parent, info.delegation_depth) for info in saver.sessions(children=True)}
    assert found == {
        THREAD: (None, 0),
        "other": (None, 0),
        "child": (THREAD, 1),
        "grandchild": ("child", 2),
    }


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_child_names_its_parent_whatever_is_stored_first(root: Path, durability: str) -> None:
    """Under durability="exit" that is the record of a tool call."""
    with JsonlSaver(root) as saver:
        given = config("child", parent_thread_id=THREAD)
        clerk("paid", checkpointer=saver).invoke(said("please buy a chair"), given, durability=durability)
        header = saver.resume_state("child").header
    assert (header["parent"], header["delegation_depth"]) == (THREAD, 1)
