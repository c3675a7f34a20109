"""The warm program, and the directory that its processes work on."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
import warm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Program(warm.Program):
    """Each job is a process of its own."""

    def _do(self, job: str, root: Path, given: dict[str, Any]) -> warm.Run:
        return warm.Run(**self.order(job=job, root=str(root), **given))

    def run(self, job: str, root: Path, **given: Any) -> list[dict[str, Any]]:
        """Do a job in a process that ends in good order; what it reported."""
        code, reports = self._do(job, root, given)
        assert code == 0, reports
        return reports

    def kill(self, job: str, root: Path, **given: Any) -> list[dict[str, Any]]:
        """Do a job in a process that is killed in it; what it had reported until then."""
        code, reports = self._do(job, root, given)
        assert code == -signal.SIGKILL, reports
        return reports

    def try_to_kill(self, job: str, root: Path, **given: Any) -> bool:
        """Do a job in a process that is killed, or is done before it comes to that; whether it was killed."""
        return self._do(job, root, given).killed


@pytest.fixture(scope="session")
def program() -> Iterator[Program]:
    """The warm program."""
    program = Program("restore.program")
    yield program
    program.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the sessions are."""
    return tmp_path / "sessions"
