"""Threads that are begun by several processes at once, or deleted while one appends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from cases.graphs import config, ids
from cases.logs import of_type

from langgraph_jsonl_checkpoint import JsonlSaver
from races.checks import check, whole
from races.jobs import name_of, store

if TYPE_CHECKING:
    from races.conftest import Crew

ROUNDS = 80


def test_a_session_that_several_create_at_once_is_one(crew: Crew) -> None:
    """Three processes store first in each of many threads: one log, all that they stored, and no file beside it."""
    begin = time.monotonic() + 0.3
    writers = [crew.start("create", name, begin=begin, rounds=ROUNDS, step=0.005) for name in "abc"]
    for writer in writers:
        writer.finish()
    assert sum(len(writer.reports("slower")) for writer in writers) > 0, "no two were there at once"
    threads = [f"r{number}" for number in range(ROUNDS)]
    for thread in threads:
        assert [path.name for path in (crew.root / "default" / thread).iterdir()] == ["session.jsonl.zst"]
        with JsonlSaver(crew.root) as saver:
            assert len(of_type(saver.path(thread), "open")) == 3
    assert check(crew.root, threads, writers) == 3 * ROUNDS


@pytest.mark.parametrize("writers", [1, 3])
def test_a_thread_deleted_while_others_append_keeps_what_came_later_and_nothing_else(
    crew: Crew, writers: int
) -> None:
    """A put that is refused says so; one that returned before a deletion began is gone, one after it is there."""
    appending = [crew.start("write_on", f"w{number}") for number in range(writers)]
    for each in appending:
        each.until("put", 3)
    times = crew.start("delete_on", "d", times=25, pause=0.01).finish().reports("deleted")
    for each in appending:
        each.until("put", len(each.reports("put")) + 5)
        each.kill()
    refused = sum(len(each.reports("refused")) for each in appending)
    assert refused > 0, "no deletion met a writer"
    with JsonlSaver(crew.root) as saver:
        stored = ids(saver.list(config()))
        path = saver.path("t")
    begun, done = times[-1]["begun"], times[-1]["done"]
    in_order = [r["id"] for r in whole(path) if r["type"] == "checkpoint"]
    assert len(set(in_order)) == len(in_order) == len(stored)
    for each in appending:
        puts = each.reports("put")
        before = {name_of(each.name, put["place"]) for put in puts if put["done"] < begun}
        after = [name_of(each.name, put["place"]) for put in puts if put["begun"] > done]
        mine = [name for name in in_order if name.endswith(each.name)]
        assert before.isdisjoint(mine)
        assert mine == sorted(mine)
        assert len(after) >= 5
        # The one that it was killed in may be there, too.
        assert mine[mine.index(after[0]) :][: len(after)] == after
    # A process killed while it created the log leaves a second name of it, and nothing else.
    beside = [p.name for p in path.parent.iterdir() if p.name != path.name]
    assert all(name.startswith(".new-") for name in beside)
    with JsonlSaver(crew.root) as saver:
        store(saver, "t", "last", 99999)
        assert ids(saver.list(config())) == ["99999-last", *stored]
        saver.delete_thread("t")
        assert not path.parent.exists()
