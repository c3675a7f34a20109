"""Each operation of a scripted run fails, in each way in which it can."""

from __future__ import annotations

import errno
import gc
import logging
import os
import random
from typing import TYPE_CHECKING, Any

import pytest
from kill.bare import records

from faults.disk import Disk, Fault
from faults.power import lay_out, remains
from faults.script import (
    MAIN,
    STEPS,
    THREADS,
    TORN,
    TORN_BEFORE,
    config,
    look,
    open_saver,
    put_writes,
    states,
    tear,
    whole,
)
from langgraph_jsonl_checkpoint import FailedSessionError, JsonlSaver, SessionError

if TYPE_CHECKING:
    from pathlib import Path

    from faults.script import Seen, Step

FAULTS = {
    "EIO": Fault(errno.EIO),
    "ENOSPC": Fault(errno.ENOSPC),
    "EDQUOT": Fault(errno.EDQUOT),
    "EINTR": Fault(errno.EINTR),
    "EIO behind one byte": Fault(errno.EIO, part=1e-9),
    "ENOSPC behind half": Fault(errno.ENOSPC, part=0.5),
    "EIO behind all": Fault(errno.EIO, part=1),
    "full": Fault(errno.ENOSPC, lasts=True),
    "full behind half": Fault(errno.ENOSPC, part=0.5, lasts=True),
}
POLICIES = ["checkpoint", "always", "never"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Seen]]:
    """What is stored of each thread before the first step of the script, and after each."""
    return states(tmp_path_factory.mktemp("clean"))


@pytest.fixture(autouse=True)
def no_records(caplog: pytest.LogCaptureFixture) -> None:
    """A warning that pytest keeps would keep its error, and with it all that was open."""
    caplog.set_level(logging.CRITICAL, "langgraph_jsonl_checkpoint")


class Case:
    """One run of the script, in which one operation fails."""

    def __init__(self, root: Path, fsync: str, expected: dict[str, list[Seen]]) -> None:
        self.root, self.fsync, self.expected = root, fsync, expected
        root.mkdir()
        self.disk = Disk(str(root))
        self.raised = 0

    def run(self, at: int, fault: Fault) -> None:
        """Let the operation with this number fail."""
        with pytest.MonkeyPatch.context() as patch:
            self.disk.install(patch)
            self.disk.fail(at, fault)
            saver = open_saver(self.root / "sessions", self.fsync)
            for number, step in enumerate(STEPS):
                self.make(saver, number, step)
            del saver
            if self.disk.descriptors:
                gc.collect()
            assert self.disk.descriptors == {}, "a descriptor leaks"
        if self.disk.hit and self.disk.done[at].name in ("fsync", "fdatasync") and self.fsync != "never":
            self.check_power_cut()
        self.check_end()

    def make(self, saver: JsonlSaver, number: int, step: Step) -> None:
        """Make a call; if it raises, see that all is as it was, and make it again."""
        if number == TORN_BEFORE:
            with self.disk.quiet():
                tear(saver, MAIN)
        before = self.disk.hit
        log = saver.path(step.thread)
        bytes_before = log.read_bytes() if log.exists() else b""
        try:
            step.call(saver)
        except (OSError, SessionError) as error:
            assert self.disk.hit, "nothing had failed"
            assert not before, "and it goes on when space returns"
            self.raised += 1
            self.check_place(str(error))
            self.check_locks()
            if step.appends:
                assert (log.read_bytes() if log.exists() else b"").startswith(bytes_before.removesuffix(TORN))
                with pytest.raises(FailedSessionError):
                    put_writes(saver, step.thread, 1, "probe")
            self.disk.free()
            saver.get_tuple(config(step.thread))
            seen, before_it, after_it = look(saver, step.thread), *self.expected[step.thread][number : number + 2]
            if seen != after_it or step.appends:
                assert seen == before_it
                step.call(saver)
                assert step.kind in ("read", "end") or look(saver, step.thread) == after_it
        else:
            self.disk.free()
            if self.disk.hit and not before and step.kind != "end":
                assert look(saver, step.thread) == self.expected[step.thread][number + 1]
        self.check_locks()
        if number == TORN_BEFORE:
            reports = [line["recovered"]["bytes"] for line in records(log) if "recovered" in line]
            assert reports == [len(TORN)], "a torn end that was moved aside is told of"

    def check_place(self, error: str) -> None:
        """An error says where it was. That a folder cannot be closed no system says."""
        assert str(self.root) in error or self.disk.done[self.disk._at].name == "close"

    def check_locks(self) -> None:
        """No log is locked between two calls."""
        assert [path for path in self.disk.held if "/.writers/" not in path] == []

    def check_power_cut(self) -> None:
        """A sync that failed leaves nothing that a later one passes over."""
        left = next(remains(self.disk.tree, random.Random(7)))
        cut = self.root.with_suffix(".cut")
        lay_out(left, cut)
        with open_saver(cut / "sessions", self.fsync) as saver:
            assert look(saver, MAIN) == self.expected[MAIN][-1]

    def check_end(self) -> None:
        """Another process reads all of it, and goes on."""
        with open_saver(self.root / "sessions", self.fsync) as saver:
            for thread in THREADS:
                assert look(saver, thread) == self.expected[thread][-1]
            put_writes(saver, MAIN, 6, "more")
            assert look(saver, MAIN).stored[0].pending_writes
            assert whole(saver.path(MAIN))
        folder = self.root / "sessions" / "default" / MAIN
        assert {name.split("-")[0] for name in os.listdir(folder)} - {".new"} == {"session.jsonl.zst", "session.torn"}


def fail_each(root: Path, fsync: str, expected: dict[str, list[Seen]], faults: list[str]) -> list[Case]:
    """Let the first, the second, … operation fail until there are no more, each with the next of the faults."""
    cases: list[Case] = []
    while not cases or cases[-1].disk.hit:
        at = len(cases)
        fault = faults[at % len(faults)]
        cases.append(Case(root / str(at), fsync, expected))
        try:
            cases[-1].run(at, FAULTS[fault])
        except BaseException as error:
            error.add_note(f"{fault} at operation {at}: {cases[-1].disk.done[at]}")
            raise
    return cases


def check_counts(cases: list[Case]) -> None:
    """Each operation failed, and most of them are not passed over."""
    assert len(cases) > 200
    assert sum(case.raised for case in cases) > 150


@pytest.mark.parametrize(
    "fsync", ["checkpoint", *(pytest.param(fsync, marks=pytest.mark.slow) for fsync in ("always", "never"))]
)
def test_a_failed_operation_costs_its_own_call(tmp_path: Path, expected: Any, fsync: str) -> None:
    """A call that could not be stored raises and is not there; the session waits to be read, then all goes on."""
    check_counts(fail_each(tmp_path, fsync, expected, [*FAULTS]))


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("fsync", POLICIES)
def test_each_operation_fails_in_each_way(tmp_path: Path, expected: Any, fsync: str, fault: str) -> None:
    """The same under each policy, for each operation with each fault."""
    check_counts(fail_each(tmp_path, fsync, expected, [fault]))
