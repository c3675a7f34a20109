"""Messages of every class come back with every field, as state, as a write and in LangGraph's own types."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import langchain_core.messages
import pytest
from langchain_core.load import dumps
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy
from pydantic_core import PydanticSerializationError

from langgraph_jsonl_checkpoint.values.messages import MemoryMessage

from .forge import forge
from .same import difference
from .sample_types import Point, Priority, Typed
from .samples import LONG

if TYPE_CHECKING:
    from .thread import Thread

BLOCKS: list[str | dict[str, Any]] = [
    "plain text",
    {"type": "text", "text": LONG, "annotations": [{"start": 0, "end": 1.0}]},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    {"type": "reasoning", "summary": [], "encrypted_content": "\x00\ud800"},
    {"type": "tool_use", "id": "1", "name": "t", "input": {"big": 2**70, "nan": float("nan")}},
]
CALLS = [{"name": "t", "args": {"path": "a", "n": (1, None)}, "id": "call_1", "type": "tool_call"}]
BAD_CALLS = [{"name": "t", "args": "{", "id": None, "error": "unfinished", "type": "invalid_tool_call"}]
USAGE = {
    "input_tokens": 1,
    "output_tokens": 2,
    "total_tokens": 3,
    "input_token_details": {"cache_read": 1},
    "output_token_details": {"reasoning": 0},
}
SHARED: dict[str, Any] = {
    "id": "m-1",
    "name": "someone",
    "additional_kwargs": {"a": (1, 2), "nested": {"b": [1, {2}]}},
    "response_metadata": {"model_name": "x", "logprobs": [-0.0, float("-inf")], "headers": {b"k": "v"}},
}
FULL = SHARED | {"field_of_a_newer_version": {"x": (1,)}}

MESSAGES: dict[str, BaseMessage] = {
    "human": HumanMessage("hi"),
    "human, empty": HumanMessage(""),
    "human, all": HumanMessage(BLOCKS, **FULL),
    "human chunk": HumanMessageChunk("hi", **FULL),
    "system": SystemMessage("be good"),
    "system, all": SystemMessage(BLOCKS, **FULL),
    "system chunk": SystemMessageChunk("be", **FULL),
    "ai": AIMessage("hello", id="1"),
    "ai, all": AIMessage(BLOCKS, tool_calls=CALLS, invalid_tool_calls=BAD_CALLS, usage_metadata=USAGE, **FULL),
    "ai, empty id": AIMessage("", id=""),
    "ai chunk": AIMessageChunk("he"),
    "ai chunk, call in pieces": AIMessageChunk(
        "",
        tool_call_chunks=[{"name": "t", "args": '{"a": 1', "id": "1", "index": 0, "type": "tool_call_chunk"}],
        **FULL,
    ),
    "ai chunk, whole call": AIMessageChunk(
        "",
        tool_call_chunks=[{"name": "t", "args": '{"a": 1}', "id": "1", "index": 0, "type": "tool_call_chunk"}],
        chunk_position="last",
        usage_metadata=USAGE,
    ),
    "ai chunk, calls only": AIMessageChunk("", tool_calls=CALLS),
    "ai chunks, summed": AIMessageChunk("a", id="1", response_metadata={"x": "1"}) + AIMessageChunk("b"),
    "tool": ToolMessage("ok", tool_call_id="call_1"),
    "tool, all": ToolMessage(
        [{"type": "json", "json": {"x": 1}}],
        tool_call_id="call_1",
        artifact={"rows": [(1, 2)], "point": Point(1)},
        status="error",
        **FULL,
    ),
    "tool, id is a UUID": ToolMessage("ok", tool_call_id=uuid.UUID(int=1)),
    "tool, content is no text": ToolMessage(3, tool_call_id="1", artifact=b"\x00"),
    "tool chunk": ToolMessageChunk("o", tool_call_id="1", artifact=None, status="success"),
    "function": FunctionMessage("3", name="f"),
    "function chunk": FunctionMessageChunk("3", name="f", id="1"),
    "chat": ChatMessage("hi", role="critic", **SHARED),
    "chat chunk": ChatMessageChunk("hi", role="critic"),
    "remove": RemoveMessage("m-1"),
    "remove all": RemoveMessage(REMOVE_ALL_MESSAGES),
    "base": BaseMessage("hi", type="odd"),
    "base chunk": BaseMessageChunk("hi", type="odd"),
    "subclass": Priority("hi", level=3, id="1"),
    "subclass with a dataclass": Typed("hi", verdict=Point(1, "a")),
    "surrogates everywhere": HumanMessage("\ud800", id="\udc00", name="\ud800", additional_kwargs={"\ud800": 1}),
    "NUL": HumanMessage("a\x00b"),
    "content like a tag": HumanMessage([{"$ref": 1}], additional_kwargs={"$list": [[0, 1]]}),
    "extra named as ours": HumanMessage("hi", **{"class": "AIMessage", "n": 3}),
    "extra named as a tag": HumanMessage("hi", **{"$serde": ["msgpack", "gA=="], "$ref": 1}),
    "extra named as a field of others": HumanMessage("hi", tool_calls=[], artifact=None, role="x"),
    "text of 100 kB": HumanMessage("0123456789" * 10_000),
}


def assigned(message: AnyMessage, **fields: Any) -> AnyMessage:
    """A message whose fields were set after its class had checked them."""
    for name, value in fields.items():
        setattr(message, name, value)
    return message


MESSAGES |= {
    "content set to None": assigned(AIMessage("x", id="1"), content=None),
    "additional_kwargs set to None": assigned(HumanMessage("x"), additional_kwargs=None),
    "content set to a tuple": assigned(HumanMessage("x"), content=("a", 1)),
    "type set": assigned(HumanMessage("x"), type="user"),
    "calls without an id": assigned(AIMessage("x"), tool_calls=[{"name": "t", "args": None}]),
    "calls set on a chunk": assigned(AIMessageChunk("x"), tool_calls=CALLS),
    "field added": assigned(HumanMessage("x"), later=(1, 2)),
}

HOLDERS = {
    "state": lambda m: [m, HumanMessage("and one more", id="2"), m],
    "one": lambda m: m,
    "dict": lambda m: {"last": m, "all": [m], "tuple": (m, LONG)},
    "Send": lambda m: Send("tools", {"messages": [m], "last": m}, timeout=TimeoutPolicy(run_timeout=1.5)),
    "Sends": lambda m: [Send("tools", [m]), Send("tools", m)],
    "update": lambda m: Command(update={"messages": [m]}, goto="node"),
    "goto": lambda m: Command(goto=[Send("a", [m]), "b"], graph=Command.PARENT),
    "resume": lambda m: Command(resume={"a" * 32: m}),
    "Interrupt": lambda m: (Interrupt({"ask": [m]}, id="i", response_schema={"type": "object"}),),
    "Overwrite": lambda m: Overwrite([m]),
    "snapshot": lambda m: _DeltaSnapshot([m, LONG]),
    "snapshot of a dict": lambda m: _DeltaSnapshot({"a": {"messages": [m]}}),
}


@pytest.mark.parametrize("message", [pytest.param(m, id=name) for name, m in MESSAGES.items()])
def test_a_message_comes_back_with_every_field(thread: Thread, message: BaseMessage) -> None:
    """Same class, same fields, same extra fields: in lists, dicts, Send, Command, Interrupt and snapshots."""
    held = {name: hold(message) for name, hold in HOLDERS.items()}
    thread.step(held)
    thread.write(list(held.items()))
    thread.reopen()
    read = thread.read()
    assert difference(read.checkpoint["channel_values"], held) is None
    assert difference({c: v for _, c, v in read.pending_writes}, held) is None


def test_the_table_has_every_message_class() -> None:
    """A class that langchain_core.messages gains must be added to the table above."""
    exported = {getattr(langchain_core.messages, name) for name in langchain_core.messages.__all__}
    classes = {c for c in exported if isinstance(c, type) and issubclass(c, BaseMessage)}
    assert classes == {type(m) for m in MESSAGES.values()} - {Priority, Typed}


def test_a_message_that_is_like_another_in_all_is_that_one(thread: Thread) -> None:
    """No writer writes it now, but a log may hold it: `like` and no other field."""
    thread.step({"messages": [AIMessage("one", id="1"), AIMessage("two", id="2")]})
    thread.saver.close()
    twin = {"like": {"$ref": 0}}
    forge(thread.saver.path("thread"), lambda r: r | {"message": twin} if r["type"] == "message" and r["n"] else r)
    thread.reopen()
    assert thread.values() == {"messages": [AIMessage("one", id="1")] * 2}
    thread.step({"messages": [AIMessage("one", id="1"), AIMessage("three", id="3")]})
    thread.reopen()
    assert thread.values() == {"messages": [AIMessage("one", id="1"), AIMessage("three", id="3")]}
    assert thread.saver.verify("thread").ok


def test_a_message_that_was_read_works_as_a_message(thread: Thread) -> None:
    """It can be copied, dumped, summed, validated and changed as one that its constructor made."""
    thread.step({"messages": list(MESSAGES.values())})
    thread.reopen()
    for name, read in zip(MESSAGES, thread.values()["messages"], strict=True):
        message = MESSAGES[name]
        assert read == message or "nan" in repr(message), name
        if name.startswith(("content set", "additional_kwargs", "calls without", "type set")):
            continue
        dumps = [dict(sorted(m.model_dump().items())) for m in (read, message)]
        assert difference(*dumps) is None, name
        assert difference(read.model_copy(deep=True), message) is None, name
        assert difference(type(read).model_validate(read.model_dump()).content, message.content) is None, name
        assert str(read.text) == str(message.text), name
        read.content = "changed"
        assert read.content == "changed"


READS = 4  # from the third on, a message is built from what the second one kept


@pytest.mark.parametrize("message", [pytest.param(m, id=name) for name, m in MESSAGES.items()])
@pytest.mark.parametrize("how", ["new", "like another"])
def test_a_message_comes_back_with_its_fields_in_order(thread: Thread, message: BaseMessage, how: str) -> None:
    """What is made of them, and is a cache's key, is the same text: `repr`, JSON and LangChain's dumps."""
    message = message.model_copy(deep=True)
    if how == "like another":
        thread.step({})
        thread.write([("messages", [message])])
        message.id = "given later"
    thread.step({"messages": [message]})
    thread.reopen()
    for _ in range(READS):
        [read] = thread.values()["messages"]
        assert list(read.__dict__) == list(message.__dict__)
        assert list(read.__pydantic_extra__ or {}) == list(message.__pydantic_extra__ or {})
        assert repr(read) == repr(message)
        assert dumped(read) == dumped(message)
        assert dumps(read) == dumps(message)
        thread.step({"messages": [read]})


def dumped(message: BaseMessage) -> str:
    """A message as JSON, or why it has none."""
    try:
        return message.model_dump_json(warnings=False)
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        return str(error)


def test_a_field_that_a_message_lacks_is_not_made_up(thread: Thread) -> None:
    """`model_construct` leaves out what its caller does; no default stands for it."""
    thread.step({"messages": [HumanMessage.model_construct(id="1")]})
    thread.reopen()
    [read] = thread.values()["messages"]
    assert "content" not in read.__dict__
    assert read.id == "1"


OWN = {
    "a question": HumanMessage("my question", id="session-memory"),
    "an answer": AIMessage("<session-memory> is a tag", id="session-memory"),
    "blocks": HumanMessage([{"type": "text", "text": "mine"}], id="session-memory"),
    "no text": HumanMessage([{"type": "image_url", "image_url": {"url": "x"}}], id="session-memory"),
    "content None": assigned(HumanMessage("x", id="session-memory"), content=None),
    "text with the tag": HumanMessage("<session-memory>: what is it?", id="1"),
}


@pytest.mark.parametrize("message", [pytest.param(m, id=name) for name, m in OWN.items()])
def test_a_message_of_the_users_own_is_stored_whatever_its_id(thread: Thread, message: BaseMessage) -> None:
    """Only what has the memory's id and its text is the memory that a saver lends."""
    held = {"messages": [HumanMessage("first"), message], "one": message}
    thread.step(held)
    thread.reopen()
    assert difference(thread.values(), held) is None


LENT = {
    "itself": MemoryMessage("<session-memory>\nNotes", id="session-memory"),
    "with another id": MemoryMessage("notes of a deriver's own", id="other"),
    "from a dict": HumanMessage("<session-memory>\nNotes", id="session-memory"),
    "as blocks": HumanMessage([{"type": "text", "text": "<session-memory>\nNotes"}], id="session-memory"),
    "taken away": RemoveMessage("session-memory"),
}


@pytest.mark.parametrize("message", [pytest.param(m, id=name) for name, m in LENT.items()])
def test_a_lent_memory_is_not_stored_whatever_became_of_its_class(thread: Thread, message: BaseMessage) -> None:
    """Nor what takes it away, which would name a message that the state does not have."""
    thread.step({"messages": [message, HumanMessage("first")], "one": message})
    thread.reopen()
    assert difference(thread.values(), {"messages": [HumanMessage("first")], "one": []}) is None
