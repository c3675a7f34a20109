"""A process is killed at random moments."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from kill.conftest import Program

KILLS = 200
FASTEST, SLOWEST = 0.0005, 0.004  # seconds between two reports of a run, on a fast disk and on a slow one


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_thread_goes_on_after_a_kill_at_any_moment(program: Program, tmp_path: Path) -> None:
    """Killed at 200 random moments, each thread goes on and ends as if nothing had been."""
    chance = random.Random(8298)
    reports = len(program.run(tmp_path / "whole").reports)
    killed = 0
    for root in (tmp_path / str(number) for number in range(2 * KILLS)):
        options = {"fsync": chance.choice(["checkpoint", "always", "never"]), "asynchronous": chance.random() < 0.3}
        moment = {"kill_after": chance.randrange(1, reports), "delay": chance.uniform(0, SLOWEST)}
        run = program.run(root, **moment, **options)
        if run.killed:  # and not faster than its killer
            program.check_resumes(root, run, **options)
            killed += 1
        if killed == KILLS:
            return
    pytest.fail(f"only {killed} processes were killed")


def test_a_thread_is_killed_again_and_again(program: Program, tmp_path: Path) -> None:
    """A thread whose every process dies after a few steps comes to its end, and loses nothing."""
    chance = random.Random(8039)
    deaths = []
    # Soon enough that on a fast disk, too, no process comes to the thread's end.
    while (run := program.run(tmp_path, kill_after=chance.randrange(2, 6), delay=chance.uniform(0, FASTEST))).killed:
        program.check_acknowledged(tmp_path, run)
        deaths.append(run)
        assert len(deaths) < 100
    assert len(deaths) >= 3
    program.check_resumes(tmp_path, run)
    for run in deaths:
        program.check_acknowledged(tmp_path, run)
