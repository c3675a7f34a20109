"""A value that changed is another value: in place, in a copy, or only in its type."""

from __future__ import annotations

import copy
import itertools
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send

from .same import difference
from .sample_types import Frozen, Level, Mode, Pair, Point
from .thread import Thread, marker, message

if TYPE_CHECKING:
    from collections.abc import Callable


CHANGES: dict[str, Callable[[AIMessage], Any]] = {
    "content": lambda m: setattr(m, "content", "new"),
    "content block": lambda m: m.content[0].update(text="new"),
    "content block appended": lambda m: m.content.append({"type": "text", "text": "new"}),
    "nested kwargs": lambda m: m.additional_kwargs["a"]["b"].append(3),
    "kwargs, 1 to True": lambda m: m.additional_kwargs["a"]["b"].__setitem__(0, True),
    "kwargs, 1 to 1.0": lambda m: m.additional_kwargs["a"]["b"].__setitem__(0, 1.0),
    "kwargs, 0.0 to -0.0": lambda m: m.additional_kwargs.update(zero=-0.0),
    "kwargs, list to tuple": lambda m: m.additional_kwargs["a"].update(b=(1, 2)),
    "call args": lambda m: m.tool_calls[0]["args"].update(path="new"),
    "call args in depth": lambda m: m.tool_calls[0]["args"]["lines"].pop(),
    "call id": lambda m: m.tool_calls[0].update(id="new"),
    "call removed": lambda m: m.tool_calls.clear(),
    "call repeated": lambda m: m.tool_calls.append(dict(m.tool_calls[0])),
    "usage": lambda m: m.usage_metadata.update(output_tokens=9),
    "usage removed": lambda m: setattr(m, "usage_metadata", None),
    "response_metadata": lambda m: m.response_metadata.update(finish_reason="stop"),
    "id": lambda m: setattr(m, "id", "new"),
    "name": lambda m: setattr(m, "name", "new"),
    "extra field": lambda m: setattr(m, "extra_field", [1]),
    "extra field in depth": lambda m: m.later["deep"].append(2),
}


# A message that holds such things is compared in another way than one of plain JSON.
EXOTIC_CHANGES: dict[str, Callable[[AIMessage], Any]] = {
    "kwargs, set": lambda m: m.additional_kwargs["set"].add(9),
    "kwargs, bytearray": lambda m: m.additional_kwargs["bytes"].extend(b"!"),
    "kwargs, dataclass": lambda m: setattr(m.additional_kwargs["point"], "x", 9),
    "kwargs, dataclass in depth": lambda m: m.additional_kwargs["point"].label.append(9),
}


def rich_message() -> AIMessage:
    """A message with something to change at every depth."""
    args = {"path": "old", "lines": [1, 2]}
    return AIMessage(
        [{"type": "text", "text": "old"}],
        id="1",
        additional_kwargs={"a": {"b": [1, 2]}, "zero": 0.0, "empty": {}},
        response_metadata={"model": "m"},
        tool_calls=[{"name": "read", "args": args, "id": "c1", "type": "tool_call"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        later={"deep": [1]},
    )


def exotic_message() -> AIMessage:
    """The same, with containers that JSON does not have."""
    message = rich_message()
    message.additional_kwargs |= {"set": {1}, "bytes": bytearray(b"x"), "point": Point(1, [1])}
    return message


CASES = [
    *((rich_message, name, change) for name, change in CHANGES.items()),
    *((exotic_message, name, change) for name, change in (CHANGES | EXOTIC_CHANGES).items()),
]


@pytest.mark.parametrize(
    ("make", "change"), [pytest.param(make, change, id=f"{make.__name__}, {name}") for make, name, change in CASES]
)
@pytest.mark.parametrize("how", ["in place", "in a deep copy"])
def test_a_change_of_a_message_is_stored(
    thread: Thread, make: Callable[[], AIMessage], change: Callable[[AIMessage], Any], how: str
) -> None:
    """The checkpoint before it has the message as it was, the ones after it as it is; other messages stay."""
    held = [message(0), make(), message(2)]
    before = copy.deepcopy(held)
    thread.step({"messages": held})
    if how == "in a deep copy":
        held = copy.deepcopy(held)
    change(held[1])
    after = copy.deepcopy(held)
    thread.step({"messages": held})
    thread.write([("messages", held)])
    thread.step({"messages": before})
    for _ in range(2):
        read = [thread.values(config)["messages"] for config in thread.configs]
        assert difference(read, [before, after, before]) is None
        assert difference(thread.read(thread.configs[1]).pending_writes[0][2], after) is None
        thread.reopen()
    assert thread.stored(range(0, 3, 2)) == [1, 1]


def test_what_the_caller_does_with_values_it_read_changes_nothing(thread: Thread) -> None:
    """Each read gives fresh values; the next put still knows what is stored."""
    thread.step({"messages": [rich_message(), message(1)], "files": {"a": ["x" * 300]}})
    want = {"messages": [rich_message(), message(1)], "files": {"a": ["x" * 300]}}
    for _ in range(2):
        for change in CHANGES.values():
            read = thread.values()
            assert difference(read, want) is None
            change(read["messages"][0])
            read["messages"].pop()
            read["files"]["a"].append(1)
        thread.step(copy.deepcopy(want))
        assert thread.count(marker(1)) == 1
        thread.reopen()


def test_a_refused_change_does_not_hide_the_next_one(thread: Thread) -> None:
    """After a put that raised, the message counts as what the log has, not as what was tried."""
    held = rich_message()
    thread.step({"messages": [held]})
    held.additional_kwargs["a"]["b"].append("refused")
    with pytest.raises(TypeError):
        thread.step({"messages": [held], "bad": object()})
    thread.step({"messages": [held]})
    thread.reopen()
    assert thread.values()["messages"][0].additional_kwargs["a"]["b"] == [1, 2, "refused"]


EQUALS = {
    "numbers": [1, 1.0, True, 1, Decimal(1), Fraction(1), 1 + 0j, Level.HIGH, 3],
    "zeros": [0, False, 0.0, -0.0, 0],
    "texts": ["a", Mode.FAST, "fast", "a"],
    "bytes": [b"a", bytearray(b"a"), b"a"],
    "sequences": [[1], (1,), [True], [1.0], deque([1]), deque([1], maxlen=3), [1]],
    "sets": [{1}, {True}, frozenset({1}), {1.0}, {1}],
    "empties": [
        {},
        OrderedDict(),
        Counter(),
        defaultdict(list),
        defaultdict(dict),
        [],
        (),
        set(),
        "",
        None,
        {},
    ],
    "dicts": [
        {"a": 1},
        OrderedDict(a=1),
        Counter(a=1),
        defaultdict(int, a=1),
        defaultdict(None, a=1),
        {"a": True},
        {"a": 1.0},
        {"a": 1},
    ],
    "orders": [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"n": {"b": [], "a": []}}, {"n": {"a": [], "b": []}}],
    "keys": [{1: "x"}, {"1": "x"}, {True: "x"}, {1.0: "x"}, {(1,): "x"}, {(True,): "x"}],
    "text keys": [{"fast": "x"}, {Mode.FAST: "x"}, {"n": {"fast": 1}}, {"n": {Mode.FAST: 1}}],
    "tags": [{"$ref": 1}, {"$ref": True}, {"$ref": 1, "a": 1}, {"$ref": 1}],
    "times": [
        datetime(2025, 10, 26, 1, tzinfo=UTC),
        datetime(2025, 10, 26, 2, tzinfo=timezone(timedelta(hours=1))),
        datetime(2025, 10, 26, 2, tzinfo=timezone(timedelta(hours=1), "CET")),
        datetime(2025, 10, 26, 1, tzinfo=UTC, fold=1),
    ],
    "decimals": [Decimal("1.0"), Decimal("1.00"), Decimal("1E0")],
    "models": [Point(1, [1]), Point(True, [1]), Point(1, [True]), Frozen(1), Frozen(True)],
    "arrays": [np.array([1, 2]), np.array([1, 2], dtype="i4"), np.array([[1, 2]]), np.array([1.0, 2.0])],
    "messages": [
        AIMessage("a", id="1"),
        AIMessageChunk("a", id="1"),
        AIMessage("a", id="1", extra=1),
        AIMessage("a", id="1", extra=True),
        AIMessage("a", id="1", additional_kwargs={"d": {}}),
        AIMessage("a", id="1", additional_kwargs={"d": OrderedDict()}),
        AIMessage("a", id="1", additional_kwargs={"d": [1]}),
        AIMessage("a", id="1", additional_kwargs={"d": (1,)}),
        HumanMessage("a", id="1"),
        SystemMessage("a", id="1").model_copy(update={"type": "human"}),
    ],
}


@pytest.mark.parametrize("values", [pytest.param(v, id=name) for name, v in EQUALS.items()])
def test_an_equal_value_is_not_another_type(thread: Thread, values: list[Any]) -> None:
    """Each value after each other one, at one place, alone and inside large values, comes back as it was."""
    filler = "w" * 300
    states = []
    for value in itertools.chain.from_iterable(itertools.permutations(values, 2)):
        pair = {"k": value, "in": [value]}
        large = [filler, value, [value, filler], pair]
        states.append(
            {
                "small": value,
                "pair": pair,
                "large": large,
                "map": {"k": value, "filler": filler, "sub": pair},
                "message": HumanMessage("m", id="1", additional_kwargs=pair),
                "list": [
                    HumanMessage("first", id="0"),
                    HumanMessage("m", id="1", additional_kwargs=pair),
                    HumanMessage("m", id="2", later=value),
                    value if isinstance(value, BaseMessage) else HumanMessage("none", id="3"),
                    {"filler": filler, **pair},
                    [filler, value],
                ],
            }
        )
        thread.step(states[-1])
    thread.reopen()
    read = [thread.values(config) for config in thread.configs]
    assert difference(read, states) is None


@pytest.mark.parametrize("new", [np.arange(3), [1, np.arange(3)]], ids=["array", "array in a list"])
@pytest.mark.parametrize("old", [None, 5, [1, 2, 3], [1, 2], {"a": 1}], ids=repr)
@pytest.mark.parametrize("place", ["dict", "element", "message", "written message", "extra field", "list"])
def test_what_cannot_be_compared_has_changed(thread: Thread, place: str, old: Any, new: Any) -> None:
    """A comparison that raises, as an array's does, hides no change in place and fails no put."""
    filler = "w" * 300
    held: Any = {"x": old, "filler": filler}
    if place == "list":
        held = [filler, filler, old, filler]
    message = HumanMessage("m", later=held if place == "extra field" else None)
    if "message" in place:
        held = message.additional_kwargs = {"x": old}
    state = {"channel": {"dict": held, "element": [filler, held], "list": held}.get(place, [filler, message, filler])}
    thread.step({} if place == "written message" else state)
    thread.write(list(state.items()))
    held[2 if place == "list" else "x"] = new
    want = copy.deepcopy(state)
    thread.step(state)
    thread.reopen()
    assert difference(thread.values(), want) is None


def test_a_value_changed_in_place_is_not_what_it_was(thread: Thread) -> None:
    """The same objects, changed between puts: containers of every kind, at every depth."""
    filler = "w" * 300
    state: dict[str, Any] = {
        "list": [1, 2, filler],
        "dict": {"a": 1, "filler": filler},
        "nested": {"a": [{"b": [1, filler]}, filler]},
        "tuple": ([1], filler),
        "set": {1},
        "deque": deque([1]),
        "bytearray": bytearray(b"a"),
        "array": np.arange(100),
        "point": Point(1, [1]),
        "default": defaultdict(list, a=[1]),
        "int keys": {1: [1], 2: filler},
        "send": [Send("n", {"a": [1], "filler": filler})],
        "delta": _DeltaSnapshot([1, filler]),
    }
    changes: list[Callable[[dict[str, Any]], Any]] = [
        lambda s: s["list"].__setitem__(0, True),
        lambda s: s["list"].insert(1, 2),
        lambda s: s["list"].reverse(),
        lambda s: s["dict"].update(a=1.0),
        lambda s: s["nested"]["a"][0]["b"].append(2),
        lambda s: s["nested"]["a"].pop(),
        lambda s: s["tuple"][0].append(2),
        lambda s: s["set"].add(2),
        lambda s: s["deque"].rotate(),
        lambda s: s["deque"].append(2),
        lambda s: s["bytearray"].append(1),
        lambda s: s["array"].__setitem__(3, -3),
        lambda s: s["point"].label.append(2),
        lambda s: s["default"]["b"],
        lambda s: s["int keys"][1].append(2),
        lambda s: s["send"][0].arg["a"].append(2),
        lambda s: s["delta"].value.append(2),
        lambda s: s["nested"].clear(),
    ]
    thread.step(state)
    states = [copy.deepcopy(state)]
    for change in changes:
        change(state)
        thread.step(state)
        thread.write(list(state.items()))
        states.append(copy.deepcopy(state))
    thread.reopen()
    reads = [thread.read(config) for config in thread.configs]
    assert difference([r.checkpoint["channel_values"] for r in reads], states) is None
    assert difference([{c: v for _, c, v in r.pending_writes} for r in reads[1:]], states[1:]) is None


REPLACED: dict[str, tuple[Any, Any]] = {
    "a tuple by a named one": ((1, 5), Pair(1, 5)),
    "a tuple by a list": ((2, 5), [2, 5]),
    "in a tuple, 1 by True": (([1], 5), ([True], 5)),
    "a set by a frozenset": ({2}, frozenset({2})),
    "a deque by a bounded one": (deque([2]), deque([2], maxlen=3)),
    "a key 1 by True": ({1: "x", 2: "y"}, {True: "x", 2: "y"}),
    "the order of other keys": ({2: "x", 3: "y"}, {3: "y", 2: "x"}),
    "a tuple key by another": ({(1,): "x"}, {(True,): "x"}),
    "a factory by another": (defaultdict(list, a=2), defaultdict(dict, a=2)),
    "an OrderedDict by a Counter": (OrderedDict(a=2), Counter(a=2)),
    "an OrderedDict by a dict": (OrderedDict(a=2), {"a": 2}),
    "bytes by a bytearray": (b"x", bytearray(b"x")),
    "a time by one of another zone": (
        datetime(2026, 1, 1, 12, tzinfo=UTC),
        datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1))),
    ),
    "an array by one of another type": (np.array([2, 5]), np.array([2, 5], dtype="i4")),
    "a Send by an equal one": (Send("n", (1,)), Send("n", (True,))),
}


@pytest.mark.parametrize(("old", "new"), [pytest.param(*r, id=name) for name, r in REPLACED.items()])
@pytest.mark.parametrize("read", [False, True], ids=["put again", "read between"])
def test_what_equals_another_type_in_place_is_seen_in_what_json_does_not_have(
    thread: Thread, old: Any, new: Any, read: bool
) -> None:
    """A container or leaf with a tag compares with its type, at any depth of what a saver was given before."""
    filler = "w" * 300
    state: dict[str, Any] = {
        "rows": [filler, old, [old, filler], {"k": old, "filler": filler}],
        "map": {"k": old, "filler": filler, "deep": {"k": [old]}},
        "in a tuple": ([old], filler),
        "messages": [HumanMessage("m", id="1", additional_kwargs={"k": old, "l": [old]})],
    }
    thread.step(state)
    if read:
        thread.reopen()
        state = thread.values()
    state["rows"][1] = state["rows"][2][0] = state["rows"][3]["k"] = new
    state["map"]["k"] = state["map"]["deep"]["k"][0] = state["in a tuple"][0][0] = new
    kwargs = state["messages"][0].additional_kwargs
    kwargs["k"] = kwargs["l"][0] = new
    want = copy.deepcopy(state)
    thread.step(state)
    thread.reopen()
    assert difference(thread.values(), want) is None
