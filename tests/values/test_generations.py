"""What a saver holds of a thread means nothing any more when another saver has rewritten the thread's log."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.log.lines import Lines
from langgraph_jsonl_checkpoint.values.book import Book
from langgraph_jsonl_checkpoint.values.freeze import Freezer
from langgraph_jsonl_checkpoint.values.known import Known
from langgraph_jsonl_checkpoint.values.page import Page

from .same import difference
from .samples import LONG, PLAIN
from .thread import Thread

if TYPE_CHECKING:
    from pathlib import Path


def state(number: int) -> dict[str, Any]:
    """A state of everything: small and large values, in lists, in dicts, in tuples, beside and inside messages."""
    values = list(PLAIN.values())
    return {
        "messages": [
            HumanMessage(f"question {n}", id=f"q{n}", additional_kwargs={"values": values, "large": LONG})
            if n % 2
            else AIMessage(f"{LONG} {n}", id=f"a{n}", tool_calls=[{"name": "f", "args": {"v": values}, "id": str(n)}])
            for n in range(10 + number)
        ],
        "list": [*values, *range(number), LONG + str(number)],
        "numbers": [float("nan"), 2**70, *map(float, range(100 + number))],
        "dict": {f"key {n}": {"text": LONG + str(n), "pair": (values, [HumanMessage(LONG)])} for n in range(20)},
        "plain": PLAIN,
    }


@pytest.mark.parametrize("held", ["put", "read"])
def test_what_was_put_or_read_before_a_prune_is_written_whole_after_it(tmp_path: Path, held: str) -> None:
    """A process goes on with a state whose numbers were given in a log that another process has pruned."""
    with Thread(tmp_path) as thread:
        for number in range(3):
            values = state(number)
            thread.step(values)
            thread.write(list(values.items()))
        if held == "read":
            thread.reopen()
            values = thread.read().checkpoint["channel_values"]
        with JsonlSaver(tmp_path) as other:
            other.prune([thread.thread_id])
        values["list"] = [*values["list"], "new"]
        values["messages"] = [*values["messages"][1:], HumanMessage("new", id="new")]
        expected = copy.deepcopy(values)
        thread.step(values)
        thread.write([("dict", values["dict"])])
        thread.reopen()
        stored = thread.read()
        assert difference(stored.checkpoint["channel_values"], expected) is None
        assert difference(stored.pending_writes, [("task", "dict", expected["dict"])]) is None
        with JsonlSaver(tmp_path) as other:
            assert len(list(other.list({"configurable": {"thread_id": thread.thread_id}}))) == 2


ARTIFACTS = {
    "tuple": (1, "two"),
    "set in a dict": {"a": {1}, "b": 2},
    "tuple in a list": ["x", ("y",)],
    "message": HumanMessage(LONG, additional_kwargs={"pair": (1, 2)}),
}


@pytest.mark.parametrize("artifact", ARTIFACTS.values(), ids=ARTIFACTS)
@pytest.mark.parametrize("how", ["pack", "prune", "evict"])
def test_a_written_message_that_changed_in_place_is_put_into_a_log_that_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, artifact: Any
) -> None:
    """LangGraph gives a message its id when its write is stored and packed, and its artifact cannot be compared."""
    with Thread(tmp_path, max_open=1) as thread, JsonlSaver(tmp_path) as other:
        thread.step({"messages": []})
        thread.step({"messages": [], "x": 1})
        message = ToolMessage("done", tool_call_id="c", artifact=artifact)
        thread.write([("messages", [message])])
        written = copy.deepcopy(message)
        if how == "evict":
            put = JsonlSaver._put

            def put_late(saver: JsonlSaver, config: Any, call: Any) -> Any:
                monkeypatch.undo()
                beside = {"configurable": {"thread_id": "beside", "checkpoint_ns": ""}}
                saver.put(beside, {**empty_checkpoint(), "id": "1"}, {}, {})
                return put(saver, config, call)

            monkeypatch.setattr(JsonlSaver, "_put", put_late)
        else:
            other.pack(thread.thread_id) if how == "pack" else other.prune([thread.thread_id])
        message.id = "given"
        given = copy.deepcopy(message)
        thread.step({"messages": [message]})
        thread.reopen()
        assert difference(thread.values(), {"messages": [given]}) is None
        if how != "prune":
            assert (
                difference(thread.read(thread.configs[1]).pending_writes, [("task", "messages", [written])]) is None
            )
        assert thread.saver.verify(thread.thread_id).ok


def test_a_message_that_was_first_stored_by_what_is_like_it_is_whole_in_a_log_that_was_replaced(
    tmp_path: Path,
) -> None:
    """A put overtakes the write of the message that it changed, and the log is packed before the write is stored."""
    with Thread(tmp_path) as thread, JsonlSaver(tmp_path) as other:
        thread.step({"messages": []})
        message = ToolMessage(
            "done", tool_call_id="c", artifact=[{"pair": (1, 2), "text": LONG}, ({"a": {1}, "b": LONG},)]
        )
        saver, late = thread.saver, [("messages", [message])]
        call = saver._writes_call(thread.head, late, "late", "")
        written = copy.deepcopy(message)
        message.id = "given"
        thread.step({"messages": [message]})
        assert other.pack(thread.thread_id)
        saver._put_writes(thread.configs[0], call)
        thread.reopen()
        assert difference(thread.read(thread.configs[0]).pending_writes, [("late", "messages", [written])]) is None


def test_a_number_of_a_commit_that_failed_means_nothing() -> None:
    """Another thread freezes the same state, as objects of its own, while a commit is made that will fail."""
    messages = [HumanMessage(f"{n}", id=f"{n}") for n in range(5)]
    freezer, book = Freezer(Known(), lambda _: None), Book(Lines(""))
    first = freezer.freeze(messages)[0]
    failing = Page(book, None)
    failing.text(first)
    twin = freezer.freeze(copy.deepcopy(messages), first)[0]
    failing.drop()
    page = Page(book, None)
    page.text(freezer.freeze(HumanMessage("another", id="x"))[0])
    page.text(twin)
    texts = [msgspec.json.decode(record.message)["content"] for record in page.records]
    assert texts == ["another", *(str(n) for n in range(5))]
