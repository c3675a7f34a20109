"""Ctrl-C at any line of what takes a session and gives it back: other threads of the process go on with it."""

from __future__ import annotations

import linecache
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from cases.graphs import at, chain, config, ids, put

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.sessions import in_use, pool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

FILES = {module.__file__ for module in (in_use, pool)}


class Interrupt:
    """Raises before the n-th line of the modules that take and give back sessions."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._seen: set[tuple[FrameType, int]] = set()
        self.hit = ""

    def __enter__(self) -> None:
        sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, *_: object) -> Any:
        return self._line if frame.f_code.co_filename in FILES else None

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        at = frame, frame.f_lineno
        # A signal is looked at behind calls: not at a `try`, nor at the end of a `with lock`, its line again.
        is_passed = at in self._seen or linecache.getline(frame.f_code.co_filename, at[1]).strip() == "try:"
        self._seen.add(at)
        if event == "line" and not self.hit and not is_passed:
            self._left -= 1
            if self._left < 0:
                self.hit = f"{frame.f_code.co_name}, line {frame.f_lineno}"
                raise KeyboardInterrupt
        return self._line


def elsewhere(do: Callable[[], Any], hit: str = "") -> Any:
    """What something gives in another thread; an error if it hangs there."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(do()), daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive(), f"it waits for a lock that nobody gives back: {hit}"
    return found[0]


def nested(saver: JsonlSaver) -> None:
    """Use a session that this thread uses already."""
    with saver._sessions.use("t"):
        saver.get_tuple(config())
        put(saver, at(7), {"n": 7})


CALLS: dict[str, Callable[[JsonlSaver], Any]] = {
    "get_tuple": lambda saver: saver.get_tuple(config()),
    "put": lambda saver: put(saver, at(7), {"n": 7}),
    "put_writes": lambda saver: saver.put_writes(config(checkpoint_id=at(2)), [("n", 1)], "task"),
    "list": lambda saver: list(saver.list(config())),
    "list of all": lambda saver: list(saver.list(None)),
    "resume_state": lambda saver: saver.resume_state("t"),
    "another thread, which drives this one out": lambda saver: put(saver, at(7), {"n": 7}, thread_id="other"),
    "one inside the other": nested,
}


@pytest.mark.parametrize("call", CALLS)
def test_no_line_at_which_ctrl_c_comes_keeps_a_session_locked(tmp_path: Path, call: str) -> None:
    """Neither the one that was in use nor one that was about to be closed; what was stored is read, and more put."""
    number, hit = 0, "begin"
    while hit:
        interrupt = Interrupt(number)
        with JsonlSaver(tmp_path / str(number), max_open=1) as saver:
            stored = chain(saver, 3)
            try:
                with interrupt:
                    CALLS[call](saver)
            except KeyboardInterrupt:
                assert interrupt.hit
            number, hit = number + 1, interrupt.hit
            assert elsewhere(lambda: saver.get_tuple(config()), hit) is not None
            elsewhere(lambda: put(saver, at(8), {"n": 8}))
            saver.get_tuple(config())
            put(saver, at(9), {"n": 9})
            found = elsewhere(lambda: ids(saver.list(config())))
            assert [name for name in found if name != at(7)] == [at(9), at(8), *stored[::-1]], hit
    assert number > 10


@pytest.mark.parametrize("place", ["behind the lock", "before the end"])
def test_a_signal_around_the_lock_keeps_no_session_locked(tmp_path: Path, place: str) -> None:
    """The signal itself, which comes to the main thread, when the lock was taken or is about to be given back."""
    with JsonlSaver(tmp_path) as saver:
        chain(saver, 3)
        session = saver._sessions.peek("t")
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        session.lock = Signalling(session.lock, at_begin=place == "behind the lock")
        try:
            with pytest.raises(KeyboardInterrupt):
                put(saver, at(7), {"n": 7})
        finally:
            signal.signal(signal.SIGINT, before)
        elsewhere(lambda: saver.get_tuple(config()))
        put(saver, at(8), {"n": 8})
        assert at(8) in elsewhere(lambda: ids(saver.list(config())))


class Signalling:
    """A lock, and Ctrl-C: once, as soon as it is taken, or just before it is given back."""

    def __init__(self, lock: Any, *, at_begin: bool) -> None:
        self._lock = lock
        self._left = [at_begin]

    def acquire(self, *given: Any, **named: Any) -> Any:
        """Take it."""
        taken = self._lock.acquire(*given, **named)
        self._send(at_begin=True)
        return taken

    def release(self) -> None:
        """Give it back."""
        self._send(at_begin=False)
        self._lock.release()

    def _send(self, *, at_begin: bool) -> None:
        if self._left == [at_begin]:
            self._left = []
            signal.raise_signal(signal.SIGINT)

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__()
