"""A signal comes in the middle of a call of the saver, and its handler uses the saver."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from values.thread import Thread

from langgraph_jsonl_checkpoint import JsonlSaver, SessionError
from langgraph_jsonl_checkpoint.log import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OPERATIONS = ("pwrite", "fdatasync", "fstat", "stat", "pread", "lock_descriptor", "unlock_descriptor")
HANDLERS: dict[str, Callable[[Thread], Any]] = {
    "looks": lambda thread: thread.saver.resume_state("thread"),
    "puts": lambda thread: thread.step({"a": "from the handler"}),
    "writes": lambda thread: thread.saver.put_writes(thread.head, [("a", 1)], "task"),
    "packs": lambda thread: thread.saver.pack("thread"),
    "prunes": lambda thread: thread.saver.prune(["thread"]),
    "copies": lambda thread: thread.saver.copy_thread("thread", "copy"),
    "deletes": lambda thread: thread.saver.delete_thread("thread"),
    "closes": lambda thread: thread.saver.close(),
}


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, Callable[[], None]], None]]:
    """Lets a signal come behind the operation with a number, and its handler do something."""
    left, before = [0], signal.getsignal(signal.SIGUSR1)

    def counted(real: Any) -> Any:
        def operation(*args: Any, **options: Any) -> Any:
            found = real(*args, **options)
            left[0] -= 1
            if not left[0]:
                signal.raise_signal(signal.SIGUSR1)
            return found

        return operation

    for name in OPERATIONS:
        monkeypatch.setattr(files, name, counted(getattr(files, name)))

    def handle(at: int, do: Callable[[], None]) -> None:
        left[0] = at
        signal.signal(signal.SIGUSR1, lambda *_: do())

    yield handle
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("what", HANDLERS)
def test_a_signal_handler_that_uses_the_saver_damages_nothing(tmp_path: Path, handled: Any, what: str) -> None:
    """Inside a call for the thread it is refused, or does all of what it does; what either returned for is stored."""
    refused = 0
    for at in range(1, 12):
        root = tmp_path / str(at)
        returned: list[Any] = []
        refusals: list[SessionError] = []
        thread = Thread(root, restore_memory="never")
        thread.step({"a": ["x" * 300], "branch:to:n": None})

        def use(thread: Thread = thread, returned: list = returned, refusals: list = refusals) -> None:
            try:
                returned.append(HANDLERS[what](thread))
            except SessionError as error:
                refusals.append(error)

        handled(at, use)
        stored = thread.step({"a": ["x" * 300, "y" * 300], "branch:to:n": None})
        handled(0, use)
        if not returned and not refusals:
            break
        refused += len(refusals)
        with JsonlSaver(root) as saver:
            assert not refusals or "Set a flag" in str(refusals[0])
            if what != "deletes":
                assert saver.verify("thread").ok
                ids = {found.config["configurable"]["checkpoint_id"] for found in saver.list({**thread.head})}
                assert stored["configurable"]["checkpoint_id"] in ids
                if what == "puts" and returned:
                    assert returned[0]["configurable"]["checkpoint_id"] in ids
            saver.put_writes(stored, [("a", 1)], "later")
        thread.saver.close()
    else:
        pytest.fail("it has more operations than were looked at")
    assert refused or what == "closes", "no signal came inside the call"
