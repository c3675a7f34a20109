"""Ctrl-C at any line: the session is not kept locked, and what is read and put afterwards is what it would be."""

from __future__ import annotations

import linecache
import shutil
import signal
import sys
import threading
from itertools import count, islice
from pathlib import Path
from traceback import walk_stack
from typing import TYPE_CHECKING, Any

import pytest
from cases.graphs import at, chain, config, ids, put
from langchain_core.messages import AIMessage, HumanMessage

import langgraph_jsonl_checkpoint
from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.sessions import in_use, pool

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

PLACES = tuple(str(module.__file__) for module in (in_use, pool))  # where sessions are taken and given back
PACKAGE = str(Path(langgraph_jsonl_checkpoint.__file__).parent)


class Interrupt:
    """Raises before the n-th line of some files, or of all in some folders."""

    def __init__(self, number: int, *files: str) -> None:
        self._left = number
        self._files = files
        self._seen: set[tuple[FrameType, int]] = set()
        self.hit = ""

    def __enter__(self) -> None:
        sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        self._seen.clear()  # a frame keeps what it held, so also a file with its lock

    def _call(self, frame: FrameType, *_: object) -> Any:
        if any(each.f_code.co_name == "__del__" for each, _ in islice(walk_stack(frame), 4)):
            return None  # Python itself drops what is raised there
        return self._line if frame.f_code.co_filename.startswith(self._files) else None

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
        interrupt = Interrupt(number, *PLACES)
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


def state(place: int) -> dict[str, Any]:
    """A state that grows: messages that are numbered, texts that are, and small things."""
    told = [
        kind(f"{kind.__name__} {number}", id=f"{kind.__name__}-{number}")
        for number in range(place + 1)
        for kind in (HumanMessage, AIMessage)
    ]
    return {"messages": told, "files": {f"{n}.txt": f"{n} " * 200 for n in range(place + 1)}, "n": place}


def store(saver: JsonlSaver, *places: int) -> None:
    """A checkpoint at each place, and a write of each."""
    for place in places:
        put(saver, at(place), state(place), parent=at(place - 1) if place else None)
        saver.put_writes(config(checkpoint_id=at(place)), [("n", place)], "task")


def seen(saver: JsonlSaver) -> list[Any]:
    """All that a saver reads of the thread."""
    found = saver.list(config())
    return [(t.checkpoint["id"], t.checkpoint["channel_values"], t.pending_writes, t.metadata) for t in found]


BEGUN: dict[str, Callable[[JsonlSaver], Any]] = {
    "new": lambda saver: None,
    "open": lambda saver: saver.get_tuple(config()),
    "behind another writer": lambda saver: (saver.get_tuple(config()), _appended(saver)),
}
EVERYTHING: dict[str, Callable[[JsonlSaver], Any]] = {
    "get_tuple": lambda saver: saver.get_tuple(config()),
    "put": lambda saver: put(saver, at(3), state(3), parent=at(2)),
    "put_writes": lambda saver: saver.put_writes(config(checkpoint_id=at(2)), [("n", 1)], "other task"),
    "list": lambda saver: list(saver.list(config())),
    "pack": lambda saver: saver.pack("t"),
    "session_memory": lambda saver: str(saver.session_memory("t")),
}


def _appended(saver: JsonlSaver) -> None:
    with JsonlSaver(saver._sessions.writer.root, fsync="never") as other:
        other.put_writes(config(checkpoint_id=at(1)), [("n", 1)], "another writer's task")


@pytest.mark.parametrize(
    "step", [pytest.param(151, id="some lines"), pytest.param(19, marks=pytest.mark.slow, id="many")]
)
@pytest.mark.parametrize("begun", BEGUN)
@pytest.mark.parametrize("call", EVERYTHING)
def test_what_ctrl_c_leaves_half_done_is_read_anew(tmp_path: Path, call: str, begun: str, step: int) -> None:
    """The saver that was stopped reads what another one reads, and what both put afterwards is whole."""
    with JsonlSaver(tmp_path / "begun") as saver:
        store(saver, 0, 1, 2)
    for number in count(step // 2, step):
        shutil.copytree(tmp_path / "begun", root := tmp_path / str(number))
        interrupt = Interrupt(number, PACKAGE)
        with JsonlSaver(root, fsync="never") as saver:
            BEGUN[begun](saver)
            try:
                with interrupt:
                    EVERYTHING[call](saver)
            except KeyboardInterrupt:
                assert interrupt.hit
            if not interrupt.hit:
                break
            with JsonlSaver(root) as other:
                assert seen(saver) == seen(other), interrupt.hit
            saver.get_tuple(config())
            store(saver, 4)
            with JsonlSaver(root) as other:
                found = seen(other)
                assert seen(saver) == found, interrupt.hit
                assert other.verify("t").ok, interrupt.hit
            values = {name: held for name, held, *_ in found}
            assert [values[at(place)] for place in (0, 1, 2, 4)] == [state(place) for place in (0, 1, 2, 4)]
    assert number > step


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
