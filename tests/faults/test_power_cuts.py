"""The power is cut after each operation of a scripted run, and each process is killed there; another goes on."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from faults.disk import Disk
from faults.power import lay_out, remains
from faults.script import (
    COPY,
    MAIN,
    STEPS,
    THREADS,
    TORN_BEFORE,
    at,
    config,
    kill,
    look,
    open_saver,
    put,
    put_writes,
    states,
    tear,
    whole,
)
from langgraph_jsonl_checkpoint import CorruptSessionError

if TYPE_CHECKING:
    from pathlib import Path

    from faults.power import Remains
    from faults.script import Seen
    from langgraph_jsonl_checkpoint import JsonlSaver

POLICIES = ["checkpoint", "always", "never"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Seen]]:
    """What is stored of each thread before the first step of the script, and after each."""
    return states(tmp_path_factory.mktemp("clean"))


class Progress:
    """How far the script is.

    Attributes:
        begun: The number of steps that have begun.
        returned: The number of those that have returned.
        promised: Of each thread, of those whose policy says that they survive a power cut.
    """

    def __init__(self, fsync: str) -> None:
        self.fsync = fsync
        self.begun = self.returned = 0
        self.promised = dict.fromkeys(THREADS, 0)

    def run(self, saver: JsonlSaver, disk: Disk) -> None:
        """Make all calls, until the process is dead."""
        for number, step in enumerate(STEPS):
            self.begun = number + 1
            if number == TORN_BEFORE:
                with disk.quiet():
                    tear(saver, MAIN)
            try:
                step.call(saver)
            except Exception:
                assert disk.hit
            if disk.hit:
                return
            self.returned = number + 1
            if step.is_promised(self.fsync):
                self.promised[step.thread] = number + 1

    def may_be(self, expected: dict[str, list[Seen]], thread: str, *, killed: bool = False) -> list[Seen]:
        """What may be stored of a thread after a power cut, or after a kill."""
        return expected[thread][self.returned if killed else self.promised[thread] : self.begun + 1]


class Moment(NamedTuple):
    """What a power cut may leave at one moment, and what may then be stored of each thread."""

    at: int
    remains: Remains
    may_be: dict[str, list[Seen]]


def check(root: Path, fsync: str, may_be: dict[str, list[Seen]], place: int = 90) -> None:
    """Another process reads what may be there and nothing else, and goes on with it."""
    found = {}
    with open_saver(root, fsync) as saver:
        for thread in THREADS:
            try:
                found[thread] = look(saver, thread)
            except CorruptSessionError:
                assert fsync == "never", "a disk may keep what came later and lose what was before"
                continue
            assert found[thread] in may_be[thread]
            found[thread] = go_on(saver, thread, found[thread], place)
    with open_saver(root, fsync) as saver:
        for thread, seen in found.items():
            assert look(saver, thread) == seen
            assert whole(saver.path(thread))


def go_on(saver: JsonlSaver, thread: str, before: Seen, place: int) -> Seen:
    """Append to a thread; what is stored of it then."""
    put_writes(saver, thread, place, "early")
    put(saver, thread, place)
    now = look(saver, thread)
    assert now.stored[0].config == config(thread, at(place))
    assert [write[0] for write in now.stored[0].pending_writes] == ["early"]
    assert now.stored[1:] == before.stored
    assert now.tools == before.tools
    return now


def moments(root: Path, fsync: str, expected: dict[str, list[Seen]]) -> list[Moment]:
    """All moments of a run, and what may be left then; what is the same is there once."""
    root.mkdir()
    disk, progress, chance = Disk(str(root)), Progress(fsync), random.Random(5)
    found: dict[Any, Moment] = {}

    def cut() -> None:
        may_be = {thread: progress.may_be(expected, thread) for thread in THREADS}
        for left in remains(disk.tree, chance):
            key = left, progress.begun, *progress.promised.values()
            found.setdefault(key, Moment(len(disk.done) - 1, left, may_be))

    with pytest.MonkeyPatch.context() as patch:
        disk.install(patch)
        disk.watcher = cut
        saver = open_saver(root / "sessions", fsync)
        progress.run(saver, disk)
        cut()
    assert progress.returned == len(STEPS)
    return list(found.values())


SOME = [pytest.param(f, 8, marks=[] if f == "checkpoint" else pytest.mark.slow) for f in POLICIES]
ALL = [pytest.param(f, 1, marks=[pytest.mark.slow, pytest.mark.timeout(300)]) for f in POLICIES]


@pytest.mark.parametrize(("fsync", "share"), [*SOME, *ALL])
def test_what_the_policy_promises_survives_a_power_cut(tmp_path: Path, expected: Any, fsync: str, share: int) -> None:
    """Whatever part of the unsynced is lost: what was promised is there, nothing else is, and it goes on."""
    found = moments(tmp_path / "run", fsync, expected)
    assert len(found) > 500
    assert len({moment.at for moment in found}) > 40
    for number, moment in enumerate(found):
        if number % share == 0:
            lay_out(moment.remains, tmp_path / str(number))
            check(tmp_path / str(number) / "sessions", fsync, moment.may_be)


def test_a_root_that_a_lease_made_survives_a_power_cut(tmp_path: Path) -> None:
    """A turn with a thread makes the directories before its first log is there: they are synced all the same."""
    (tmp_path / "run").mkdir()
    disk, root = Disk(str(tmp_path / "run")), "of/a/new/project"
    with pytest.MonkeyPatch.context() as patch:
        disk.install(patch)
        with open_saver(tmp_path / "run" / root, "checkpoint") as saver:
            lease = saver.lease(MAIN)
            assert lease.take()
            put(saver, MAIN, 1)
            all_lost = next(remains(disk.tree, random.Random(5)))
            lease.give_back()
    lay_out(all_lost, tmp_path / "cut")
    with open_saver(tmp_path / "cut" / root, "checkpoint") as saver:
        assert [found.config for found in look(saver, MAIN).stored] == [config(MAIN, at(1))]


def places_to_die(root: Path, fsync: str) -> list[tuple[int, float]]:
    """Each operation before which the disk has changed, and parts of writes."""
    root.mkdir()
    disk = Disk(str(root))
    with pytest.MonkeyPatch.context() as patch:
        disk.install(patch)
        Progress(fsync).run(open_saver(root / "sessions", fsync), disk)
    done = disk.done
    found = [(number, 0.0) for number in range(1, len(done) + 1) if done[number - 1].changes]
    return found + [
        (number, part) for number, each in enumerate(done) if each.name == "pwrite" for part in (1e-9, 0.5)
    ]


@pytest.mark.parametrize(
    "fsync", [fsync if fsync == "never" else pytest.param(fsync, marks=pytest.mark.slow) for fsync in POLICIES]
)
def test_a_killed_process_loses_nothing_and_neither_does_the_next_ones_power_cut(
    tmp_path: Path, expected: Any, fsync: str
) -> None:
    """Killed at any operation, all calls that returned are there; what the next process puts survives a power cut."""
    found, chance = places_to_die(tmp_path / "run", fsync), random.Random(6)
    assert len(found) > 100
    for number, (operation, part) in enumerate(found):
        root = tmp_path / str(number)
        root.mkdir()
        disk, progress = Disk(str(root)), Progress(fsync)
        with pytest.MonkeyPatch.context() as patch:
            disk.install(patch)
            disk.die(operation, part)
            killed = open_saver(root / "sessions", fsync)
            progress.run(killed, disk)
            kill(killed)
            disk.revive()
            with open_saver(root / "sessions", fsync) as saver:
                before = {thread: look(saver, thread) for thread in THREADS}
                for thread in THREADS:
                    assert before[thread] in progress.may_be(expected, thread, killed=True)
                after = go_on(saver, MAIN, before[MAIN], 90)
                left = [*remains(disk.tree, chance)]
                gone = {MAIN: [after], COPY: progress.may_be(expected, COPY)}
        with open_saver(root / "sessions", fsync) as saver:
            assert look(saver, MAIN) == after
        if fsync != "never":
            for cut, each in enumerate({left[0], left[-1], chance.choice(left)}):
                lay_out(each, tmp_path / f"{number}-{cut}")
                check(tmp_path / f"{number}-{cut}" / "sessions", fsync, gone, 91)
