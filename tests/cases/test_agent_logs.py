"""What went wrong with other agents' logs, tried on this one."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from cases.graphs import ChatState, at, chain, config, ids, put, sequence
from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver, ToolPolicy, resume_or_invoke

if TYPE_CHECKING:
    from pathlib import Path

    from cases.conftest import Access


def answering() -> Any:
    """A graph that answers."""
    return sequence(ChatState, ("n", lambda _: {"messages": [("ai", "ok")]}))


def ways(access: Access) -> list[Any]:
    """Each way to go on with a thread."""
    graph = access.graph(answering())
    message = {"messages": [("user", "and now?")]}
    return [
        lambda: access.get_tuple(config()),
        lambda: graph.invoke(message, config()),
        lambda: graph.invoke(None, config()),
        lambda: graph.get_state(config()),
        lambda: access.resume_state("t"),
        lambda: access.resolve("t", "c", {"type": "approve"}),
        lambda: access.put_writes(config(checkpoint_id=at(0)), [("x", 1)], "task"),
        lambda: put(access, at(9)),
        lambda: resume_or_invoke(answering().compile(checkpointer=access.saver), message, config()),
    ]


def test_a_thread_that_cannot_be_resumed_is_not_taken_for_an_empty_one(access: Access, root: Path) -> None:
    """github/app#2309: each way to go on raises, each time; the log stays what it is and no other is begun."""
    access.graph(answering()).invoke({"messages": [("user", "hello")]}, config())
    access.reopen()
    path = access.saver.path("t")
    whole = path.read_bytes()
    middle = len(whole) // 2
    damaged = whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :]
    path.write_bytes(damaged)
    access.reopen()
    for _ in range(2):
        for go in ways(access):
            with pytest.raises(CorruptSessionError):
                go()
    assert path.read_bytes() == damaged
    assert os.listdir(root / "default") == ["t"]
    assert os.listdir(path.parent) == [path.name]
    path.write_bytes(whole)
    access.reopen()
    assert len(access.graph(answering()).get_state(config()).values["messages"]) == 2


def test_every_reader_reads_behind_the_first_frame(access: Access) -> None:
    """python-zstandard#59: one-shot decompression ends behind the header of a file that holds much more."""
    names = chain(access, 5)
    access.reopen()
    data = access.saver.path("t").read_bytes()
    assert zstandard.ZstdDecompressor().decompress(data).count(b"\n") == 1  # what that reader saw
    assert ids(access.list(config())) == names[::-1]
    assert access.get_tuple(config()).checkpoint["id"] == names[-1]
    assert access.resume_state("t").checkpoint.id == names[-1]
    assert access.verify("t").records == data_lines(data)
    access.pack("t")
    access.reopen()
    assert ids(access.list(config())) == names[::-1]


def data_lines(data: bytes) -> int:
    """How many lines a log has, by a reader over all frames."""
    return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read().count(b"\n")


def test_what_comes_after_a_resume_goes_to_the_resumed_session(access: Access) -> None:
    """MyCodeAgent: resume, append, resume again, between two sessions; each log grows by its own messages alone."""
    said: dict[str, list[str]] = {"a": [], "b": []}
    for turn, name in enumerate("abbabaab"):
        access.reopen()
        paths = {other: access.saver.path(other) for other in said}
        before = {other: path.stat().st_size for other, path in paths.items() if path.exists()}
        done = access.graph(answering()).invoke({"messages": [("user", f"{name} {turn}")]}, config(name))
        said[name] += [f"{name} {turn}", "ok"]
        assert [m.content for m in done["messages"]] == said[name]
        for other, size in before.items():
            assert (paths[other].stat().st_size > size) == (other == name)
    access.reopen()
    for name, messages in said.items():
        assert [m.content for m in access.resume_state(name).messages] == messages


def test_appending_costs_the_same_however_long_the_log_is(root: Path) -> None:
    """MyCodeAgent: bytes written and read by a `put` after 300 others are those of one after 50."""
    with JsonlSaver(root, fsync="never") as saver:
        sizes = []
        for place in range(300):
            put(saver, at(place), {"n": f"{place:04}"}, parent=at(place - 1) if place else None)
            sizes.append(saver.path("t").stat().st_size)
    costs = [after - before for before, after in itertools.pairwise(sizes)]
    assert max(costs[250:]) < 1.2 * max(costs[30:80])


@pytest.mark.parametrize("listed", ["side_effects", "read_only", "idempotent"])
def test_a_tool_that_is_on_no_list_is_not_safe(listed: str) -> None:
    """MyCodeAgent: what a deny-list forgets may still do harm; nobody named it, so it does not run twice unseen."""
    policy = ToolPolicy(**{listed: ["known"]})
    assert policy.effect("known", {}, None) == listed
    assert policy.effect("forgotten", {}, None) == "side_effects"
    assert policy.effect("known ", {}, None) == "side_effects"
    assert policy.effect("Known", {}, None) == "side_effects"


def test_a_memory_that_says_the_same_is_the_same_text(access: Access) -> None:
    """can1357/oh-my-pi#3111: read again, by another saver, after what says nothing new: no byte differs."""
    graph = access.graph(answering())
    graph.invoke({"messages": [("user", "find out where the town of Lund is")]}, config())
    texts = {str(access.saver.session_memory("t"))}
    for _ in range(3):
        saver = access.reopen()
        texts.add(str(saver.session_memory("t")))
        put(access, at(0), {"x": 1}, ns="elsewhere:1")
        texts.add(str(access.saver.session_memory("t")))
    graph.invoke({"messages": [("user", "go on")]}, config())
    assert texts == {next(iter(texts))}
    assert str(access.saver.session_memory("t")) not in texts
