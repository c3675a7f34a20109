"""Each thing is stored once: what is already in the log is referred to, and what changed is written."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import (
    AnyMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Overwrite, Send

from langgraph_jsonl_checkpoint.values import book

from .test_encryption import encrypted
from .thread import Thread, marker, message

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_put_and_put_writes_share_a_message(thread: Thread) -> None:
    """The write of a node and the state that it leads to hold one message, stored once."""
    thread.step({"messages": []})
    thread.write([("messages", [message(0)]), ("last", message(0))])
    thread.step({"messages": [message(0)], "last": message(0)})
    thread.write([("messages", message(0))], task_id="other")
    assert thread.count(marker(0)) == 1
    thread.reopen()
    assert thread.values() == {"messages": [message(0)], "last": message(0)}
    assert [w[1:] for w in thread.read().pending_writes] == [("messages", message(0))]


def test_an_appended_list_costs_what_is_new(thread: Thread) -> None:
    """A hundred steps store a hundred messages, and a step is as long at the end as at the start."""
    messages: list[AnyMessage] = []
    sizes = []
    for number in range(100):
        messages = [*messages, message(number)]
        thread.step({"messages": messages})
        sizes.append(thread.size())
    assert thread.stored(range(100)) == [1] * 100
    growth = [after - before for before, after in itertools.pairwise(sizes)]
    assert max(growth[-10:]) <= 1.1 * max(growth[10:20])
    thread.reopen()
    assert [thread.values(c)["messages"] for c in thread.configs] == [messages[: n + 1] for n in range(100)]


def test_a_list_of_messages_is_a_few_ranges(thread: Thread) -> None:
    """The channel of 50 appended messages holds ranges of numbers, not 50 of them."""
    for number in range(50):
        thread.step({"messages": [message(n) for n in range(number + 1)]})
    (channel,) = [r["channels"]["messages"] for r in thread.records("checkpoint")][-1:]
    assert list(channel) == ["$list"]
    assert len(channel["$list"]) <= 3


def test_copies_of_a_message_are_not_stored_again(thread: Thread) -> None:
    """Nodes copy state; equal content is the same message, whoever holds it."""
    copies: list[Callable[[AnyMessage], AnyMessage]] = [
        lambda m: m.model_copy(),
        lambda m: m.model_copy(deep=True),
        copy.deepcopy,
        lambda m: type(m).model_validate(m.model_dump()),
        lambda m: m,
    ]
    messages = [message(n) for n in range(10)]
    for step in range(10):
        messages = [copies[step % len(copies)](m) for m in messages]
        thread.step({"messages": messages})
        thread.write([("messages", [copy.deepcopy(messages[0])])])
    assert thread.stored(range(10)) == [1] * 10


def test_a_reopened_saver_does_not_store_again_what_it_reads(thread: Thread) -> None:
    """A new process continues with the messages that `get_tuple` gave it."""
    thread.step({"messages": [message(n) for n in range(5)]})
    for number in range(5, 9):
        thread.reopen()
        messages = thread.values()["messages"]
        thread.step({"messages": [*messages, message(number)]})
    assert thread.stored(range(9)) == [1] * 9
    assert thread.values()["messages"] == [message(n) for n in range(9)]


def test_sends_refer_to_the_messages_of_the_state(thread: Thread) -> None:
    """A fan-out of 20 tasks that all get the whole history adds references, not copies."""
    messages = [message(n) for n in range(20)]
    thread.step({"messages": messages})
    sends = [Send("tools", {"messages": list(messages), "call": i}) for i in range(20)]
    thread.write([("__pregel_tasks", send) for send in sends])
    size = thread.size()
    thread.step({"messages": messages, "__pregel_tasks": sends})
    thread.write([("messages", Command(update={"messages": messages}, goto=sends[:1])), ("m", Overwrite(messages))])
    assert thread.stored(range(20)) == [1] * 20
    assert thread.size() - size < 2000
    thread.reopen()
    assert thread.values()["__pregel_tasks"] == sends


def test_snapshots_of_a_delta_channel_refer_to_messages(thread: Thread) -> None:
    """A `_DeltaSnapshot` of what writes brought holds ranges."""
    messages = [message(n) for n in range(30)]
    thread.step({"files": 1})
    for m in messages:
        thread.write([("messages", [m])], task_id=m.id)
        thread.step({"files": 1})
    size = thread.size()
    thread.step({"messages": _DeltaSnapshot(messages)})
    assert thread.stored(range(30)) == [1] * 30
    assert thread.size() - size < 1000
    thread.reopen()
    assert thread.values()["messages"] == _DeltaSnapshot(messages)


def test_one_changed_file_of_fifty_is_stored_alone(thread: Thread) -> None:
    """A dict of files costs what changed, whether it was changed in place or copied."""
    files = {f"dir/{n}.py": [f"{marker(n)} {'y' * 500}"] for n in range(50)}
    thread.step({"files": files})
    states = [copy.deepcopy(files)]
    for n in range(50, 60):
        if n % 2:
            files[f"dir/{n - 50}.py"][0] = marker(n) + "y" * 500
        else:
            files = copy.deepcopy(files) | {f"dir/{n - 50}.py": [marker(n) + "y" * 500]}
        size = thread.size()
        thread.step({"files": files})
        assert thread.size() - size < 2000
        states.append(copy.deepcopy(files))
    assert thread.stored(range(60)) == [1] * 60
    thread.reopen()
    assert [thread.values(c)["files"] for c in thread.configs] == states


def test_a_dict_keeps_the_order_of_its_keys(thread: Thread) -> None:
    """Changed, removed, added again, moved and sorted: keys come back in the order they had."""
    text = "z" * 300
    files = {name: text + name for name in "dbca"}
    orders = []
    changes: list[Callable[[dict], dict]] = [
        lambda f: f,
        lambda f: f | {"b": text + "new"},
        lambda f: {k: v for k, v in f.items() if k != "b"},
        lambda f: f | {"b": text + "back"},
        lambda f: {"first": text, **f},
        lambda f: dict(sorted(f.items())),
        lambda f: dict(reversed(f.items())),
        lambda f: {k: v for k, v in f.items() if k in "ab"},
        lambda f: f | {1: text, "1": text},
        lambda f: {},
        lambda f: {"a": text},
    ]
    for change in changes:
        files = change(files)
        orders.append(list(files.items()))
        thread.step({"files": files})
    thread.reopen()
    assert [list(thread.values(c)["files"].items()) for c in thread.configs] == orders


def test_a_sliding_window_stores_each_message_once(thread: Thread) -> None:
    """Messages that leave at the front cost nothing."""
    windows = [[message(n) for n in range(start, start + 10)] for start in range(40)]
    for window in windows:
        thread.step({"messages": window})
    assert thread.stored(range(49)) == [1] * 49
    thread.reopen()
    assert [thread.values(c)["messages"] for c in thread.configs] == windows


def test_removed_messages_leave_the_others_stored(thread: Thread) -> None:
    """Deletions in the middle, all at once, and an insertion where one was."""
    messages: list[AnyMessage] = []
    states = []
    thread.step({"other": 1})
    updates: list[list[AnyMessage]] = [
        [message(n) for n in range(20)],
        [RemoveMessage("m3"), RemoveMessage("m4"), RemoveMessage("m19")],
        [message(20)],
        [message(7).model_copy(update={"content": marker(21)})],
        [RemoveMessage(REMOVE_ALL_MESSAGES), *[message(n) for n in range(5, 10)]],
        [RemoveMessage(REMOVE_ALL_MESSAGES)],
        [message(0), ToolMessage(marker(22), tool_call_id="1", id="t")],
    ]
    for update in updates:
        thread.write([("messages", update)])
        messages = add_messages(messages, update)
        states.append(copy.deepcopy(messages))
        thread.step({"messages": messages})
    assert thread.stored(range(23)) == [1] * 23
    thread.reopen()
    assert [thread.values(c)["messages"] for c in thread.configs[1:]] == states


def test_time_travel_shares_with_both_branches(thread: Thread) -> None:
    """A fork from an old checkpoint refers to what the first branch stored, and the other way round."""
    for n in range(10):
        thread.step({"messages": [message(i) for i in range(n + 1)]})
    old = thread.configs[4]
    thread.configs.append(old)
    fork = [message(i) for i in (0, 1, 2, 3, 4, 8, 9, 20)]
    config = thread.step({"messages": fork})
    assert thread.stored(range(10)) == [1] * 10
    thread.reopen()
    assert thread.values(config)["messages"] == fork
    assert thread.read(config).parent_config == old
    assert thread.values(thread.configs[9])["messages"] == [message(i) for i in range(10)]


@pytest.mark.parametrize("sealed", [False, True])
def test_texts_with_one_hash_are_not_one_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: bool) -> None:
    """A hash only says where to look: equal texts have one number, others have not, whatever their hashes are."""
    monkeypatch.setattr(book, "hash", lambda _: 7, raising=False)
    states = [{"messages": [message(n) for n in range(k)], "text": f"{k % 3}" * 500} for k in range(1, 9)]
    with Thread(tmp_path, serde=encrypted() if sealed else None) as thread:
        for state in states:
            thread.step(copy.deepcopy(state))
        assert [thread.values(c) for c in thread.configs] == states
        thread.reopen()
        thread.step(copy.deepcopy(states[0]))
        assert [thread.values(c) for c in thread.configs] == [*states, states[0]]
