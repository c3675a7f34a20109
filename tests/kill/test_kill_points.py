"""A process is killed at each place where its death could matter."""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from kill.bare import frames
from kill.script import THREAD
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from pathlib import Path

    from kill.conftest import Program

# Each point, and how often a run comes to it at least. A change is a name that comes or goes, or a cut.
KERNEL = {
    "before write": 10,
    "begin of a write": 10,
    "half a write": 10,
    "after write": 10,
    "after sync": 5,
    "before a change": 3,
    "after a change": 3,
}
# Between a superstep's put_writes and the put that supersedes them, and the reverse (langgraph#8039).
CALLS = {"before put": 6, "before put_writes": 6}


def kill_each(program: Program, root: Path, point: str, **options: Any) -> int:
    """Kill a run at the first, second, … time that it comes to a point; how often it came there."""
    for number in itertools.count(1):
        run = program.run(root / str(number), point=point, number=number, **options)
        if not run.killed:
            return number - 1
        program.check_resumes(root / str(number), run, **options)
    raise AssertionError


@pytest.mark.parametrize(("fsync", "durability"), [("checkpoint", "async"), ("always", "sync")])
@pytest.mark.parametrize("point", [*KERNEL, *CALLS])
def test_a_thread_goes_on_wherever_its_process_died(
    program: Program, tmp_path: Path, point: str, fsync: str, durability: str
) -> None:
    """Killed at any kernel call or between any two saver calls, a thread goes on and ends the same."""
    kills = kill_each(program, tmp_path, point, fsync=fsync, durability=durability)
    assert kills >= {**KERNEL, **CALLS}[point]


@pytest.mark.parametrize("point", ["half a write", "after write", *CALLS])
def test_an_asynchronous_thread_goes_on_wherever_its_process_died(
    program: Program, tmp_path: Path, point: str
) -> None:
    """The same holds for a run on an event loop."""
    kills = kill_each(program, tmp_path, point, asynchronous=True)
    assert kills >= {**KERNEL, **CALLS}[point]


@pytest.mark.parametrize("point", KERNEL)
def test_a_recovery_that_was_killed_is_done_again(program: Program, tmp_path: Path, point: str) -> None:
    """A process killed while it moves a torn end aside loses neither the log nor the torn end."""
    first = program.run(tmp_path / "torn", point="half a write", number=8)
    with JsonlSaver(tmp_path / "torn") as saver:
        log = saver.path(THREAD)
    data = log.read_bytes()
    torn = data[frames(data)[-1][0] :]
    assert torn
    for number in range(1, 4):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "torn", root)
        second = program.run(root, point=point, number=number)
        program.check_acknowledged(root, first)
        program.check_resumes(root, second)
        program.check_acknowledged(root, first)
        beside = (root / log.relative_to(tmp_path / "torn")).parent.glob("session.torn-*")
        assert torn in [file.read_bytes() for file in beside]
