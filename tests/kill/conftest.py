"""The warm program, and what must hold after each kill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import warm
from warm import Run

from kill.bare import records
from kill.script import CONFIG, END, THREAD, plain, rest
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class Program(warm.Program):
    """The program; each `run` is a process of its own."""

    def run(
        self,
        root: Path,
        *,
        point: str = "",
        number: int = 0,
        kill_after: int = 0,
        delay: float = 0,
        fsync: str = "checkpoint",
        durability: str = "async",
        asynchronous: bool = False,
        call: Sequence[Any] = (),
    ) -> Run:
        """Start or resume the thread; die at a point, or `delay` seconds after a report, or not at all.

        With `call`, the name of a method of the saver and its arguments, do that alone.
        """
        order = {key: value for key, value in locals().items() if key not in ("self", "root")}
        return Run(**self.order(**order, root=str(root)))

    def check_acknowledged(self, root: Path, run: Run) -> None:
        """Everything that `put` and `put_writes` had returned for can be read."""
        with JsonlSaver(root) as saver:
            log = saver.path(THREAD)
            stored = {found.checkpoint["id"]: found for found in saver.list(CONFIG)}
        for put in run.of("put"):
            messages = stored[put["id"]].checkpoint["channel_values"].get("messages")
            assert plain(messages) == put["messages"]
        for call in run.of("writes"):
            if call["id"] in stored:
                pending = stored[call["id"]].pending_writes or []
                there = [[channel, plain(value)] for task, channel, value in pending if task == call["task"]]
                assert [write for write in call["writes"] if write not in there] == []
            else:
                # Killed before it put their checkpoint: nobody can ask for them, but the log has them.
                written = [record for record in records(log) if record["type"] == "writes"]
                assert (call["id"], call["task"]) in [(each["checkpoint"], each["task"]) for each in written]

    def check_resumes(self, root: Path, killed: Run, **options: Any) -> None:
        """What was acknowledged is there, what is stored is not done again, and the end is the same."""
        self.check_acknowledged(root, killed)
        with JsonlSaver(root) as saver:
            expected = rest(saver.get_tuple(CONFIG))
        resumed = self.run(root, **options)
        assert resumed.code == 0
        assert (len(resumed.of("model")), sorted(tool["key"] for tool in resumed.of("tool"))) == expected
        assert resumed.reports[-1] == {"kind": "end", "messages": END}
        self.check_acknowledged(root, killed)
        self.check_acknowledged(root, resumed)
        with JsonlSaver(root) as saver:
            stored = saver.get_tuple(CONFIG)
            assert stored is not None
            assert plain(stored.checkpoint["channel_values"]["messages"]) == END
            assert rest(stored) == (0, [])


@pytest.fixture(scope="session")
def program() -> Iterator[Program]:
    """The warm program."""
    program = Program("kill.program")
    yield program
    program.close()
