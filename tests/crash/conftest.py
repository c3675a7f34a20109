"""The warm program, and a session that its processes work on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import warm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path


class Run(warm.Run):
    """How a process ended, and what it had reported until then."""

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


class Session:
    """A thread, one process after the other, and the files in which its tools leave their effects."""

    def __init__(self, program: warm.Program, root: Path, **options: Any) -> None:
        self._program = program
        self._root = root
        self._options = options

    def run(self, message: str = "", *, decisions: Mapping[str, Any] | None = None, place: str = "") -> Run:
        """A new process says something, or answers what was asked, or goes on by the thread's id alone.

        It dies at a place, if one is given. Every request that the model got until then is one that providers take,
        and none of them says that a call was stopped.
        """
        order = {**self._options, "root": str(self._root), "message": message, "decisions": decisions, "place": place}
        run = Run(**self._program.order(**order))
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
def program() -> Iterator[warm.Program]:
    """The warm program."""
    program = warm.Program("crash.program")
    yield program
    program.close()


@pytest.fixture
def start(program: warm.Program, tmp_path: Path) -> Callable[..., Session]:
    """Makes a session over an empty directory."""

    def start(
        shape: str, durability: str, *, asynchronous: bool = False, lookup: str = "read_only", root: str = "root"
    ) -> Session:
        (tmp_path / root).mkdir()
        return Session(
            program, tmp_path / root, shape=shape, durability=durability, asynchronous=asynchronous, lookup=lookup
        )

    return start
