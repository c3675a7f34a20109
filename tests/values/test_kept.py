"""A message that is read again and again is the same each time, and nobody's but its reader's."""

from __future__ import annotations

from collections import OrderedDict, deque
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_jsonl_checkpoint.values.kept import Kept

from .same import difference
from .test_encryption import encrypted
from .test_messages import MESSAGES
from .thread import Thread

if TYPE_CHECKING:
    from pathlib import Path

CALL = {"name": "t", "args": {"path": ["a"]}, "id": "c", "type": "tool_call"}
READS = 4  # the first reads the text, the second keeps what it says, the later ones are built from that


def inside(message: BaseMessage) -> Any:
    """All that a message holds, in its order."""
    own, extra = message.__dict__, message.__pydantic_extra__
    return type(message), list(own), own, list(extra or {}), extra, message.__pydantic_fields_set__


EMPTY = [(), set(), b"", bytearray(), Decimal(0), timedelta(0), deque(), OrderedDict(), [], {}, "", 0, 0.0, False]
ALL = MESSAGES | {
    f"artifact {empty!r}": ToolMessage("x", tool_call_id="c", id="1", artifact=empty) for empty in EMPTY
}
# Whose truth value is an error.
ALL["artifact an array"] = ToolMessage("x", tool_call_id="c", id="1", artifact=np.arange(3))


@pytest.mark.parametrize("name", ALL)
def test_a_message_is_the_same_at_each_read(thread: Thread, name: str) -> None:
    """Every class and every field, in a list and alone."""
    message = ALL[name]
    thread.step({"messages": [HumanMessage("before", id="0"), message], "last": message})
    thread.reopen()
    first = thread.values()
    for _ in range(READS):
        read = thread.values()
        for one, other in ((first["messages"][1], read["messages"][1]), (first["last"], read["last"])):
            assert difference(inside(other), inside(one)) is None
            assert difference(other, message) is None
        assert read["messages"][1] is not first["messages"][1]


def test_what_a_reader_changes_nobody_else_sees(thread: Thread) -> None:
    """Fields, and what is in a field, of the message that any of the reads gave."""
    messages = [
        HumanMessage("hi", id="1"),
        AIMessage("so", id="2", tool_calls=[CALL], response_metadata={"model": {"name": "x"}}),
        ToolMessage("done", tool_call_id="c", id="3"),
    ]
    thread.step({"messages": messages})
    thread.reopen()
    given = [frozenset(m.__pydantic_fields_set__) for m in thread.values()["messages"]]
    for _ in range(READS):
        human, ai, tool = thread.values()["messages"]
        assert difference([human, ai, tool], messages) is None
        assert [m.__pydantic_fields_set__ for m in (human, ai, tool)] == given
        human.content = "changed"
        human.additional_kwargs["new"] = 1
        ai.tool_calls[0]["args"]["path"].append("b")
        ai.tool_calls.append({**CALL, "id": "d"})
        ai.response_metadata["model"]["name"] = "y"
        ai.invalid_tool_calls.append({"name": "bad"})
        tool.id = "other"
        tool.__pydantic_fields_set__.clear()
        tool.newer_field = 1


def test_a_message_that_changed_in_place_is_another_one(thread: Thread) -> None:
    """A run changes what it was given; each checkpoint keeps its own."""
    thread.step({"messages": [AIMessage("one", id="1", tool_calls=[CALL])]})
    expected = ["one"]
    for _ in range(READS):
        (message,) = thread.values()["messages"]
        message.content += "+"
        message.tool_calls[0]["args"]["path"][0] = message.content
        thread.step({"messages": [message]})
        expected.append(message.content)
    for _ in range(2):
        read = [thread.values(config)["messages"][0] for config in thread.configs]
        assert [m.content for m in read] == expected
        assert [m.tool_calls[0]["args"]["path"] for m in read] == [["a"], *([text] for text in expected[1:])]
        thread.reopen()


def test_another_saver_may_append_and_rewrite_between_reads(thread: Thread) -> None:
    """What is numbered anew is read anew: after a prune the same numbers are other messages."""
    messages = [HumanMessage(f"{n}" * 100, id=f"{n}") for n in range(6)]
    for step in range(6):
        thread.step({"messages": messages[5 - step :][:1]})
    with Thread(thread.root) as other:
        for _ in range(READS):
            assert [other.values(c)["messages"] for c in thread.configs] == [[m] for m in reversed(messages)]
        thread.saver.prune(["thread"], strategy="keep_latest")
        for _ in range(READS):
            assert other.values()["messages"] == messages[:1]
        thread.step({"messages": messages[:2]})
        for _ in range(READS):
            assert other.values()["messages"] == messages[:2]


def test_what_is_kept_is_bounded() -> None:
    """A session of a million messages keeps some of them, and none that is long."""
    kept, line = Kept(), b'{"message":{}}'
    for _ in range(2):
        for number in range(20_000):
            kept.note(number, HumanMessage("x"), line)
    assert kept.between(0, 8191) is not None
    assert kept.get(8192) is None
    kept = Kept()
    for _ in range(3):
        kept.note(0, HumanMessage("x" * 5000), b"x" * 5000)
    assert kept.get(0) is None


def test_a_sealed_thread_keeps_nothing_in_the_clear(tmp_path: Path) -> None:
    """Under a serde that encrypts, texts stay sealed until they are read, and nothing else is kept."""
    with Thread(tmp_path, serde=encrypted()) as thread:
        thread.step({"messages": [HumanMessage("a-secret-of-mine", id="1")]})
        thread.reopen()
        for _ in range(READS):
            assert thread.values()["messages"] == [HumanMessage("a-secret-of-mine", id="1")]
        assert thread.saver._sessions.peek("thread").book.kept.get(0) is None
