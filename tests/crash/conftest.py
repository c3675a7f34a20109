"""The warm program, and a session that its processes work on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class Run(NamedTuple):
    """How a process ended, and what it had reported until then."""

    code: int
    reports: list[dict[str, Any]]

    @property
    def killed(self) -> bool:
        """Whether it was killed; it never fails."""
        assert self.code in (0, -signal.SIGKILL)
        return self.code != 0

    @property
    def kinds(self) -> list[str]:
        """What happened, in order."""
        return [report["kind"] for report in self.reports]

    @property
    def asked(self) -> dict[str, dict[str, Any]]:
        """The calls that a human was asked about, by their ids."""
        questions = [each for report in self.reports if report["kind"] == "asked" for each in report["questions"]]
        assert all(question["type"] == "tool_uncertain" for question in questions)
        return {call["tool_call_id"]: call for question in questions for call in question["calls"]}

    @property
    def told(self) -> dict[str, str]:
        """What the last request to the model says about each tool's call."""
        requests = [report["messages"] for report in self.reports if report["kind"] == "model"]
        answers = {message["call"]: message["text"] for message in requests[-1]}
        calls = {call: name for message in requests[-1] for call, name in message["calls"].items()}
        return {name: answers[call] for call, name in calls.items()}


class Program:
    """The program in its warm process; each run is a process of its own, forked from it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crash.program"],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, order: dict[str, Any]) -> Run:
        """Do what is ordered in a process of its own."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Run(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the warm process: its orders are over."""
        self._process.communicate()


class Session:
    """A thread, one process after the other, and the files in which its tools leave their effects."""

    def __init__(self, program: Program, root: Path, **options: Any) -> None:
        self._program = program
        self._root = root
        self._options = options

    def run(self, message: str = "", *, decisions: Mapping[str, Any] | None = None, place: str = "") -> Run:
        """A new process says something, or answers what was asked, or goes on by the thread's id alone.

        It dies at a place, if one is given. Every request that the model got until then is one that providers take,
        and none of them says that a call was stopped.
        """
        run = self._program.run(
            {**self._options, "root": str(self._root), "message": message, "decisions": decisions, "place": place}
        )
        assert run.killed == bool(place), run.reports
        for report in run.reports:
            if report["kind"] == "model":
                check_request(report["messages"])
        return run

    def effects(self, tool: str) -> int:
        """How often a tool had its effect."""
        file = self._root / tool
        return len(file.read_text().splitlines()) if file.exists() else 0


def check_request(messages: list[dict[str, Any]]) -> None:
    """Each call has its one answer right behind the message that asked for it; the memory is there once at most."""
    assert sum(message["text"].count("<session-memory>") for message in messages) <= 1
    waiting: set[str] = set()
    for message in messages:
        if message["type"] == "tool":
            assert message["call"] in waiting
            waiting.remove(message["call"])
            assert "cancel" not in message["text"].lower()
            assert "abort" not in message["text"].lower()
        else:
            assert not waiting
            waiting = set(message["calls"])
    assert not waiting


@pytest.fixture(scope="session")
def program() -> Iterator[Program]:
    """The warm program."""
    program = Program()
    yield program
    program.close()


@pytest.fixture
def start(program: Program, tmp_path: Path) -> Callable[..., Session]:
    """Makes a session over an empty directory."""

    def start(
        shape: str, durability: str, *, asynchronous: bool = False, lookup: str = "read_only", root: str = "root"
    ) -> Session:
        (tmp_path / root).mkdir()
        return Session(
            program, tmp_path / root, shape=shape, durability=durability, asynchronous=asynchronous, lookup=lookup
        )

    return start
