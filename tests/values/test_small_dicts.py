"""Small dicts are checked and encoded whole: what JSON does not have, hides in no place of one."""

from __future__ import annotations

import copy
import enum
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage

from langgraph_jsonl_checkpoint.values import bulk, freeze
from langgraph_jsonl_checkpoint.values.known import Known

from .same import difference
from .thread import Thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Level(enum.IntEnum):
    """A number by inheritance."""

    LOW = 1


class Word(str):
    """A text by inheritance."""

    __slots__ = ()


LEAVES = {
    "numbers": [0, 1, -1, True, False, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**40],
    "floats": [0.0, -0.0, 1.0, 1e308, float("nan"), float("inf"), -float("inf")],
    "texts": ["", "$ref", '{"$ref":1}', "\ud800", "x" * 253, "x" * 254, "x" * 2000, "\0", "é", "𝄞"],
    "others": [None, b"x", (1,), {1}, [], [1], [{}], {}, {"$ref": 0}, {"$ref": 0, "a": 1}, {1: 2}, OrderedDict(a=1)],
    "dicts": [{"": ""}, {"a": {"$ref": 0}}, {"a": {"b": {"c": 1}}}, {"\ud800": 1}, {"a": {"\ud800": 1}}, {"$": 1}],
}
SHAPES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "alone": lambda leaf: {"k": leaf},
    "among others": lambda leaf: {"a": "x", "k": leaf, "b": None, "c": 2},
    "in a dict": lambda leaf: {"a": {"k": leaf}},
    "in one of several dicts": lambda leaf: {"a": {}, "b": {"k": leaf, "l": "x"}, "c": {"k": 2}},
    "three deep": lambda leaf: {"a": {"b": {"k": leaf}}},
    "under a tag": lambda leaf: {"a": {"$list": leaf}},
    "among many": lambda leaf: {"k": leaf} | {f"k{n}": n for n in range(70)},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
@pytest.mark.parametrize("leaves", LEAVES.values(), ids=list(LEAVES))
def test_every_leaf_comes_back(tmp_path: Path, leaves: list[Any], shape: Callable[[Any], dict[str, Any]]) -> None:
    """As a channel's value, in a list, in a message, and in a write; and the log stays strict JSON."""
    states = [
        {
            "value": shape(leaf),
            "list": [shape(leaf)],
            "message": AIMessage("m", id="1", response_metadata=shape(leaf), additional_kwargs={"d": shape(leaf)}),
        }
        for leaf in leaves
    ]
    with Thread(tmp_path) as thread:
        for state in states:
            thread.step(state)
            thread.write([("value", state["value"])])
        thread.reopen()
        assert difference([thread.values(c) for c in thread.configs], states) is None
        writes = [thread.read(c).pending_writes[0][2] for c in thread.configs]
        assert difference(writes, [state["value"] for state in states]) is None
        thread.records()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_metadata_and_versions_come_back(tmp_path: Path, shape: Callable[[Any], dict[str, Any]]) -> None:
    """The same among a record's own fields; metadata is JSON, so a tuple is a list there, at any depth."""
    with Thread(tmp_path) as thread:
        for leaf in (2, True, None, "x" * 300, 2**70, float("nan"), "\ud800", ("a", (1,))):
            thread.step({}, metadata=shape(leaf), seen={"node": shape(leaf)})
            thread.reopen()
            read = thread.read()
            listed = shape(["a", [1]] if type(leaf) is tuple else leaf)
            assert difference({k: read.metadata[k] for k in listed}, listed) is None
            assert difference(read.checkpoint["versions_seen"], {"node": shape(leaf)}) is None


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (0, False), ("a", Word("a")), (2, "2"), (None, 0)])
def test_a_leaf_changed_in_place_is_stored(tmp_path: Path, old: Any, new: Any) -> None:
    """The dict is the same object; the leaf is equal to what it was, but not the same."""
    held = {"flat": {"k": old}, "deep": {"a": {"k": old}, "b": {}}, "list": [{"k": old, "filler": "w" * 60}]}
    state = {"held": held, "message": AIMessage("m", id="1", response_metadata={"a": {"k": old}})}
    before = copy.deepcopy(state)
    with Thread(tmp_path) as thread:
        thread.step(state)
        held["flat"]["k"] = held["deep"]["a"]["k"] = held["list"][0]["k"] = new
        state["message"].response_metadata["a"]["k"] = new
        after = copy.deepcopy(state)
        thread.step(state)
        thread.reopen()
        want = str(new) if type(new) is Word else new
        for place in (after["held"]["flat"], after["held"]["deep"]["a"], after["held"]["list"][0]):
            place["k"] = want
        after["message"].response_metadata["a"]["k"] = want
        assert difference([thread.values(c) for c in thread.configs], [before, after]) is None


def test_an_enum_in_a_small_dict_is_no_number(tmp_path: Path) -> None:
    """What the serde stores of it is what comes back."""
    with Thread(tmp_path) as thread:
        thread.step({"value": {"level": Level.LOW, "a": {"level": Level.LOW}}})
        thread.reopen()
        read = thread.values()["value"]
        assert [type(read["level"]), type(read["a"]["level"])] == [Level, Level]


def test_names_of_a_subclass_are_strings(tmp_path: Path) -> None:
    """Whatever strings a graph was built with: channels, nodes, and keys of metadata."""
    with Thread(tmp_path) as thread:
        thread.step({Word("channel"): 1}, metadata={Word("key"): 1}, seen={Word("node"): {"a": "b"}})
        thread.reopen()
        read = thread.read()
        names = [*read.checkpoint["channel_values"], *read.checkpoint["versions_seen"], *read.metadata]
        assert set(map(type, names)) == {str}
        assert {"channel", "node", "key"} <= set(names)


def test_a_small_dict_is_taken_in_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that changes a dict while it is stored changes neither the text nor the copy apart from it."""
    live: dict[str, Any] = {"a": {"k": 2}, "b": "x"}
    encode = bulk._encode

    def change_and_encode(value: Any) -> bytes:
        live["a"]["k"], live["b"] = float("nan"), object()
        return encode(value)

    monkeypatch.setattr(bulk, "_encode", change_and_encode)
    part, copied, _ = freeze.Freezer(Known(), lambda _: None).freeze(live)
    assert bytes(part) == b'{"a":{"k":2},"b":"x"}'
    assert copied == {"a": {"k": 2}, "b": "x"}


def test_an_equal_entry_of_a_large_dict_is_not_written_again(tmp_path: Path) -> None:
    """LangGraph makes new dicts of the versions that nodes have seen: of forty, one changes each step."""
    states = [
        {f"node-{n}": {f"branch:to:node-{n}": f"{(step if n == step else 0):032}.5c0f-1"} for n in range(40)}
        for step in range(20)
    ]
    with Thread(tmp_path) as thread:
        for seen in states:
            before = len(thread.text()) if thread.configs else 0
            thread.step({}, seen=seen)
        assert len(thread.text()) - before < 1500
        assert [thread.read(c).checkpoint["versions_seen"] for c in thread.configs] == states
