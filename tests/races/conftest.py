"""The warm program, and the processes that a test starts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
import warm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE = 30  # seconds that a test waits for a report


class Worker:
    """A process that does a job.

    Attributes:
        name: Its name.
        pid: Its process id.
    """

    def __init__(self, program: warm.Program, reports: Path, job: str, options: dict[str, Any]) -> None:
        self.name = reports.name
        self._program = program
        self._reports = reports
        self.pid: int = program.order(job=job, reports=str(reports), options=options)["pid"]
        self._code: int | None = None

    def reports(self, kind: str) -> list[dict[str, Any]]:
        """What it has reported of a kind so far."""
        text = self._reports.read_bytes() if self._reports.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        found = [json.loads(line) for line in whole.splitlines()]
        return [report for report in found if report["kind"] == kind]

    def until(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until it has reported so often."""
        end = time.monotonic() + _PATIENCE
        while len(found := self.reports(kind)) < count:
            assert not (raised := self.reports("raised")), raised[0]["trace"]
            assert time.monotonic() < end, f"{self.name} reported {kind} {len(found)} times of {count}"
            time.sleep(0.001)
        return found

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def until_stopped(self) -> None:
        """Wait until it has stopped itself, which it does right after it has said so."""
        end = time.monotonic() + _PATIENCE
        while not subprocess.run(
            ["ps", "-o", "state=", "-p", str(self.pid)], capture_output=True, check=True
        ).stdout.startswith(b"T"):
            assert time.monotonic() < end, f"{self.name} does not stop"
            time.sleep(0.001)

    def end(self) -> int:
        """Wait for its end; how it ended."""
        if self._code is None:
            self._code = self._program.order(wait=self.pid)["code"]
        return self._code

    def finish(self) -> Worker:
        """Wait for its end, which must be a good one."""
        assert self.end() == 0, [report["trace"] for report in self.reports("raised")]
        return self

    def kill(self) -> None:
        """Kill it, if it is not over; a process never fails before."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            assert self.end() in (0, -signal.SIGKILL), [report["trace"] for report in self.reports("raised")]


class Crew:
    """The processes of a test, over one folder of sessions."""

    def __init__(self, program: warm.Program, root: Path) -> None:
        self.root = root / "sessions"
        self._folder = root / "reports"
        self._folder.mkdir()
        self._program = program
        self.workers: list[Worker] = []

    def start(self, job: str, name: str, **options: Any) -> Worker:
        """Start a job, a function of `races.jobs` or `races.forks`."""
        options |= {"root": str(self.root), "name": name}
        worker = Worker(self._program, self._folder / name, job, options)
        self.workers.append(worker)
        return worker

    def end(self) -> None:
        """Kill whatever still runs."""
        for worker in self.workers:
            if worker._code is None:
                with contextlib.suppress(ProcessLookupError):
                    worker.signal(signal.SIGKILL)
                worker.end()


@pytest.fixture(scope="session")
def program() -> Iterator[warm.Program]:
    """The warm program."""
    program = warm.Program("races.program")
    yield program
    program.close()


@pytest.fixture
def crew(program: warm.Program, tmp_path: Path) -> Iterator[Crew]:
    """A crew without a process."""
    crew = Crew(program, tmp_path)
    yield crew
    crew.end()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder for the sessions of a test in one process."""
    return tmp_path / "sessions"
