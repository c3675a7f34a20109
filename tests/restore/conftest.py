"""The warm process, and the directory that its children work on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


class Program:
    """Each job is a process of its own, forked from the warm one."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "restore.program"],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _do(self, job: str, given: dict[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"job": job, "given": given}) + "\n")
        self._process.stdin.flush()
        done = json.loads(self._process.stdout.readline())
        return done["code"], done["reports"]

    def run(self, job: str, root: Path, **given: Any) -> list[dict[str, Any]]:
        """Do a job in a process that ends in good order; what it reported."""
        code, reports = self._do(job, {"root": str(root), **given})
        assert code == 0, reports
        return reports

    def kill(self, job: str, root: Path, **given: Any) -> list[dict[str, Any]]:
        """Do a job in a process that is killed in it; what it had reported until then."""
        code, reports = self._do(job, {"root": str(root), **given})
        assert code == -signal.SIGKILL, reports
        return reports

    def try_to_kill(self, job: str, root: Path, **given: Any) -> bool:
        """Do a job in a process that is killed, or is done before it comes to that; whether it was killed."""
        code, reports = self._do(job, {"root": str(root), **given})
        assert code in (0, -signal.SIGKILL), reports
        return code != 0

    def close(self) -> None:
        """End the warm process: its orders are over."""
        self._process.communicate()


@pytest.fixture(scope="session")
def program() -> Iterator[Program]:
    """The warm process."""
    program = Program()
    yield program
    program.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the sessions are."""
    return tmp_path / "sessions"
