"""A process is stopped (SIGSTOP) in the middle of a call for longer than anything waits, and goes on or is killed."""

from __future__ import annotations

import logging
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest
from cases.graphs import config, ids

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.log import logfile
from races.checks import check, whole
from races.jobs import name_of, store, store_writes

if TYPE_CHECKING:
    from pathlib import Path

    from races.conftest import Crew, Worker

STOPPED = 0.15  # seconds: no wait of the package ends by itself, so a short one shows what a long one does

HOLDS = [  # call, where, step: the lock is held there
    ("write", "before", "write"),
    ("write", "middle", "write"),
    ("write", "after", "write"),
    ("write", "after", "sync"),
    ("write", "before", "unlock"),
    ("pack", "before", "replace"),
    ("pack", "after", "replace"),
    ("prune", "before", "replace"),
    ("prune", "after", "replace"),
    ("torn", "before", "set_aside"),
    ("torn", "before", "truncate"),
    ("torn", "after", "truncate"),
]


def begin(crew: Crew, call: str) -> list[str]:
    """A thread of three checkpoints, and half a commit behind them if a torn end is wanted; their ids."""
    with JsonlSaver(crew.root) as saver:
        for place in range(3):
            store(saver, "t", "w", place, ns="w")
            store_writes(saver, "t", "w", place, ns="w")
        path = saver.path("t")
        size = path.stat().st_size
        store(saver, "t", "w", 3, ns="w")
    if call == "torn":
        with path.open("r+b") as log:
            log.truncate((size + path.stat().st_size) // 2)
    with JsonlSaver(crew.root) as saver:
        return ids(saver.list(config(ns="w")))


def stop(crew: Crew, call: str, where: str, do: str) -> Worker:
    """A process that was stopped there."""
    stopped = crew.start("stop_in", "s", call="write" if call == "torn" else call, where=where, do=do)
    stopped.until("stops")
    stopped.until_stopped()
    return stopped


@pytest.mark.parametrize("place", HOLDS, ids=" ".join)
@pytest.mark.parametrize("then", [signal.SIGCONT, signal.SIGKILL], ids=["continued", "killed"])
def test_others_wait_for_a_writer_that_is_stopped_with_the_lock(
    crew: Crew, place: tuple[str, str, str], then: signal.Signals
) -> None:
    """They append when it has gone on or died; until then they can read; nothing is lost or doubled."""
    call, where, do = place
    before = begin(crew, call)
    stopped = stop(crew, call, where, do)
    other = crew.start("write", "b", ids=["t"], count=5, fsync="never")
    with JsonlSaver(crew.root) as saver:
        seen = ids(saver.list(config(ns="w")))
        assert seen == (before[:1] if (call, where) == ("prune", "after") else before)
        assert saver.get_tuple(config(ns="w")).checkpoint["id"] == before[0]
    time.sleep(STOPPED)
    assert other.reports("put") == [], "it wrote past a lock"
    stopped.signal(then)
    other.finish()
    assert stopped.end() == (0 if then == signal.SIGCONT else -signal.SIGKILL)
    pruned = call == "prune" and (then == signal.SIGCONT or where == "after")
    with JsonlSaver(crew.root) as saver:
        assert ids(saver.list(config(ns="w"))) == (before[:1] if pruned else before)
        path = saver.path("t")
    mine = [r["id"] for r in whole(path) if r["type"] == "checkpoint" and r["ns"] == ""]
    assert [name for name in mine if name.endswith("b.0")] == [name_of("b.0", number) for number in range(5)]
    told = [name_of("s", put["place"]) for put in stopped.reports("put")]
    there = [name for name in mine if name.endswith("-s")]
    assert there[: len(told)] == told
    assert len(there) == len(set(there)) <= len(told) + 1
    torn = [*path.parent.glob("session.torn-*")]
    assert bool(torn) == (call == "torn" or (where, then) == ("middle", signal.SIGKILL))
    with JsonlSaver(crew.root) as saver:
        store(saver, "t", "z", 99)
        assert saver.get_tuple(config()).checkpoint["id"] == name_of("z", 99)
        whole(path)


@pytest.mark.parametrize(("where", "do"), [("before", "create"), ("after", "create"), ("after", "unlock")])
def test_nobody_waits_for_a_writer_that_is_stopped_without_the_lock(crew: Crew, where: str, do: str) -> None:
    """Others go on beside it, also where it was about to create the log; when it goes on it finds what they did."""
    if do != "create":
        begin(crew, "write")
    stopped = stop(crew, "write", where, do)
    other = crew.start("write", "b", ids=["t"], count=5, fsync="never").finish()
    assert stopped.reports("continues") == []
    stopped.signal(signal.SIGCONT)
    stopped.finish()
    if do == "create":
        assert check(crew.root, ["t"], [stopped, other]) == 20
    with JsonlSaver(crew.root) as saver:
        mine = [r["id"] for r in whole(saver.path("t")) if r["type"] == "checkpoint"]
    for name in ("s", "b.0"):
        assert [each for each in mine if each.endswith(f"-{name}")] == [name_of(name, place) for place in range(5)]


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_writer_is_told_when_a_stopped_deletion_goes_on(crew: Crew, where: str) -> None:
    """Who waited for the log finds it deleted: the put says so, and the next run begins the thread anew."""
    begin(crew, "write")
    stopped = stop(crew, "delete_thread", where, "_delete")
    other = crew.start("write_on", "b", ns="w")
    time.sleep(STOPPED)
    if where == "before":
        assert other.reports("put") == []
    stopped.signal(signal.SIGCONT)
    stopped.finish()
    other.until("put", 3)
    other.kill()
    with JsonlSaver(crew.root) as saver:
        found = [r for r in whole(saver.path("t")) if r["type"] == "checkpoint"]
    assert not any(r["id"].endswith("-w") for r in found)
    mine = [r["id"] for r in found if r["id"].endswith("-b")]
    told = [name_of("b", put["place"]) for put in other.reports("put")]
    assert mine[: len(told)] == told
    assert [r["id"] for r in found if r["id"].endswith("-s")] == [name_of("s", place) for place in range(5)]


def test_a_stopped_writer_is_alive(crew: Crew) -> None:
    """Its tool call is running, not uncertain, however long it is stopped; killed, it has crashed."""
    stopped = crew.start("stop_in_a_run", "s")
    stopped.until("charged")
    stopped.until_stopped()
    with JsonlSaver(crew.root) as saver:
        state = saver.resume_state("t")
        assert not state.crashed
        assert [call.status for call in state.tool_calls] == ["running"]
        assert saver.uncertain("t") == ()
    stopped.signal(signal.SIGCONT)
    assert stopped.until("end")[0]["last"] == "charged"
    stopped.finish()

    stopped = crew.start("stop_in_a_run", "s2")
    stopped.until("charged")
    stopped.kill()
    with JsonlSaver(crew.root) as saver:
        assert saver.resume_state("t").crashed
        assert len(saver.uncertain("t")) == 1


def test_a_long_wait_is_told_of(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, with the path of the log that is locked; the call then does what it is for."""
    monkeypatch.setattr(logfile, "_PATIENCE", 0.05)
    with JsonlSaver(root) as saver:
        store(saver, "t", "w", 0)
        path = saver.path("t")
        file = logfile.LogFile(str(path))
        file.lock()
        with caplog.at_level(logging.WARNING):
            waiting = threading.Thread(target=store, args=(saver, "t", "w", 1))
            waiting.start()
            time.sleep(0.3)
            assert waiting.is_alive()
            file.unlock()
            waiting.join()
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert f"{path} has been locked by another process for 0.05 seconds" in caplog.text
        assert len([*saver.list(config())]) == 2
