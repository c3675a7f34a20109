"""Whatever is put comes back: generated values, alone and one after another at the same place."""

from __future__ import annotations

import copy
import itertools
import tempfile
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Overwrite, Send
from values.same import difference, listed
from values.thread import Thread

LIMITS = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

# Every code point, lone surrogates too; a few strings are long enough to be stored on their own.
characters = st.characters() | st.characters(categories=["Cs", "Cc"])
short_text = st.text(characters, max_size=8)
long_text = st.builds(lambda s, n: (s or "x") * n, short_text, st.integers(40, 90))
text = short_text | long_text | st.sampled_from(["", "$ref", "$", "class", "\x00"])
offsets = st.integers(-86399, 86399).map(lambda s: timezone(timedelta(seconds=s)))
zones = st.none() | st.timezones() | offsets

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | text
    | st.binary(max_size=300)
    | st.complex_numbers()
    | st.decimals()
    | st.fractions()
    | st.uuids()
    | st.dates()
    | st.datetimes(timezones=zones, allow_imaginary=False)
    | st.times(timezones=st.none() | offsets)
    | st.timedeltas()
    | st.ip_addresses()
)
hashables = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | text
    | st.binary(max_size=9)
    | st.dates(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Containers of Python's, and of LangGraph's and LangChain's, of these values."""
    lists = st.lists(inner, max_size=5)
    dicts = st.dictionaries(text, inner, max_size=4)
    return (
        lists
        | dicts
        | lists.map(tuple)
        | st.builds(deque, lists, st.none() | st.just(9))
        | st.dictionaries(hashables, inner, max_size=4)
        | st.sets(hashables, max_size=4)
        | dicts.map(OrderedDict)
        | st.builds(defaultdict, st.sampled_from([None, list, int, dict]), dicts)
        | st.dictionaries(text, st.integers(0, 9), max_size=3).map(Counter)
        | messages(inner)
        | st.builds(Send, short_text, inner)
        | st.builds(Interrupt, inner, id=short_text)
        | st.builds(Command, update=dicts, resume=inner)
        | st.builds(Overwrite, inner)
        | st.builds(_DeltaSnapshot, inner)
    )


def messages(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[BaseMessage]:
    """Messages with such values where a message may hold any."""
    kwargs = st.dictionaries(text, inner, max_size=3)
    common = {"content": text, "id": st.none() | short_text, "additional_kwargs": kwargs}
    calls = st.lists(
        st.fixed_dictionaries({"name": short_text, "args": kwargs, "id": st.none() | short_text}), max_size=2
    )
    return (
        st.builds(HumanMessage, **common)
        | st.builds(SystemMessage, **common, response_metadata=kwargs)
        | st.builds(AIMessage, **common, tool_calls=calls)
        | st.builds(AIMessageChunk, **common)
        | st.builds(ToolMessage, **common, tool_call_id=short_text, artifact=inner)
    )


values = st.recursive(leaves, containers, max_leaves=12)


@LIMITS
@given(st.dictionaries(text, values, min_size=1, max_size=3), st.dictionaries(text, values, max_size=2))
def test_any_value_comes_back(state: dict[str, Any], metadata: dict[str, Any]) -> None:
    """State, writes and metadata read after a reopen are what they were before the put, type by type."""
    metadata = {"nested": metadata}
    want = copy.deepcopy((state, listed(metadata)))
    with tempfile.TemporaryDirectory() as root, Thread(Path(root)) as thread:
        thread.step(state, metadata=metadata)
        thread.write(list(state.items()))
        thread.reopen()
        read = thread.read()
        assert difference((read.checkpoint["channel_values"], {"nested": read.metadata["nested"]}), want) is None
        assert difference({c: v for _, c, v in read.pending_writes}, want[0]) is None
        # The second read is of values that the saver has built before.
        assert difference(thread.values(), want[0]) is None


Change = Callable[[Any, Any, int], Any]
LIST_CHANGES: dict[str, Change] = {
    "append": lambda v, new, _: v.append(new),
    "insert": lambda v, new, at: v.insert(at % (len(v) + 1), new),
    "replace": lambda v, new, at: v.__setitem__(at % len(v), new) if v else None,
    "delete": lambda v, _, at: v.pop(at % len(v)) if v else None,
    "cut": lambda v, _, at: v.__delitem__(slice(0, at % (len(v) + 1))),
    "reverse": lambda v, *_: v.reverse(),
    "repeat": lambda v, *_: v.extend(v[-3:]),
    "rotate": lambda v, _, at: v.append(v.pop(at % len(v))) if v else None,
    "clear": lambda v, *_: v.clear(),
    "deepen": lambda v, new, at: _inside(v[at % len(v)], new) if v else None,
}
DICT_CHANGES: dict[str, Change] = {
    "set": lambda v, new, at: v.__setitem__(f"key{at % 12}", new),
    "replace": lambda v, new, at: v.__setitem__(_key(v, at), new),
    "first": lambda v, new, at: _reordered(v, [(f"key{at % 12}", new), *v.items()]),
    "delete": lambda v, _, at: v.pop(_key(v, at), None),
    "move": lambda v, _, at: v.__setitem__(_key(v, at), v.pop(_key(v, at), None)),
    "reverse": lambda v, *_: _reordered(v, reversed(list(v.items()))),
    "tag": lambda v, new, _: _reordered(v, [("$ref", new)]),
    "int key": lambda v, new, at: _reordered(v, [(k, x) for k, x in v.items() if k != 7] + [(7, new)] * (7 not in v)),
    "clear": lambda v, *_: v.clear(),
    "deepen": lambda v, new, at: _inside(v.get(_key(v, at)), new),
}


def _key(value: dict, at: int) -> Any:
    return list(value)[at % len(value)] if value else "key0"


def _reordered(value: dict, items: Any) -> None:
    items = list(items)
    value.clear()
    value.update(items)


def _inside(value: Any, new: Any) -> None:
    """Change what a container holds, in place."""
    if isinstance(value, list):
        value.append(new)
    elif type(value) is dict:
        value["inside"] = new
    elif isinstance(value, BaseMessage):
        value.additional_kwargs["inside"] = new
    elif isinstance(value, Send):
        value.arg = new


# What leaves a long list or a large dict comes more often than what empties it.
steps = st.lists(
    st.tuples(
        st.sampled_from([*LIST_CHANGES, *["append", "insert", "replace", "delete", "deepen"] * 4]),
        st.sampled_from([*DICT_CHANGES, *["set", "replace", "delete", "move", "deepen"] * 4]),
        st.integers(0, 30),
        st.sampled_from(["same object", "shallow copy", "deep copy", "as read"]),
        st.booleans(),
    ),
    min_size=5,
    max_size=14,
)
# Few elements, so that the same one comes again at another place.
pools = st.lists(values | messages(leaves) | long_text, min_size=1, max_size=5)


@pytest.mark.slow
# On a disk, shrinking takes minutes; add Phase.shrink to see the shortest way to a failure.
@settings(LIMITS, phases=[Phase.explicit, Phase.reuse, Phase.generate], report_multiple_bugs=False)
@given(steps, pools, st.sampled_from([0, 3, 8, 23, 70]), st.booleans())
def test_each_of_many_values_at_one_place_comes_back(
    steps: list[Any], pool: list[Any], before: int, sealed: bool
) -> None:
    """A list and a dict that change step by step, in place or copied: every step reads what it put."""
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef") if sealed else None
    state: dict[str, Any] = {
        "list": [f"element {n} " * (n % 7 * 5) for n in range(before)],
        "dict": {f"key{n}": f"value {n} " * (n % 5 * 10) for n in range(before % 12)},
    }
    expected = []
    fresh = itertools.count()
    with tempfile.TemporaryDirectory() as root, Thread(Path(root), serde=serde) as thread:
        for of_list, of_dict, at, how, reopen in steps:
            if how == "shallow copy":
                state = {channel: copy.copy(value) for channel, value in state.items()}
            elif how == "deep copy":
                state = copy.deepcopy(state)
            elif how == "as read" and thread.configs:
                state = thread.values()
            new = copy.deepcopy(pool[at % len(pool)]) if at % 3 else f"new {next(fresh)} " * (at * 2)
            LIST_CHANGES[of_list](state["list"], new, at)
            DICT_CHANGES[of_dict](state["dict"], new, at)
            expected.append(copy.deepcopy(state))
            thread.step(state)
            thread.write(list(state.items()))
            assert difference(thread.values(), expected[-1]) is None
            if reopen:
                thread.reopen()
        thread.reopen()
        for config, want in zip(thread.configs, expected, strict=True):
            read = thread.read(config)
            assert difference(read.checkpoint["channel_values"], want) is None
            assert difference({c: v for _, c, v in read.pending_writes}, want) is None
