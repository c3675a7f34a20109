"""A process forks with savers open, as multiprocessing and pre-forking servers do."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from cases.graphs import config, ids
from cases.logs import of_type

from langgraph_jsonl_checkpoint import JsonlSaver
from races.checks import check, whole
from races.jobs import store

if TYPE_CHECKING:
    from races.conftest import Crew


@pytest.mark.parametrize("threads", [["t"], ["t0", "t1", "t2"]], ids=["one thread", "many threads"])
def test_forked_workers_and_the_parents_threads_lose_nothing(crew: Crew, threads: list[str]) -> None:
    """Workers of multiprocessing use the savers that were open at the fork, while threads of the parent append."""
    parent = crew.start("pool", "p", ids=threads, count=4).finish()
    assert len({report["writer"] for report in parent.reports("put")}) == 2 + 8
    check(crew.root, threads, [parent])


def test_forks_of_forks_are_writers_of_their_own(crew: Crew) -> None:
    """A child's child goes on with the same saver; each is told apart in the log."""
    first = crew.start("generations", "g", depth=4).finish()
    assert check(crew.root, ["t"], [first]) == 8
    with JsonlSaver(crew.root) as saver:
        writers = {record["writer"] for record in of_type(saver.path("t"), "open")}
    assert len(writers) == 4 + 2, "four processes, and the two savers that checked"


@pytest.mark.parametrize("drop", [False, True], ids=["kept", "dropped"])
def test_a_forked_child_that_ends_does_not_end_the_parents_run(crew: Crew, drop: bool) -> None:
    """The child's exit handlers, and its garbage, say nothing of the parent: killed later, it has crashed."""
    parent = crew.start("leave_in_good_order", "p", drop=drop)
    parent.until("left")
    with JsonlSaver(crew.root) as saver:
        assert not saver.resume_state("t").crashed, "its writer lives"
        assert of_type(saver.path("t"), "close") == []
    parent.kill()
    with JsonlSaver(crew.root) as saver:
        assert saver.resume_state("t").crashed


@pytest.mark.parametrize("child_reads", [False, True], ids=["child", "child that reads"])
def test_a_lock_dies_with_its_process_though_a_child_lives(crew: Crew, child_reads: bool) -> None:
    """A child that was forked in the middle of an append keeps no lock of it; nor do its half-read lists."""
    parent = crew.start("die_in_an_append", "p", child_reads=child_reads)
    parent.until("forked")
    parent.signal(signal.SIGKILL)
    parent.end()
    (done,) = parent.until("child done")
    with JsonlSaver(crew.root) as saver:
        store(saver, "t", "last", 4)
        assert ids(saver.list(config())) == ["00004-last", "00003-p.child", "00001-p", "00000-p"]
        whole(saver.path("t"))
    os.kill(done["pid"], signal.SIGKILL)
