"""The machine loses power: what was not synced is gone.

A killed process loses nothing that the kernel has. So these tests take away what was never synced, too.
"""

from __future__ import annotations

import itertools
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from kill.script import THREAD
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from pathlib import Path

    from warm import Run

    from kill.conftest import Program

CHANGES = 5  # each of: the root, the writers' folder, the workspace, the thread, the log

LOST = {
    "gone": lambda unsynced: b"",
    "half of it gone": lambda unsynced: unsynced[: len(unsynced) // 2],
    "zeros": lambda unsynced: bytes(len(unsynced)),
}


def cut_power(log: Path, run: Run, lost: str) -> None:
    """Leave of the log what a disk may have of it that has done no more than it was asked for."""
    synced = {report["inode"]: report["size"] for report in run.of("synced")}
    if not log.exists():
        return
    names = [log, *itertools.islice(log.parents, 3)]  # up to the root, whose own entry is the user's
    if any(os.stat(name).st_ino not in synced for name in names):
        shutil.rmtree(log.parents[1])
        return
    size = synced[log.stat().st_ino]
    data = log.read_bytes()
    log.write_bytes(data[:size] + LOST[lost](data[size:]))


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize(("fsync", "kept"), [("checkpoint", ["put"]), ("always", ["put", "writes"])])
def test_what_the_policy_promises_survives_a_power_cut(
    program: Program, tmp_path: Path, fsync: str, kept: list[str], lost: str
) -> None:
    """After a power cut each put is there that had returned, and with fsync="always" each put_writes."""
    for number in itertools.count(1):
        root = tmp_path / str(number)
        run = program.run(root, point="after write", number=number, fsync=fsync)
        if not run.killed:
            break
        with JsonlSaver(root) as saver:
            cut_power(saver.path(THREAD), run, lost)
        promised = [report for report in run.reports if report["kind"] in kept]
        program.check_resumes(root, run._replace(reports=promised), fsync=fsync)
    assert number > 10


def test_what_a_killed_process_made_survives_the_next_ones_power_cut(program: Program, tmp_path: Path) -> None:
    """A process that finds a directory does not know if its maker lived to sync it."""
    for number in itertools.count(1):
        root = tmp_path / str(number)
        first = program.run(root, point="after a change", number=number)
        second = program.run(root)
        assert second.code == 0
        with JsonlSaver(root, restore_memory="never") as saver:
            log = saver.path(THREAD)
        cut_power(log, second._replace(reports=first.reports + second.reports), "gone")
        promised = [report for report in second.reports if report["kind"] == "put"]
        program.check_acknowledged(root, second._replace(reports=promised))
        if not first.killed:
            break
    assert number > CHANGES
