"""Public reports about values in LangGraph checkpointers: the smallest thing to try, and the right result."""

from __future__ import annotations

import base64
import contextlib
import copy
from collections import OrderedDict, defaultdict
from fractions import Fraction
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph

from langgraph_jsonl_checkpoint import JsonlSaver, ValueEncodingError

from . import sample_types
from .forge import forge
from .same import difference
from .sample_types import Colour, Counted, Gone, Name, Opaque, Outer
from .samples import LONG
from .thread import Thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig


UNSERIALIZABLE = {
    "langgraph#8350, PurePosixPath": PurePosixPath("/a/b"),
    "langgraph#8350, range": range(3, 9, 2),
    "langgraph#8705, numpy scalar": np.float32(1.5),
    "langgraph#8705, numpy scalars in a dict": {
        "score": np.float64(0.25),
        "n": np.int64(3),
        "ok": np.bool_(True),
    },
    "langgraph#8185, complex": 1 + 2j,
    "langgraph#8185, Fraction": Fraction(1, 3),
    "langgraph#8689, datetime64 array": np.array(["2026-01-02T03:04:05", "NaT"], dtype="datetime64[s]"),
}


@pytest.mark.parametrize("value", [pytest.param(v, id=name) for name, v in UNSERIALIZABLE.items()])
def test_what_the_official_serde_cannot_store_is_stored(thread: Thread, value: Any) -> None:
    """langgraph#8350, #8705, #8185, #8689: a run with such a value in its state goes on."""
    thread.step({"before": 1})
    thread.step({"before": 1, "value": value, "in a message": AIMessage("x", additional_kwargs={"v": value})})
    thread.write([("value", value)])
    thread.reopen()
    read = thread.read()
    assert difference(read.checkpoint["channel_values"]["value"], value) is None
    message = read.checkpoint["channel_values"]["in a message"]
    assert difference(message.additional_kwargs["v"], value) is None
    assert difference(read.pending_writes[0][2], value) is None


def counted() -> Counted:
    """A dataclass whose `init=False` field was changed."""
    value = Counted("a")
    value.hits = 7
    return value


TYPED = {
    "langgraph#6718, nested enum": Outer.Inner.FIRST,
    "langgraph#6718, enum": Colour.RED,
    "langgraph#9021, init=False field": counted(),
    "langgraph#9021, OrderedDict": OrderedDict([("b", 1), ("a", [2])]),
    "langgraph#9021, defaultdict": defaultdict(list, a=[1]),
    "langgraph#9021, str subclass": Name("a"),
}


@pytest.mark.parametrize("value", [pytest.param(v, id=name) for name, v in TYPED.items()])
def test_a_type_is_kept_or_is_what_the_serde_makes_of_it(thread: Thread, value: Any) -> None:
    """langgraph#6718, #9021: the same type, or the official serde's form of it; never None."""
    thread.step({"value": value, "list": [value, LONG], "dict": {"k": value, "long": LONG}})
    thread.write([("value", value)])
    thread.reopen()
    read = thread.read()
    values = read.checkpoint["channel_values"]
    serde = JsonPlusSerializer()
    official = serde.loads_typed(serde.dumps_typed(value))
    for found in (values["value"], values["list"][0], values["dict"]["k"], read.pending_writes[0][2]):
        assert found is not None
        assert difference(found, value) is None or difference(found, official) is None


def test_state_with_an_enum_survives_a_graph(thread: Thread) -> None:
    """langgraph#6718: a node that runs in a new process gets the enum that the node before it returned."""

    class State(TypedDict, total=False):
        colour: Colour
        seen: str

    def paint(state: State) -> State:
        return {"colour": Colour.RED}

    def look(state: State) -> State:
        return {"seen": f"{type(state['colour']).__name__}.{state['colour'].name}"}

    builder = StateGraph(State)
    builder.add_node("paint", paint)
    builder.add_node("look", look)
    builder.add_edge(START, "paint")
    builder.add_edge("paint", "look")
    config: RunnableConfig = {"configurable": {"thread_id": thread.thread_id}}
    builder.compile(checkpointer=thread.saver, interrupt_before=["look"]).invoke({}, config)
    thread.reopen()
    result = builder.compile(checkpointer=thread.saver).invoke(None, config)
    assert result == {"colour": Colour.RED, "seen": "Colour.RED"}


def test_a_value_whose_class_is_gone_is_its_payload(thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    """langgraph#6970: never None passed on as state; the other checkpoints are not affected."""
    thread.step({"value": "before"})
    thread.step({"value": Gone(text="kept"), "list": [Gone(text="kept")]})
    monkeypatch.delattr(sample_types, "Gone")
    thread.reopen()
    assert thread.values() == {"value": {"text": "kept"}, "list": [{"text": "kept"}]}
    assert thread.values(thread.configs[0]) == {"value": "before"}


def test_a_refused_value_leaves_the_log_and_the_saver_as_they_were(thread: Thread) -> None:
    """langgraph#8606: put raises, the log is unchanged, the next put works, also in a graph."""
    thread.step({"messages": [HumanMessage("one", id="1")]})
    log = thread.text()
    held = [HumanMessage("one", id="1"), HumanMessage("two " * 100, id="2")]
    with pytest.raises(ValueEncodingError, match="result"):
        thread.step({"messages": held, "result": Opaque()})
    with pytest.raises(ValueEncodingError, match="result"):
        thread.write([("messages", held), ("result", {"deep": [Opaque()]})])
    assert thread.text() == log
    thread.step({"messages": held})
    thread.reopen()
    assert thread.values() == {"messages": held}
    assert thread.read().parent_config == thread.configs[0]


def test_a_graph_that_returns_a_refused_value_can_go_on(thread: Thread) -> None:
    """langgraph#8606: the run fails with the channel's name; the thread's state is the one before."""

    class State(TypedDict, total=False):
        asked: list[str]
        result: Any

    broken = [True]

    def work(state: State) -> State:
        return {"result": Opaque() if broken[0] else "fine"}

    builder = StateGraph(State)
    builder.add_node("work", work)
    builder.add_edge(START, "work")
    graph = builder.compile(checkpointer=thread.saver)
    config: RunnableConfig = {"configurable": {"thread_id": thread.thread_id}}
    with pytest.raises(ValueEncodingError, match="result"):
        graph.invoke({"asked": ["a"]}, config)
    broken[0] = False
    graph = builder.compile(checkpointer=thread.saver)
    assert graph.get_state(config).values == {"asked": ["a"]}
    assert graph.invoke(None, config) == {"asked": ["a"], "result": "fine"}


def test_one_bad_record_does_not_block_the_others(thread: Thread, tmp_path: Path) -> None:
    """langgraph#6491: a value that cannot be read is an error of its own checkpoint, not of the others."""
    for n in range(3):
        thread.step({"value": {"n": n, "text": LONG}})
    with Thread(tmp_path, "other") as other:
        other.step({"value": "fine"})
    thread.saver.close()

    def spoil(record: dict[str, Any]) -> dict[str, Any]:
        if record["type"] == "checkpoint" and record["step"] == 1:
            return record | {"channels": {"value": {"$unheard_of": 1}}}
        return record

    forge(thread.saver.path("thread"), spoil)
    thread.reopen()
    with pytest.raises(Exception, match="unheard_of"):
        thread.read(thread.configs[1])
    assert thread.values()["value"]["n"] == 2
    assert thread.values(thread.configs[0])["value"]["n"] == 0
    config: RunnableConfig = {"configurable": {"thread_id": "thread"}}
    assert [t.metadata["step"] for t in thread.saver.list(config, limit=1)] == [2]
    assert [t.metadata["step"] for t in thread.saver.list(config, before=thread.configs[1])] == [0]
    found = {t.config["configurable"]["thread_id"] for t in _until_error(thread.saver.list(None))}
    assert "other" in found
    thread.step({"value": "goes on"})
    assert thread.values() == {"value": "goes on"}


def _until_error(tuples: Iterator[Any]) -> Iterator[Any]:
    """What an iterator gives before it raises, if it does."""
    try:
        yield from tuples
    except Exception:
        return


TOUCHED: list[str] = []


def touch(name: str) -> str:
    """What a forged record would like to call."""
    TOUCHED.append(name)
    return name


def packed(code: int, *content: Any) -> dict[str, Any]:
    """A `$serde` tag with a msgpack extension, as a forger would make it."""
    data = ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(content)))
    return {"$serde": ["msgpack", base64.b64encode(data).decode()]}


HERE = f"{__name__}"
FORGED: dict[str, Any] = {
    "constructor with one argument": packed(0, HERE, "touch", "x"),
    "constructor with arguments": packed(1, HERE, "touch", ["x"]),
    "constructor with keywords": packed(2, HERE, "touch", {"name": "x"}),
    "method": packed(3, "os", "path", "x", "exists"),
    "pydantic v1": packed(4, HERE, "touch", {"name": "x"}),
    "pydantic v2": packed(5, HERE, "touch", {"name": "x"}, "model_validate"),
    "pickle": {"$serde": ["pickle", base64.b64encode(b"cbuiltins\nprint\n(S'x'\ntR.").decode()]},
    "json constructor": {
        "$serde": ["json", base64.b64encode(b'{"lc":2,"type":"constructor","id":["os","getcwd"]}').decode()]
    },
    "message class": {"$ref": 0},
    "factory": {"$defaultdict": ["touch", []]},
    "dotted factory": {"$defaultdict": [f"{HERE}.touch", []]},
    "path class": {"$path": ["touch", "x"]},
    "address class": {"$ip": ["touch", "x"]},
    "array of objects": {"$numpy": ["|O", [1], "C", base64.b64encode(b"\x01" * 8).decode()]},
    "unknown tag": {"$object": [HERE, "touch", "x"]},
}


@pytest.mark.parametrize("tree", [pytest.param(t, id=name) for name, t in FORGED.items()])
@pytest.mark.parametrize("place", ["channel", "deep", "write", "metadata"])
def test_a_forged_tag_constructs_nothing(tmp_path: Path, tree: Any, place: str) -> None:
    """CVE-2026-28277: in strict mode a log may name any class; none outside the allowlist is called."""
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    with Thread(tmp_path, serde=strict) as thread:
        thread.step({"messages": [HumanMessage(LONG, id="1")], "value": "mine"})
        thread.write([("value", "mine")])

    def plant(record: dict[str, Any]) -> dict[str, Any]:
        if record["type"] == "message" and tree == {"$ref": 0}:
            return record | {"message": {"class": "touch", "name": "x"}}
        if record["type"] == "checkpoint" and place in ("channel", "deep"):
            value = {"a": [tree, 1]} if place == "deep" else tree
            return record | {"channels": record["channels"] | {"value": value}}
        if record["type"] == "checkpoint" and place == "metadata":
            return record | {"metadata": {"key": tree}}
        if record["type"] == "writes" and place == "write":
            return record | {"writes": [[0, "value", tree]]}
        return record

    forge(thread.saver.path("thread"), plant)
    TOUCHED.clear()
    found: list[Any] = []
    with JsonlSaver(tmp_path, serde=strict) as saver, contextlib.suppress(Exception):  # a refusal
        read = saver.get_tuple(thread.head)
        # The payload as data is what JsonPlusSerializer's strict mode gives.
        found += [read.checkpoint["channel_values"]["value"], read.metadata, read.pending_writes]
    assert TOUCHED == []
    assert all(map(_is_data, found))


def _is_data(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_data, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_data, value))
    return value is None or type(value) in (str, int, float, bool)


def test_the_forgery_works_where_nothing_forbids_it(tmp_path: Path) -> None:
    """The tests above can fail: a permissive serde calls what the forged record names."""
    with Thread(tmp_path) as thread:
        thread.step({"value": "mine"})
    planted = packed(0, HERE, "touch", "x")
    forge(
        thread.saver.path("thread"),
        lambda r: r | {"channels": {"value": planted}} if r["type"] == "checkpoint" else r,
    )
    TOUCHED.clear()
    with JsonlSaver(tmp_path, serde=JsonPlusSerializer(allowed_msgpack_modules=True)) as saver:
        assert saver.get_tuple(thread.head).checkpoint["channel_values"] == {"value": "x"}
    assert TOUCHED == ["x"]


def test_a_clone_with_an_allowlist_reads_what_the_saver_may_not(tmp_path: Path) -> None:
    """CVE-2026-28277: `with_allowlist` widens what may be built for the clone alone, over the same store."""
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    with Thread(tmp_path, serde=strict) as thread:
        thread.step({"colour": Colour.RED})
        clone = thread.saver.with_allowlist([(Colour.__module__, Colour.__name__)])
        assert clone.get_tuple(thread.head).checkpoint["channel_values"] == {"colour": Colour.RED}
        assert thread.values() == {"colour": "red"}


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "dict": lambda s: s["dict"].update(a="changed"),
    "list": lambda s: s["list"].append("changed"),
    "message": lambda s: setattr(s["messages"][0], "content", "changed"),
    "message in depth": lambda s: s["messages"][0].additional_kwargs["a"].append("changed"),
    "array": lambda s: s["array"].__setitem__(0, 9),
    "set": lambda s: s["set"].clear(),
}


@pytest.mark.parametrize("change", [pytest.param(c, id=name) for name, c in CHANGES.items()])
def test_a_change_after_put_does_not_reach_the_log(thread: Thread, change: Callable[[dict], Any]) -> None:
    """langgraph#8748: what was stored is what the value was at the call, in the saver's memory too."""
    state = {
        "dict": {"a": LONG},
        "list": [LONG],
        "messages": [HumanMessage(LONG, additional_kwargs={"a": [1]})],
        "array": np.arange(3),
        "set": {1},
    }
    metadata = {"note": {"a": [1]}}
    want = copy.deepcopy(state)
    thread.step(state, metadata=metadata)
    thread.write(list(state.items()))
    change(state)
    metadata["note"]["a"].append(2)
    for _ in range(2):
        read = thread.read()
        assert difference(read.checkpoint["channel_values"], want) is None
        assert difference({c: v for _, c, v in read.pending_writes}, want) is None
        assert read.metadata["note"] == {"a": [1]}
        thread.reopen()
