"""The conversations of the tests that rewrite, copy and delete: a thread of each kind, and what can be seen of it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from kill.bare import frames, records
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import StateSnapshot


class Plain(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=3)]


# Each has three runs, the last of them stopped before its end: `asks` by an interrupt. `copy` has none yet.
THREADS: dict[str, type] = {"plain": Plain, "delta": Delta, "asks": Plain, "copy": Delta}


class Seen(NamedTuple):
    """All that can be read of a thread."""

    stored: list[CheckpointTuple]
    state: StateSnapshot


def config(thread: str, run: int = 0) -> RunnableConfig:
    """The config of a run of a thread."""
    return {"configurable": {"thread_id": thread, "run_id": f"{thread}-{run}"}}


def build(saver: JsonlSaver, thread: str, meanwhile: Callable[[], Any] = lambda: None) -> Any:
    """A graph of two supersteps; `meanwhile` is called in the first, `ask` makes the second wait for a human."""

    def say(state: Any) -> Any:
        meanwhile()
        count = len(state["messages"])
        return {"messages": [AIMessage(f"heard {count}", id=f"say {count}")]}

    def end(state: Any) -> Any:
        answer = interrupt("sure?") if state["messages"][-2].text == "ask" else "done"
        return {"messages": [AIMessage(answer, id=f"end {len(state['messages'])}")]}

    builder = StateGraph(THREADS[thread]).add_node("say", say).add_node("end", end)
    return builder.add_edge(START, "say").add_edge("say", "end").compile(checkpointer=saver)


def turn(agent: Any, thread: str, text: str, run: int, **options: Any) -> None:
    """Say something."""
    message = HumanMessage(text, id=f"in {run}")
    agent.invoke({"messages": [message]}, config(thread, run), durability="sync", **options)


def resume(agent: Any, thread: str) -> None:
    """Let a stopped run end."""
    waits = agent.get_state(config(thread)).interrupts
    agent.invoke(Command(resume="yes") if waits else None, config(thread, 3), durability="sync")


def fill(root: Path) -> None:
    """Hold the conversations, and leave what processes leave that are killed while they write a log."""
    with JsonlSaver(root, restore_memory="never") as saver:
        for thread in ("plain", "delta", "asks"):
            agent = build(saver, thread)
            turn(agent, thread, "one", 1)
            turn(agent, thread, "two", 2)
            if thread == "asks":
                turn(agent, thread, "ask", 3)
            else:
                turn(agent, thread, "three", 3, interrupt_before=["end"])
    # It may be a whole log that was not in its place yet; this one is another thread's, to be told from its own.
    for thread in ("delta", "asks"):
        shutil.copy(log_of(root, "plain"), log_of(root, thread).with_name(".new-0123456789abcdef"))


def tear(log: Path) -> bytes:
    """Leave half a commit behind a log, as a writer does that dies there; return that half."""
    data = log.read_bytes()
    begin, end = (place for place, _ in frames(data)[-2:])
    torn = data[begin : (begin + end) // 2]
    log.write_bytes(data + torn)
    return torn


def log_of(root: Path, thread: str) -> Path:
    """Where a thread's log is, or would be."""
    with JsonlSaver(root, restore_memory="never") as saver:
        return saver.path(thread)


def look(root: Path, threads: Iterable[str]) -> dict[str, Seen]:
    """All that a new saver reads of these threads; a list of all threads has the same of them."""
    with JsonlSaver(root, restore_memory="never") as saver:
        found = {
            thread: Seen(list(saver.list(config(thread))), build(saver, thread).get_state(config(thread)))
            for thread in threads
        }
        listed = [stored.config for stored in saver.list(None)]
    for thread, seen in found.items():
        mine = [each for each in listed if each["configurable"]["thread_id"] == thread]
        assert mine == [stored.config for stored in seen.stored]
    return found


def texts(agent: Any, thread: str) -> list[str]:
    """The conversation."""
    return [message.text for message in agent.get_state(config(thread)).values.get("messages", [])]


def whole(log: Path) -> list[dict[str, Any]]:
    """The records of a log; none is lost, and no checkpoint or write is there twice."""
    lines = records(log)
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    checkpoints = [line["id"] for line in lines if line["type"] == "checkpoint"]
    assert len(checkpoints) == len(set(checkpoints))
    calls = [line for line in lines if line["type"] == "writes"]
    writes = [(call["checkpoint"], call["task"], index) for call in calls for index, _, _ in call["writes"]]
    assert len(writes) == len(set(writes))
    return lines
