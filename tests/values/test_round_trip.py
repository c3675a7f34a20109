"""What is put is what is read after a reopen, at every place where LangGraph holds a value."""

from __future__ import annotations

import gc
import json
from bisect import bisect_left
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Overwrite, Send

from langgraph_jsonl_checkpoint import ValueEncodingError

from .same import difference, listed
from .sample_types import Mode, Name, Opaque, Person, Point
from .samples import AS_THE_SERDE, LONG, SAME, SAME_OR_REFUSED
from .thread import Thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PLACES: dict[str, Callable[[Any], Any]] = {
    "channel": lambda v: v,
    "list": lambda v: [v],
    "list of many": lambda v: [LONG, v, [v], LONG],
    "tuple": lambda v: (1, v),
    "dict": lambda v: {"key": v},
    "dict of many": lambda v: {"a": LONG, "key": v, "z": {"key": v, "b": LONG}},
    "additional_kwargs": lambda v: HumanMessage("hi", id="1", additional_kwargs={"extra": v, "in": [v]}),
    "artifact": lambda v: ToolMessage("ok", tool_call_id="1", artifact=v),
    "tool call args": lambda v: AIMessage("", tool_calls=[{"name": "t", "id": "1", "args": {"arg": v}}]),
    "messages": lambda v: [
        HumanMessage(LONG, id="1"),
        HumanMessage("hi", id="2", additional_kwargs={"v": v}),
    ],
    "Send": lambda v: Send("node", {"arg": v}),
    "Command": lambda v: Command(update={"key": v}, resume=v, goto=[Send("node", v)]),
    "Interrupt": lambda v: Interrupt(v, id="1"),
    "Overwrite": Overwrite,
    "snapshot": lambda v: _DeltaSnapshot([LONG, v]),
}


def written_and_read(thread: Thread, value: Any) -> dict[str, Any]:
    """Put a value at every place, as state, as a write and in metadata; reopen; what is there now."""
    held = {place: hold(value) for place, hold in PLACES.items()}
    thread.step(held, metadata={"value": {"held": value}})
    thread.write(list(held.items()))
    thread.reopen()
    read = thread.read()
    writes = {f"write of {channel}": it for _, channel, it in read.pending_writes}
    return read.checkpoint["channel_values"] | writes | {"metadata": read.metadata["value"]}


def expected(value: Any) -> dict[str, Any]:
    """What `written_and_read` returns if nothing is lost."""
    held = {place: hold(value) for place, hold in PLACES.items()}
    writes = {f"write of {place}": it for place, it in held.items()}
    return held | writes | {"metadata": listed({"held": value})}


def as_the_serde(value: Any) -> Any:
    """What comes back from the serializer that official savers use."""
    serde = JsonPlusSerializer()
    return serde.loads_typed(serde.dumps_typed(value))


@pytest.mark.parametrize("value", [pytest.param(v, id=name) for name, v in SAME.items()])
def test_a_value_comes_back_with_its_type_wherever_it_was(thread: Thread, value: Any) -> None:
    """A channel, a write, metadata, any depth of containers and messages: the same value, the same type."""
    read = written_and_read(thread, value)
    want = expected(value)
    assert list(read) == list(want)
    assert not [d for place in want if (d := difference(read[place], want[place], place))]


@pytest.mark.parametrize("value", [pytest.param(v, id=name) for name, v in AS_THE_SERDE.items()])
def test_what_goes_through_the_serde_comes_back_as_the_serde_has_it(thread: Thread, value: Any) -> None:
    """Where JsonPlusSerializer gives something else back, that or the value itself; never None."""
    read = written_and_read(thread, value)
    exact, official = expected(value), expected(as_the_serde(value))
    wrong = {
        place: (of_exact, of_official)
        for place in exact
        if (of_exact := difference(read[place], exact[place], place))
        and (of_official := difference(read[place], official[place], place))
    }
    assert not wrong


@pytest.mark.parametrize("value", [pytest.param(v, id=name) for name, v in SAME_OR_REFUSED.items()])
def test_what_the_serde_refuses_comes_back_the_same_or_is_refused(thread: Thread, value: Any) -> None:
    """Never something else: a value that `put` took is the value that is read."""
    try:
        thread.step({"channel": value})
    except ValueEncodingError:
        thread.step({"channel": "put after the refusal"})
        assert thread.values() == {"channel": "put after the refusal"}
        return
    thread.reopen()
    assert difference(thread.values()["channel"], value) is None


FRAMES = {
    "frame": pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=["r", "s"]),
    "series": pd.Series([1.5, np.nan], name="n"),
    "timestamps": pd.DataFrame({"t": pd.to_datetime(["2026-01-02", None])}),
}


@pytest.mark.parametrize("value", [pytest.param(v, id=name) for name, v in FRAMES.items()])
def test_a_pickle_fallback_stores_frames(tmp_path: Path, value: Any) -> None:
    """What the caller's serde can store is stored, at every place."""
    with Thread(tmp_path, serde=JsonPlusSerializer(pickle_fallback=True)) as thread:
        read = written_and_read(thread, value)
    want = expected(value)
    assert not [d for place in want if (d := difference(read[place], want[place], place))]


def test_a_pickle_is_not_loaded_by_a_serde_that_does_not_want_it(tmp_path: Path) -> None:
    """A saver without `pickle_fallback` refuses a value that another one pickled."""
    with Thread(tmp_path, serde=JsonPlusSerializer(pickle_fallback=True)) as thread:
        thread.step({"channel": Opaque()})
        thread.options = {}
        thread.reopen()
        with pytest.raises(Exception, match="pickle"):
            thread.read()


def looped_list() -> list:
    """A list that holds itself."""
    loop: list = []
    loop.append(loop)
    return loop


def deep(levels: int) -> list:
    """Lists in lists."""
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


REFUSED = {
    "object": Opaque(),
    "function": lambda: 1,
    "generator": (i for i in range(3)),
    "class instance in a set": {Opaque()},
    "pandas without pickle_fallback": FRAMES["frame"],
    "list that holds itself": looped_list(),
    "100,000 levels": deep(100_000),
    "model with an object": Point(1, Opaque()),
}


@pytest.mark.parametrize("value", [pytest.param(v, id=name) for name, v in REFUSED.items()])
@pytest.mark.parametrize("place", ["channel", "list of many", "additional_kwargs", "tool call args", "Send"])
def test_a_value_that_cannot_be_stored_is_refused_by_name(thread: Thread, value: Any, place: str) -> None:
    """The error names the channel, is a TypeError as the serde's is, and leaves the log as it was."""
    thread.step({"good": "before"})
    size = thread.size()
    held = PLACES[place](value)
    with pytest.raises(ValueEncodingError, match="my_channel") as refusal:
        thread.step({"good": "lost", "my_channel": held})
    assert isinstance(refusal.value, TypeError)
    with pytest.raises(ValueEncodingError, match="my_channel"):
        thread.write([("good", "lost"), ("my_channel", held)])
    with pytest.raises(ValueEncodingError, match="metadata"):
        thread.step({"good": "lost"}, metadata={"my_key": held})
    assert thread.size() == size

    thread.step({"good": "after"})
    thread.write([("good", "write after")])
    thread.reopen()
    assert thread.values() == {"good": "after"}
    assert [w[2] for w in thread.read().pending_writes] == ["write after"]
    assert thread.values(thread.configs[0]) == {"good": "before"}


def test_deep_values_come_back(thread: Thread) -> None:
    """A hundred levels of lists are no reason to refuse."""
    thread.step({"channel": deep(100)})
    thread.reopen()
    assert thread.values() == {"channel": deep(100)}


LEVELS: dict[str, Callable[[Any], Any]] = {
    "list": lambda v: [v],
    "list beside a text": lambda v: [v, LONG],
    "dict": lambda v: {"k": v},
    "dict beside a text": lambda v: {"k": v, "text": LONG},
    "large dict": lambda v: {"k": v, **{f"{n}": LONG for n in range(20)}},
    "list in a large dict": lambda v: [{"k": v, **{f"{n}": LONG for n in range(20)}}, LONG],
    "dict of other keys": lambda v: {1: v},
    "tuple": lambda v: (v,),
    "tuple beside a text": lambda v: (v, LONG),
    "dict in a list": lambda v: [{"k": v}],
    "deque": lambda v: deque([v, LONG]),
    "Send": lambda v: Send("node", v),
    "Overwrite": Overwrite,
    "message": lambda v: HumanMessage("m", later=v),
    "artifact": lambda v: ToolMessage("m", tool_call_id="1", artifact=[v]),
}
HOLDERS: dict[str, Callable[[Any], Any]] = {
    "": lambda v: v,
    "in a message": lambda v: [HumanMessage(LONG, additional_kwargs={"v": v})],
}


@pytest.fixture
def no_garbage() -> Iterator[None]:
    """No finalizer runs where the stack is near its end: it would fail there."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage")
@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
def test_the_deepest_value_that_is_put_is_read(
    thread: Thread, level: Callable[[Any], Any], hold: Callable[[Any], Any]
) -> None:
    """Put on an empty stack, it is read and verified on any other; a deeper one is refused and leaves no trace."""

    def nested(depth: int) -> Any:
        value: Any = "x"
        for _ in range(depth):
            value = level(value)
        return hold(value)

    with ThreadPoolExecutor(1) as empty_stack:

        def takes(depth: int) -> bool:
            before = thread.size()
            try:
                empty_stack.submit(thread.step, {"channel": nested(depth), "depth": depth}).result()
            except ValueEncodingError:
                assert thread.size() == before
                return False
            return True

        thread.step({})
        most = bisect_left(range(1000), True, lo=20, key=lambda depth: not takes(depth)) - 1
        assert takes(most)
        thread.reopen()

        def read(frames: int) -> dict[str, Any]:
            return read(frames - 1) if frames else thread.values()

        for config in thread.configs:
            thread.values(config)
        values = read(400)
        assert values["depth"] == most
        assert thread.saver.verify(thread.thread_id).ok
        assert takes(most - 20)
        thread.saver.pack(thread.thread_id)
        thread.reopen()
        assert thread.values()["depth"] == most - 20
        assert thread.saver.verify(thread.thread_id).ok


NAMES = ["\ud800 lone", "\x00", "", "$ref", "a|b:c", "{}", "é\n\t\"'\\", "__pregel_tasks", "ключ", "x" * 3000]


@pytest.mark.parametrize("name", [pytest.param(n, id=f"{n[:9]!a}") for n in NAMES])
def test_any_string_can_be_a_name(thread: Thread, name: str) -> None:
    """Channels, nodes, metadata keys, task ids and paths may be any string (langgraph#6395)."""
    seen = {name: {name: "1"}, "other": {}}
    thread.step({name: 1, "other": name}, metadata={"by name": {name: name}, "name\ud800": 1}, seen=seen)
    thread.write([(name, name), ("other", 2)], task_id=f"task {name}", path=name)
    versions = dict(thread.versions)
    thread.reopen()
    read = thread.read()
    assert read.checkpoint["channel_values"] == {name: 1, "other": name}
    assert read.checkpoint["channel_versions"] == versions
    assert read.checkpoint["versions_seen"] == seen
    assert read.checkpoint["updated_channels"] == sorted({name, "other"})
    assert read.metadata["by name"] == {name: name}
    assert read.metadata["name\ud800"] == 1
    assert read.pending_writes == [(f"task {name}", name, name), (f"task {name}", "other", 2)]


ODD_METADATA = {
    "step is no number": {"step": "third"},
    "step is a float": {"step": 1.0},
    "step is a bool": {"step": True},
    "step is huge": {"step": 2**70},
    "step is None": {"step": None},
    "source is none of the four": {"source": "import"},
    "source is no string": {"source": ("a", 1)},
    "surrogate source": {"source": "\ud800"},
    "parents is None": {"parents": None},
    "parents is a list": {"parents": ["a"]},
    "run_id is a list": {"run_id": ["a"]},
    "delta counters": {"counters_since_delta_snapshot": {"messages": (3, 5)}},
    "message": {"last": HumanMessage(LONG, id="1")},
    "set": {"seen": {1, 2}},
    "model": {"person": Person(name="a")},
    "tuple": {"pair": (1, 2)},
}


@pytest.mark.parametrize("metadata", [pytest.param(v, id=name) for name, v in ODD_METADATA.items()])
def test_metadata_comes_back_whatever_it_holds(thread: Thread, metadata: dict[str, Any]) -> None:
    """LangGraph's own keys keep their values too, of whatever type (langgraph#3441, langgraph#5862)."""
    thread.step({"channel": 1}, metadata=metadata)
    thread.reopen()
    want = listed({"source": "loop", "step": 0, "parents": {}} | metadata)
    read = dict(thread.read().metadata)
    assert difference(dict(sorted(read.items())), dict(sorted(want.items()))) is None
    config = {"configurable": {"thread_id": thread.thread_id}}
    assert [t.metadata for t in thread.saver.list(config, filter=listed(metadata))] == [read]
    # What looks into metadata to remove checkpoints takes it as it is.
    thread.saver.delete_for_runs(["another run"])
    thread.saver.prune([thread.thread_id])
    assert thread.read().metadata == read


ODD_CHECKPOINTS = {
    "as LangGraph 1 makes it": {"v": 4, "ts": "2026-01-02T03:04:05+00:00", "updated_channels": ["a"]},
    "a key of a newer version": {"newer": {"$ref": (1, None)}, "pending_sends": []},
    "without what may be left out": {},
    "nothing was updated": {"updated_channels": None},
    "a set was updated": {"updated_channels": {"a"}},
    "v is no number": {"v": "4"},
    "v beyond 64 bits": {"v": 2**70},
    "ts with a lone surrogate": {"ts": "\ud800"},
    "ts is a datetime": {"ts": SAME["datetime in UTC"]},
    "int versions": {"channel_versions": {"a": 3}, "versions_seen": {"node": {"a": 2}}},
    "float versions": {"channel_versions": {"a": 3.5}, "versions_seen": {"node": {"a": 2.0}}},
    "versions beyond 64 bits": {"channel_versions": {"a": 2**70}, "versions_seen": {"node": {"a": 2**70}}},
    "versions of two kinds": {"channel_versions": {"a": 3}, "versions_seen": {"node": {"a": "2"}}},
    "version None": {"channel_versions": {"a": None}, "versions_seen": {"node": {"a": 2}}},
}


@pytest.mark.parametrize("parts", [pytest.param(v, id=name) for name, v in ODD_CHECKPOINTS.items()])
def test_every_key_of_a_checkpoint_comes_back(thread: Thread, parts: dict[str, Any]) -> None:
    """Those that the format has a field for and those that it has none for, whatever they hold."""
    required = {"id": "1", "channel_values": {"a": 1}, "channel_versions": {"a": "1"}, "versions_seen": {}}
    thread.saver.put(thread.head, required | parts, {}, {"a": "1"})
    thread.reopen()
    read = thread.read().checkpoint
    assert difference(dict(sorted(read.items())), dict(sorted((required | parts).items()))) is None


def test_a_name_may_be_a_subclass_of_str(thread: Thread) -> None:
    """A node may return {Field.NAME: value}, and LangGraph passes the key on as it is; it comes back as a str."""
    for name in (Mode.FAST, Name("named")):
        thread.step({name: 1, "large": {name: LONG}}, metadata={name: 1}, seen={name: {name: "1"}})
        thread.write([(name, 1)], task_id=name, path=name)
        thread.reopen()
        read = thread.read()
        plain = str(name)
        large = read.checkpoint["channel_values"].pop("large")
        assert large == {plain: LONG}  # inside a value an enum stays one
        assert difference(read.checkpoint["channel_values"], {plain: 1}) is None
        assert read.checkpoint["versions_seen"] == {plain: {plain: "1"}}
        assert difference(read.pending_writes, [(plain, plain, 1)]) is None
        assert read.metadata[plain] == 1


def test_every_line_is_strict_json(thread: Thread) -> None:
    """Whatever is stored, a line holds no NaN, no lone surrogate and no raw control character."""
    for value in SAME.values():
        thread.step({"channel": value}, metadata={"value": value})

    def refuse(name: str) -> None:
        raise AssertionError(name)

    for line in thread.text().splitlines():
        text = line.decode("utf-8")
        json.loads(text, parse_constant=refuse, strict=True)
        assert text.isprintable() or not any(ch < " " for ch in text)
        assert "\\ud800" not in text.lower()
