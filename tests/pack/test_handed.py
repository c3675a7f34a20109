"""A state that was handed out: whatever happens to it until it is put again, what is read is what was put."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from cases.graphs import at, config, prose, put
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from values.same import difference
from values.thread import Thread

from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("small_frames")

COUNT = 12


def marker(number: int) -> str:
    """A text that stands in the log once for each time its message is stored."""
    return f"MARK-{number:04}-"


def message(number: int) -> Any:
    """A message with something to change at every depth."""
    text = marker(number) + prose(number, 200)
    if number % 3 == 0:
        return HumanMessage(text, id=f"m{number}", additional_kwargs={"a": {"b": [1, 2, {"c": 0.0}]}, "n": 1})
    if number % 3 == 1:
        args = {"path": "old", "lines": [1, 2], "deep": {"one": 1}}
        call = {"name": "f", "args": args, "id": f"c{number}", "type": "tool_call"}
        return AIMessage(text, id=f"m{number}", tool_calls=[call], response_metadata={"model": {"name": "m"}})
    return ToolMessage([{"type": "text", "text": text}], tool_call_id=f"c{number - 1}", artifact={"a": [1]})


def state() -> dict[str, Any]:
    """Messages, and containers of each way in which they are stored."""
    return {
        "messages": [message(n) for n in range(COUNT)],
        "files": {f"f{n}": {"content": prose(n, 120), "lines": [n, 1]} for n in range(20)},
        "numbers": [n % 5 for n in range(300)],
        "mixed": [{"id": n, "tags": [str(n)], "ok": 1} for n in range(60)],
        "small": {"a": 1, "b": [1, {"c": None}]},
        "nested": {"messages": [HumanMessage(prose("in", 200), id="in")], "deep": {"list": list(range(200))}},
        "flag": 1,
        "text": prose("text", 700),
        "pair": (1, [2, prose("pair", 300)]),
        "bytes": bytearray(b"abc"),
        "empty": [],
    }


def _set(held: Any, key: Any, value: Any) -> None:
    held[key] = value


# By name: what is done to the state, and the messages that are other ones then.
CHANGES: dict[str, tuple[Any, set[int]]] = {
    "nothing": (lambda s: None, set()),
    "a message's content": (lambda s: setattr(s["messages"][3], "content", "new"), {3}),
    "a message's id": (lambda s: setattr(s["messages"][4], "id", "new"), {4}),
    "a content block": (lambda s: s["messages"][5].content[0].update(text="new"), {5}),
    "kwargs in depth": (lambda s: s["messages"][6].additional_kwargs["a"]["b"][2].update(c=1), {6}),
    "kwargs, 0.0 to -0.0": (lambda s: s["messages"][6].additional_kwargs["a"]["b"][2].update(c=-0.0), {6}),
    "kwargs, 1 to True": (lambda s: s["messages"][0].additional_kwargs.update(n=True), {0}),
    "kwargs, 1 to 1.0": (lambda s: s["messages"][0].additional_kwargs.update(n=1.0), {0}),
    "kwargs, list to tuple": (lambda s: s["messages"][0].additional_kwargs["a"].update(b=(1, 2)), {0}),
    "kwargs, a key removed": (lambda s: s["messages"][0].additional_kwargs.pop("n"), {0}),
    "call args": (lambda s: s["messages"][1].tool_calls[0]["args"].update(path="new"), {1}),
    "call args in depth": (lambda s: s["messages"][1].tool_calls[0]["args"]["deep"].update(one=True), {1}),
    "call args, a line more": (lambda s: s["messages"][1].tool_calls[0]["args"]["lines"].append(3), {1}),
    "a call removed": (lambda s: s["messages"][1].tool_calls.clear(), {1}),
    "response_metadata in depth": (lambda s: s["messages"][1].response_metadata["model"].update(name="x"), {1}),
    "an artifact in depth": (lambda s: s["messages"][2].artifact["a"].append(2), {2}),
    "the first and the last message": (
        lambda s: (setattr(s["messages"][0], "content", "x"), setattr(s["messages"][-1], "name", "y")),
        {0, COUNT - 1},
    ),
    "a message replaced": (lambda s: _set(s["messages"], 3, HumanMessage("other", id="m3")), {3}),
    "a message replaced by an equal one": (lambda s: _set(s["messages"], 3, message(3)), set()),
    "a message removed": (lambda s: s["messages"].pop(5), set()),
    "the first message removed": (lambda s: s["messages"].pop(0), set()),
    "a message appended": (lambda s: s["messages"].append(HumanMessage("more", id="more")), set()),
    "a message inserted": (lambda s: s["messages"].insert(4, HumanMessage("more", id="more")), set()),
    "a message twice": (lambda s: s["messages"].append(s["messages"][0]), set()),
    "messages reversed": (lambda s: s["messages"].reverse(), set()),
    "two messages exchanged": (
        lambda s: s["messages"].__setitem__(slice(2, 4), [s["messages"][3], s["messages"][2]]),
        set(),
    ),
    "exchanged and changed": (
        lambda s: (s["messages"].reverse(), setattr(s["messages"][0], "content", "x")),
        {COUNT - 1},
    ),
    "one message's fields in another": (
        lambda s: setattr(s["messages"][0], "additional_kwargs", s["messages"][3].additional_kwargs),
        {0},
    ),
    "messages cleared": (lambda s: s["messages"].clear(), set()),
    "messages as another list": (lambda s: s.update(messages=list(s["messages"])), set()),
    "messages as a tuple": (lambda s: s.update(messages=tuple(s["messages"])), None),
    "messages copied deeply": (lambda s: s.update(messages=copy.deepcopy(s["messages"])), set()),
    "messages as another channel's": (lambda s: s.update(other=s["messages"]), set()),
    "a file's content": (lambda s: s["files"]["f3"].update(content="new"), set()),
    "a file's lines": (lambda s: s["files"]["f3"]["lines"].append(0), set()),
    "a file's line, 1 to True": (lambda s: _set(s["files"]["f3"]["lines"], 1, True), set()),
    "a file added": (lambda s: s["files"].update(new={"content": "x"}), set()),
    "a file removed": (lambda s: s["files"].pop("f7"), set()),
    "a file last": (lambda s: _set(s["files"], "f0", s["files"].pop("f0")), set()),
    "two files exchanged": (lambda s: s["files"].update(f1=s["files"]["f2"], f2=s["files"]["f1"]), set()),
    "a number": (lambda s: _set(s["numbers"], 7, 9), set()),
    "a number, 1 to True": (lambda s: _set(s["numbers"], 1, True), set()),
    "a number, 1 to 1.0": (lambda s: _set(s["numbers"], 1, 1.0), set()),
    "a number, 0 to -0.0": (lambda s: _set(s["numbers"], 0, -0.0), set()),
    "a number, 0 to False": (lambda s: _set(s["numbers"], 0, False), set()),
    "numbers reversed": (lambda s: s["numbers"].reverse(), set()),
    "numbers, one less": (lambda s: s["numbers"].pop(), set()),
    "numbers, one less and one more": (lambda s: (s["numbers"].pop(0), s["numbers"].append(99)), set()),
    "an element of dicts": (lambda s: s["mixed"][3].update(ok=True), set()),
    "an element in depth": (lambda s: s["mixed"][3]["tags"].append("x"), set()),
    "an element's key removed": (lambda s: s["mixed"][3].pop("tags"), set()),
    "elements exchanged": (lambda s: s["mixed"].reverse(), set()),
    "a small dict": (lambda s: s["small"]["b"][1].update(c=0), set()),
    "a small dict, 1 to True": (lambda s: s["small"].update(a=True), set()),
    "a small dict, other order": (lambda s: _set(s["small"], "a", s["small"].pop("a")), set()),
    "a message in a dict": (lambda s: setattr(s["nested"]["messages"][0], "content", "x"), set()),
    "a list in a dict in a dict": (lambda s: _set(s["nested"]["deep"]["list"], 1, True), set()),
    "a scalar channel, 1 to True": (lambda s: s.update(flag=True), set()),
    "a scalar channel, 1 to 1.0": (lambda s: s.update(flag=1.0), set()),
    "a text": (lambda s: s.update(text="new"), set()),
    "a list in a tuple": (lambda s: s["pair"][1].append(3), set()),
    "a bytearray": (lambda s: s["bytes"].append(1), set()),
    "an empty list filled": (lambda s: s["empty"].append(0), set()),
    "a channel removed": (lambda s: s.pop("files"), set()),
    "a channel added": (lambda s: s.update(more=[1] * 300), set()),
    "channels in another order": (lambda s: _set(s, "messages", s.pop("messages")), set()),
    "channels exchanged": (lambda s: s.update(numbers=s["mixed"], mixed=s["numbers"]), set()),
    "a container shared": (lambda s: s.update(small=s["files"]["f1"], mixed=[s["files"]["f1"]] * 2), set()),
}


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[Thread]:
    """A thread over an empty directory."""
    with Thread(tmp_path, fsync="never", restore_memory="never") as thread:
        yield thread


WAYS: dict[str, Callable[[Thread], Any]] = {
    "in the same saver": lambda t: None,
    "in a new saver": lambda t: t.reopen(),
    "packed by the same saver": lambda t: t.saver.pack(t.thread_id),
    "packed, in a new saver": lambda t: (t.saver.pack(t.thread_id), t.reopen()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", CHANGES)
def test_what_is_put_after_a_read_is_what_is_read(thread: Thread, what: str, way: str) -> None:
    """Changed in any way between get_tuple and put, before and after another put, packed or not; and once each."""
    change, others = CHANGES[what]
    thread.step({"messages": [message(n) for n in range(COUNT - 4)]})
    first = state()
    thread.step(first)
    WAYS[way](thread)
    handed = thread.values()
    change(handed)
    expected = copy.deepcopy(handed)
    thread.step(handed)
    assert difference(thread.values(thread.configs[-1]), expected) is None
    thread.reopen()
    assert difference(thread.values(thread.configs[-1]), expected) is None
    assert difference(thread.values(thread.configs[1]), state()) is None
    if others is not None:
        assert [n for n in range(COUNT) if n not in others and thread.count(marker(n)) != 1] == []
    thread.saver.pack(thread.thread_id)
    assert difference(thread.values(thread.configs[-1]), expected) is None
    assert difference(thread.values(thread.configs[1]), state()) is None


@pytest.mark.parametrize("what", CHANGES)
def test_writes_after_a_read_are_what_is_read(thread: Thread, what: str) -> None:
    """A task's writes are compared with what was handed out, too."""
    change, _ = CHANGES[what]
    thread.step(state())
    thread.saver.pack(thread.thread_id)
    thread.reopen()
    handed = thread.values()
    change(handed)
    expected = copy.deepcopy(handed)
    thread.write(list(handed.items()))
    thread.reopen()
    found = {channel: value for _, channel, value in thread.read().pending_writes}
    assert difference(found, expected) is None
    assert difference(thread.values(), state()) is None


@pytest.mark.parametrize("way", WAYS)
def test_a_state_that_is_changed_and_put_again_and_again(thread: Thread, way: str) -> None:
    """Each change follows the one before, with a read between or not: every checkpoint is what was put."""
    thread.step(state())
    states = [state()]
    handed = thread.values()
    for number, (what, (change, _)) in enumerate(CHANGES.items()):
        if what in ("messages cleared", "messages as a tuple", "a channel removed", "channels exchanged"):
            continue
        if number % 2:
            WAYS[way](thread)
            handed = thread.values()
        try:
            change(handed)
        except (KeyError, IndexError, AttributeError):
            handed["flag"] = number
        states.append(copy.deepcopy(handed))
        thread.step(handed)
    thread.reopen()
    for config_of, expected in zip(thread.configs, states, strict=True):
        assert difference(thread.values(config_of), expected) is None


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("what", ["nothing", "a message's content", "a message appended", "messages reversed"])
def test_another_saver_appends_between_a_read_and_a_put(thread: Thread, what: str, packs: bool) -> None:
    """What another wrote, and packed, has numbers that this one does not know: nothing refers to the wrong ones."""
    change, others = CHANGES[what]
    thread.step(state())
    thread.reopen()
    handed = thread.values()
    change(handed)
    handed["messages"].append(AIMessage("mine", id="mine"))
    expected = copy.deepcopy(handed)
    with JsonlSaver(thread.root, fsync="never", restore_memory="never") as other:
        more = [HumanMessage(f"theirs {n} " + prose(n, 300), id=f"t{n}") for n in range(5)]
        put(other, at(9), {"messages": [*handed["messages"], *more]}, thread_id=thread.thread_id, ns="other")
        if packs:
            other.pack(thread.thread_id)
    thread.step(handed)
    thread.reopen()
    assert difference(thread.values(thread.configs[-1]), expected) is None
    there = thread.read(config(thread.thread_id, "other")).checkpoint["channel_values"]["messages"]
    assert difference(there, [*expected["messages"], *more]) is None
    assert [n for n in range(COUNT) if n not in others and thread.count(marker(n)) != 1] == []
    assert thread.count('"content":"mine"') == 1


def test_another_saver_puts_the_checkpoint_that_was_handed_out_difference(thread: Thread) -> None:
    """The id has another content by then: what this one puts is compared with what it was handed."""
    thread.step(state())
    thread.reopen()
    handed = thread.values()
    with JsonlSaver(thread.root, restore_memory="never") as other:
        changed = {"messages": [HumanMessage("forged", id=m.id) for m in handed["messages"]], "flag": True}
        put(other, "1f000000-0000-6000-8000-000000000000", changed, thread_id=thread.thread_id)
    thread.step(handed)
    thread.reopen()
    assert difference(thread.values(thread.configs[-1]), state()) is None


def test_two_reads_of_a_checkpoint_are_two_states(thread: Thread) -> None:
    """A caller changes the one and puts the other, or both in turn."""
    thread.step(state())
    thread.reopen()
    one, two = thread.values(), thread.values()
    one["messages"][3].content = "one"
    two["messages"][4].content = "two"
    for values in (one, two, one):
        expected = copy.deepcopy(values)
        thread.step(values)
        assert difference(thread.values(thread.configs[-1]), expected) is None


def test_an_early_checkpoint_that_was_handed_out_is_gone_on_with(thread: Thread) -> None:
    """A fork: the state of an early checkpoint is put behind it, while the newest is another one."""
    for number in range(4):
        thread.step({"messages": [message(n) for n in range(3 * number + 1)], "n": [number] * 300})
    thread.saver.pack(thread.thread_id)
    thread.reopen()
    newest, early = thread.values(), thread.values(thread.configs[1])
    early["messages"].append(HumanMessage("fork", id="fork"))
    expected = copy.deepcopy(early)
    thread.step(early)
    newest["messages"].append(HumanMessage("main", id="main"))
    expected_too = copy.deepcopy(newest)
    thread.step(newest)
    thread.reopen()
    assert difference(thread.values(thread.configs[-2]), expected) is None
    assert difference(thread.values(thread.configs[-1]), expected_too) is None
    assert [thread.count(marker(n)) for n in range(10)] == [1] * 10


def test_a_state_that_was_handed_out_and_dropped_is_not_taken_for_another(thread: Thread) -> None:
    """New objects may stand where those of a dropped state stood in memory."""
    thread.step(state())
    for number in range(30):
        thread.read()
        values = state()
        values["messages"][number % COUNT] = HumanMessage(f"new {number}", id=f"m{number % COUNT}")
        values["numbers"][number] = True
        expected = copy.deepcopy(values)
        thread.step(values)
        assert difference(thread.values(thread.configs[-1]), expected) is None


def test_a_state_that_was_handed_out_before_the_thread_was_deleted(thread: Thread) -> None:
    """What was read once is no part of the thread that begins anew."""
    thread.step(state())
    handed = thread.values()
    thread.saver.delete_thread(thread.thread_id)
    thread.configs.clear()
    thread.versions.clear()
    thread.step(handed)
    thread.reopen()
    assert difference(thread.values(), state()) is None
