"""Deletion: nothing of a thread is left, and nothing of any other is touched."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cases.graphs import ChatState, at, chain, config, ids, put, sequence
from langgraph_jsonl_checkpoint import CorruptSessionError, DeletedSessionError, JsonlSaver

if TYPE_CHECKING:
    from pathlib import Path

    from cases.conftest import Access


def _files(root: Path) -> set[str]:
    return {os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names}


def test_nothing_of_a_deleted_thread_is_left(access: Access, root: Path) -> None:
    """redis#51, langgraph#8054: no file of it, no trace in a cache; other threads stay."""
    chain(access, 3, thread_id="keep")
    before = _files(root)
    for ns in ("", "child:1"):
        chain(access, 3, thread_id="gone", ns=ns)
    access.put_writes(config("gone", checkpoint_id=at(2)), [("x", 1)], "task")
    (access.saver.path("gone").parent / "session.torn-12-20260102T030405Z").write_bytes(b"a torn end")

    access.delete_thread("gone")
    assert _files(root) == before
    assert not access.saver.path("gone").parent.exists()
    for ns in ("", "child:1"):
        assert access.get_tuple(config("gone", ns)) is None
        assert access.get_tuple(config("gone", ns, at(2))) is None
    assert access.list(config("gone", None)) == []
    assert {found.config["configurable"]["thread_id"] for found in access.list(None)} == {"keep"}
    assert ids(access.list(config("keep"))) == [at(2), at(1), at(0)]
    access.delete_thread("gone")
    access.delete_thread("never was")
    assert _files(root) == before


def test_a_deleted_thread_starts_empty_again(access: Access) -> None:
    """redis#51: the same id again has no old message, no old write and no old namespace."""
    graph = access.graph(sequence(ChatState, ("n", lambda _: {"messages": [("ai", "ok")]})))
    graph.invoke({"messages": [("user", "one"), ("user", "two")]}, config())
    put(access, at(1), ns="child")
    access.delete_thread("t")
    assert graph.get_state(config()).values == {}
    graph.invoke({"messages": [("user", "three")]}, config())
    access.reopen()
    values = graph.get_state(config()).values
    assert [message.content for message in values["messages"]] == ["three", "ok"]
    assert access.get_tuple(config(ns="child")) is None


def test_late_writes_do_not_bring_a_thread_back(access: Access, root: Path) -> None:
    """langgraph#8054: a background save that lands after the deletion is dropped, in silence."""
    chain(access, 2)
    access.delete_thread("t")
    access.put_writes(config(checkpoint_id=at(1)), [("x", 1)], "task")
    assert access.get_tuple(config()) is None
    assert access.list(None) == []
    if access.way != "reopened":
        # A saver that deleted the thread knows; to any other these writes came before their checkpoint.
        assert _files(root) == set()
    put(access, at(5), {"n": "new"})
    (found,) = access.list(config())
    assert (found.checkpoint["channel_values"], found.pending_writes) == ({"n": "new"}, [])


@pytest.mark.parametrize("known", ["open", "evicted", "grown elsewhere", "never opened"])
def test_late_writes_are_known_by_ids_that_tell_no_time(root: Path, known: str) -> None:
    """Whatever the saver that deletes a thread has in memory of it: the log says which checkpoints there were."""
    with JsonlSaver(root, max_open=1) as saver, JsonlSaver(root) as other:
        put(other if known == "never opened" else saver, "c1", {"n": 1})
        put(other if known == "grown elsewhere" else saver, "c2", {"n": 2})
        if known == "evicted":
            put(saver, "c1", thread_id="another")
        saver.delete_thread("t")
        for name in ("c1", "c2"):
            saver.put_writes(config(checkpoint_id=name), [("x", 1)], "task")
        assert not saver.path("t").exists()
        put(saver, "c3", {"n": 3})
        saver.put_writes(config(checkpoint_id="c3"), [("x", 3)], "task")
    with JsonlSaver(root) as saver:
        (found,) = saver.list(config())
        assert (found.checkpoint["channel_values"], found.pending_writes) == ({"n": 3}, [("task", "x", 3)])


def test_a_log_that_cannot_be_read_can_be_deleted(root: Path) -> None:
    """No file of it is left, and the thread begins anew."""
    with JsonlSaver(root) as saver:
        chain(saver, 3)
        saver.path("t").write_bytes(b"not a log")
        with pytest.raises(CorruptSessionError):
            saver.get_tuple(config())
        saver.delete_thread("t")
        assert _files(root) == set()
        put(saver, at(7), {"n": "new"})
        assert ids(saver.list(config())) == [at(7)]


@pytest.mark.parametrize("read_first", [True, False])
def test_another_saver_notices_a_deletion(root: Path, read_first: bool) -> None:
    """langgraph#8054: a saver that has the thread open writes nothing into the file that is gone."""
    with JsonlSaver(root) as saver, JsonlSaver(root) as other:
        chain(saver, 3)
        assert len([*other.list(config())]) == 3
        saver.delete_thread("t")
        if read_first:
            assert other.get_tuple(config()) is None
            assert [*other.list(config())] == []
        try:
            put(other, at(7), {"n": "new"}, parent=at(2))
        except DeletedSessionError:
            # Told that its thread is gone, it looks, and may begin a new one.
            assert other.get_tuple(config()) is None
            put(other, at(7), {"n": "new"}, parent=at(2))
        for opened in (other, saver):
            assert ids(opened.list(config())) == [at(7)]
            assert opened.get_tuple(config()).checkpoint["channel_values"] == {"n": "new"}
    with JsonlSaver(root) as saver:
        assert ids(saver.list(config())) == [at(7)]


def test_a_thread_deleted_and_begun_again_elsewhere_is_the_new_one(root: Path) -> None:
    """langgraph#8054: the old session is open here while another saver deletes it and starts the id anew."""
    with JsonlSaver(root) as saver, JsonlSaver(root) as other:
        chain(saver, 3)
        other.delete_thread("t")
        put(other, at(1), {"n": "new"})
        found = saver.get_tuple(config())
        assert found.checkpoint["channel_values"] == {"n": "new"}
        put(saver, at(2), {"n": "newer"}, parent=at(1))
        assert ids(other.list(config())) == ids(saver.list(config())) == [at(2), at(1)]
