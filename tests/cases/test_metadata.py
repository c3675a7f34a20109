"""Metadata, the filters on it, and text that JSON or a query language could trip over."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from typing_extensions import TypedDict

from cases.graphs import ChatState, at, call, checkpoint, config, ids, put, sequence
from cases.logs import records, text

if TYPE_CHECKING:
    from cases.conftest import Access

LONE = ["\ud800", "a\udc80b", "\udfff", "\ud83d", "\ude00\ud83d"]
NUMBERS = [math.nan, math.inf, -math.inf, -0.0, 1e308, 5e-324]


def _same(one: Any, other: Any) -> bool:
    """Equal, with NaN equal to itself and 0.0 not to -0.0."""
    return repr(one) == repr(other)


def test_a_nul_stays_in_a_message_and_leaves_the_metadata(access: Access) -> None:
    """langgraph#1878: a message keeps its NUL; metadata strings lose it, as in the official savers."""
    message = HumanMessage("a\x00b", id="\x00", additional_kwargs={"k\x00": ["\x00"]})
    stored = checkpoint(at(0), {"messages": [message], "text": "\x00", "c\x00": {"\x00": 1}})
    where = config()
    where["metadata"] = {"from_config": "x\x00y"}
    where["configurable"]["also"] = "\x00z"
    metadata = {"step": 1, "user": "a\x00lice", "nested": {"deep": "\x00"}}
    access.put(where, stored, metadata, stored["channel_versions"])
    access.put_writes(config(checkpoint_id=at(0)), [("messages", [message]), ("c\x00", "\x00")], "t\x00", "\x00")
    found = access.get_tuple(config())
    assert found.checkpoint["channel_values"] == stored["channel_values"]
    assert found.pending_writes == [("t\x00", "messages", [message]), ("t\x00", "c\x00", "\x00")]
    assert found.metadata["user"] == "alice"
    assert found.metadata["from_config"] == "xy"
    assert found.metadata["also"] == "z"
    assert found.metadata["nested"] == {"deep": "\x00"}
    assert ids(access.list(config(), filter={"user": "alice"})) == [at(0)]
    assert ids(access.list(config(), filter={"user": "a\x00lice"})) == []
    records(access.saver.path("t"))


@pytest.mark.parametrize("lone", LONE, ids=ascii)
def test_lone_surrogates_come_back_wherever_they_stand(access: Access, lone: str) -> None:
    """LangGraph PR#6395: in content, arguments, metadata, and in the names of channels, nodes and tasks."""
    values = {
        "messages": [
            HumanMessage(f"x{lone}", id=lone, name=lone, additional_kwargs={lone: lone}),
            AIMessage("", tool_calls=[call("f", f"c{lone}", path=lone, deep=[{lone: [lone]}])]),
            ToolMessage(lone * 200, tool_call_id=f"c{lone}"),
        ],
        f"channel{lone}": {lone: [lone, (lone,)], "plain": "é"},
    }
    stored = checkpoint(at(0), values)
    stored["versions_seen"] = {f"node{lone}": {f"channel{lone}": "1"}}
    stored["updated_channels"] = [f"channel{lone}"]
    where = config("t", f"ns{lone}")
    access.put(where, stored, {"step": 0, lone: lone, "parents": {lone: lone}}, stored["channel_versions"])
    where = config("t", f"ns{lone}", at(0))
    access.put_writes(where, [(f"channel{lone}", lone)], f"task{lone}", f"path{lone}")
    found = access.get_tuple(config("t", f"ns{lone}"))
    assert found.config == where
    assert found.checkpoint == stored
    assert found.pending_writes == [(f"task{lone}", f"channel{lone}", lone)]
    assert (found.metadata[lone], found.metadata["parents"]) == (lone, {lone: lone})
    assert ids(access.list(config(ns=None), filter={lone: lone})) == [at(0)]
    for record in records(access.saver.path("t")):
        json.dumps(record, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize("lone", LONE[:2], ids=ascii)
def test_a_graph_with_lone_surrogates_in_its_state_runs_and_resumes(access: Access, lone: str) -> None:
    """LangGraph PR#6395: a channel whose name and value no UTF-8 can hold (LangGraph has no such nodes)."""
    State = TypedDict("State", {f"c{lone}": str, "n": int})
    builder = sequence(State, ("node", lambda state: {f"c{lone}": state[f"c{lone}"] + lone, "n": 1}))
    graph = access.graph(builder, interrupt_before=["node"])
    graph.invoke({f"c{lone}": "x"}, config())
    access.reopen()
    assert graph.get_state(config()).next == ("node",)
    assert graph.invoke(None, config()) == {f"c{lone}": f"x{lone}", "n": 1}
    assert graph.get_state(config()).values == {f"c{lone}": f"x{lone}", "n": 1}


def test_nan_and_infinities_come_back_and_the_log_is_strict_json(access: Access) -> None:
    """CopilotKit#1955: in state, arguments, writes and metadata; no line of the log says NaN."""
    values = {
        "numbers": NUMBERS,
        "dict": {"nan": math.nan, "list": [NUMBERS, {"deep": -math.inf}]},
        "long": {f"key{n}": {"score": math.nan, "text": "x" * 40} for n in range(20)},
    }
    message = AIMessage("", id="a", tool_calls=[call("f", "c", bound=math.inf, low=[-math.inf, -0.0])])
    metadata = {"step": 1, "score": math.nan, "deep": {"numbers": NUMBERS}}
    stored = checkpoint(at(0), {"message": message, **values})
    access.put(config(), stored, metadata, stored["channel_versions"])
    access.put_writes(config(checkpoint_id=at(0)), [("numbers", NUMBERS), ("one", -math.inf)], "task")
    found = access.get_tuple(config())
    assert found.checkpoint["channel_values"].pop("message") == message
    assert _same(found.checkpoint["channel_values"], values)
    assert _same(found.pending_writes, [("task", "numbers", NUMBERS), ("task", "one", -math.inf)])
    assert _same({key: found.metadata[key] for key in metadata}, metadata)
    assert not re.search(rb"[:,\[](NaN|-?Infinity|null,null,null)", text(access.saver.path("t")))
    records(access.saver.path("t"))


@dataclass
class Score:
    """A value as people put it into metadata."""

    value: float
    label: str


def test_metadata_may_hold_messages_sets_and_objects(access: Access) -> None:
    """langgraph#3441, #5862: `put` and `list` work, and each comes back as it was; a tuple as JSON has it."""
    metadata = {
        "source": "loop",
        "step": 3,
        "parents": {},
        "message": HumanMessage("hi", id="h", additional_kwargs={"a": [1]}),
        "writes": {"node": {"messages": [AIMessage("long " * 100, id="a")]}},
        "tags": {"x", "y"},
        "pair": (1, (2,)),
        "score": Score(1.5, "good"),
        "bytes": b"\x00\xff",
        "number": 2**70,
        "keys": {1: "one", (1, 2): "two", "$ref": 3},
        "empty": {},
        "none": None,
    }
    put(access, at(0), {"n": 1}, **{key: value for key, value in metadata.items() if key != "source"})
    metadata["pair"] = [1, [2]]
    found = access.get_tuple(config())
    assert {key: found.metadata[key] for key in metadata} == metadata
    assert type(found.metadata["score"]) is Score
    (listed,) = access.list(config(), filter={"step": 3})
    assert listed.metadata == found.metadata
    for key in ("tags", "pair", "message", "number", "keys", "empty", "bytes"):
        assert ids(access.list(config(), filter={key: metadata[key]})) == [at(0)], key


def test_metadata_comes_from_the_config_as_in_the_official_savers(access: Access) -> None:
    """langgraphjs#2504: plain values of the config's metadata and configurable are there to filter by."""
    graph = access.graph(sequence(ChatState, ("n", lambda _: {"messages": [("ai", "ok")]})))
    for thread, user in [("t1", "ann"), ("t2", "bob"), ("t3", "ann")]:
        where = config(thread)
        where["metadata"] = {"tenant": f"tenant-{thread}", "__private": "x", "list": [1]}
        where["configurable"] |= {"user": user, "level": 3, "__secret": "x", "object": {"a": 1}}
        graph.invoke({"messages": [("user", "hi")]}, where)
    found = access.get_tuple(config("t1")).metadata
    assert (found["tenant"], found["user"], found["level"]) == ("tenant-t1", "ann", 3)
    assert not {"__private", "__secret", "object", "thread_id", "checkpoint_ns", "checkpoint_id"} & found.keys()
    threads = [item.config["configurable"]["thread_id"] for item in access.list(None, filter={"user": "ann"})]
    assert sorted(set(threads)) == ["t1", "t3"]
    assert len(threads) == 6
    assert len(access.list(None, filter={"user": "ann", "tenant": "tenant-t1"})) == 3
    assert access.list(None, filter={"user": "eve"}) == []


def test_a_filter_on_a_custom_key_filters(access: Access) -> None:
    """langgraphjs#2504: whole values compare; an unknown key matches nothing, None a missing key."""
    puts = [
        (0, {"user": "ann", "tags": ["a", "b"], "deep": {"x": {"y": 1}}}),
        (1, {"user": "bob", "tags": ["a"], "deep": {"x": {"y": 1}, "z": 2}}),
        (2, {"user": None, "tags": "a", "flag": True}),
        (3, {"level": 1}),
        (4, {"level": "1"}),
    ]
    for place, metadata in puts:
        put(access, at(place), {"n": place}, **metadata)
    for criteria, places in [
        ({}, [4, 3, 2, 1, 0]),
        (None, [4, 3, 2, 1, 0]),
        ({"user": "ann"}, [0]),
        ({"user": None}, [4, 3, 2]),
        ({"user": ""}, []),
        ({"tags": ["a", "b"]}, [0]),
        ({"tags": ["b", "a"]}, []),
        ({"tags": "a"}, [2]),
        ({"deep": {"x": {"y": 1}}}, [0]),
        ({"deep": {"x": {"y": 2}}}, []),
        ({"level": 1}, [3]),
        ({"level": "1"}, [4]),
        ({"user": "ann", "level": 1}, []),
        ({"source": "loop", "user": "bob"}, [1]),
        ({"unknown": "ann"}, []),
        ({"unknown": {}}, []),
        ({"step": 0}, [4, 3, 2, 1, 0]),
    ]:
        assert ids(access.list(config(), filter=criteria)) == [at(place) for place in places], criteria
        assert ids(access.list(None, filter=criteria)) == [at(place) for place in places], criteria
    assert ids(access.list(config(), filter={"user": None}, limit=2)) == [at(4), at(3)]
    before = config(checkpoint_id=at(4))
    assert ids(access.list(config(), filter={"user": None}, before=before, limit=1)) == [at(3)]


HOSTILE = [
    *("'", '"', "a'b", "') OR 1=1 --", "x' OR '1'='1", "a.b", "a.b.c", "$.x", "$", "$ref", "$where", "$gt"),
    *("a]['b", "[0]", "*", ".*", "^user$", "us.r", "(?i)USER", "user|", "%", "_", "u%", "\\", "\\x00", "\n"),
    *(
        "",
        " ",
        "user ",
        "User",
        "user\0",
        "user;drop table checkpoints",
        "@user:{ann}",
        "{ann}",
        "-",
        "~",
        "e\u0301",
    ),
]


@pytest.mark.parametrize("key", HOSTILE, ids=ascii)
def test_a_filter_key_is_data(access: Access, key: str) -> None:
    """CVE-2025-67644, CVE-2025-64104: quotes, dots, `$` and regular expressions only name a key."""
    put(access, at(0), {"n": 0}, user="ann", a={"b": {"c": 1}}, x=1)
    put(access, at(1), {"n": 1}, user="bob", **{key: "hostile"})
    assert ids(access.list(config(), filter={key: "hostile"})) == [at(1)]
    assert ids(access.list(config(), filter={key: "ann"})) == []
    assert ids(access.list(None, filter={key: {"$ne": 1}})) == []
    assert ids(access.list(config(), filter={"user": key})) == []
    assert ids(access.list(config(), filter={"user": {"$regex": ".*"}})) == []
    assert ids(access.list(config(), filter={"user": ["ann", "bob"]})) == []


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_thread_namespace_or_id_is_no_pattern(access: Access, name: str) -> None:
    """CVE-2025-64104: a config's names match themselves only."""
    put(access, "user", {"n": 0}, thread_id="user", ns="user")
    assert access.list(config(name, None)) == []
    assert access.list(config("user", ns=name)) == []
    assert access.get_tuple(config("user", ns=name)) is None
    assert access.get_tuple(config("user", ns="user", checkpoint_id=name or "x")) is None
    assert len(access.list(config("user", None))) == 1
