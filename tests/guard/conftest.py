"""The warm program, and the place that a test and the program's processes share."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
import warm

from guard.scene import CHARGE, CONFIG, Effects, Model, build
from langgraph_jsonl_checkpoint import JsonlSaver, ToolPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Place:
    """A folder with the sessions and the tools' effects; processes come and go in it.

    A `process` is one of the program's. A `graph` is in the test's own process, on a saver that it makes.
    """

    def __init__(self, program: warm.Program, root: Path) -> None:
        self._program = program
        self._savers: list[JsonlSaver] = []
        self._waiting: set[int] = set()
        self.root = root
        self.effects = Effects(root)
        self.model = Model(rounds=[])

    def process(
        self,
        shape: str,
        *,
        rounds: Any = ([CHARGE],),
        dies: Any = None,
        raises: Any = (),
        holds: Any = (),
        asks: Any = (),
        keeps: Any = (),
        records: bool = False,
        policy: Any = None,
        resumes: bool = False,
        answer: Any = None,
        decisions: Any = None,
        way: Any = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Run the agent in a process of its own, and wait until it is over or waits in a tool."""
        said = self._program.order(
            root=str(self.root),
            rounds=rounds,
            dies=dies or {},
            raises=raises,
            holds=holds,
            asks=asks if isinstance(asks, dict) else {tool: [] for tool in asks},
            keeps=keeps,
            records=records,
            policy=policy or {},
            resumes=resumes,
            answer=answer,
            decisions=decisions or {},
            way=way or {},
            options={"shape": shape, **options},
        )
        if said["code"] is None:
            self._waiting.add(said["pid"])
        return said

    def crash(self, shape: str, *tools: str, after: Any = (), **options: Any) -> None:
        """A process is killed in `charge`, or these tools, behind their effects, and when other calls are over."""
        answer = self.process(shape, dies={tool: list(after) for tool in tools or ("charge",)}, **options)
        assert answer["code"] == -signal.SIGKILL, answer

    def crash_of_agents(self, *, deep: bool) -> None:
        """A process is killed in the `mail` of the second of two agents that are called as tools."""
        assert self._program.order(agents=str(self.root), deep=deep)["code"] == -signal.SIGKILL

    def kill(self, pid: int) -> None:
        """Kill a process that waits in a tool."""
        self._waiting.discard(pid)
        os.kill(pid, signal.SIGKILL)
        assert self._program.order(pid=pid) == {"code": -signal.SIGKILL}

    def release(self, pid: int) -> None:
        """Let a process that waits in a tool go on to its end."""
        self._waiting.discard(pid)
        with open(self.root / "pipe", "wb") as pipe:
            pipe.write(b"!")
        assert self._program.order(pid=pid) == {"code": 0}

    def saver(self, **options: Any) -> JsonlSaver:
        """A new saver; it is closed behind the test."""
        self._savers.append(JsonlSaver(self.root / "sessions", **options))
        return self._savers[-1]

    def graph(
        self,
        shape: str,
        *,
        rounds: Any = ([CHARGE],),
        saver: JsonlSaver | None = None,
        bodies: Any = None,
        tools: Any = None,
        policy: Any = None,
        fresh_ids: bool = False,
        **options: Any,
    ) -> Any:
        """The agent on a new saver, or on this one; `model` is its model from then on."""
        self.effects.bodies = bodies or {}
        self.model = Model(rounds=list(rounds), fresh_ids=fresh_ids)
        tools = self.effects.tools if tools is None else tools
        if policy is not None:
            options["policy"] = ToolPolicy(**policy)
        return build(shape, saver or self.saver(), tools, self.model, **options)

    def close(self) -> None:
        """Close what is open, and end what still waits."""
        for pid in list(self._waiting):
            self.kill(pid)
        for saver in self._savers:
            saver.close()

    @property
    def log(self) -> Path:
        """The thread's log."""
        return JsonlSaver(self.root / "sessions").path(CONFIG["configurable"]["thread_id"])


@pytest.fixture(scope="session")
def program() -> Iterator[warm.Program]:
    """The warm program."""
    program = warm.Program("guard.program")
    yield program
    program.close()


@pytest.fixture
def place(program: warm.Program, tmp_path: Path) -> Iterator[Place]:
    """An empty place."""
    os.mkfifo(tmp_path / "pipe")
    place = Place(program, tmp_path)
    yield place
    place.close()
