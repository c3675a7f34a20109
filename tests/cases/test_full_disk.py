"""A disk without room: the part that was written is cut off, and nothing is built on what is missing."""

from __future__ import annotations

import contextlib
import resource
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from cases.graphs import at, chain, config, ids, put
from cases.logs import records
from langgraph_jsonl_checkpoint import FailedSessionError, JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel writes up to this size, so a part of what is asked, and then refuses (EFBIG)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_failed_append_leaves_the_log_as_it_was_and_fails_the_session(root: Path, room: int) -> None:
    """kimi-code#2902: the call raises, so do later ones; a run that begins, with room, goes on."""
    with JsonlSaver(root) as saver:
        chain(saver, 3)
        log = saver.path("t")
        whole, stored = log.read_bytes(), ids(saver.list(config()))
        with files_of_at_most(len(whole) + room), pytest.raises(OSError, match="File too large"):
            put(saver, at(7), {"n": 7})
        assert log.read_bytes() == whole
        with pytest.raises(FailedSessionError, match="File too large"):
            put(saver, at(8), {"n": 8})
        with pytest.raises(FailedSessionError):
            saver.put_writes(config(checkpoint_id=stored[0]), [("n", 1)], "task")
        assert log.read_bytes() == whole
        assert ids(saver.list(config())) == stored
        assert saver.get_tuple(config()).config["configurable"]["checkpoint_id"] == stored[0]
        put(saver, at(9), {"n": 9})
    with JsonlSaver(root) as saver:
        assert ids(saver.list(config())) == [at(9), *stored]
        assert saver.get_tuple(config()).checkpoint["channel_values"] == {"n": 9}
    assert records(log)[-1]["type"] == "checkpoint"


LOOKS: dict[str, Callable[[JsonlSaver], Any]] = {
    "list": lambda saver: list(saver.list(config())),
    "list of all": lambda saver: list(saver.list(None)),
    "delta history": lambda saver: saver.get_delta_channel_history(config=config(), channels=["n"]),
    "copy": lambda saver: saver.copy_thread("t", "copy"),
    "prune": lambda saver: saver.prune(["t"]),
    "delete_for_runs": lambda saver: saver.delete_for_runs(["run"]),
    "pack": lambda saver: saver.pack("t"),
    "head": lambda saver: saver.head("t"),
    "verify": lambda saver: saver.verify("t"),
    "salvage": lambda saver: saver.salvage("t", "salvaged"),
    "resume_state": lambda saver: saver.resume_state("t"),
    "session_memory": lambda saver: saver.session_memory("t"),
    "uncertain": lambda saver: saver.uncertain("t"),
    "accepts": lambda saver: saver.accepts("t", "input"),
    "other threads": lambda saver: [put(saver, at(1), {"n": n}, thread_id=f"other {n}") for n in range(3)],
}


@pytest.mark.parametrize("look", LOOKS)
def test_no_look_lets_a_run_go_on_whose_append_failed(root: Path, look: str) -> None:
    """What the append held is missing, whoever looks at the thread, or drives it out; only the next run goes on."""
    with JsonlSaver(root, max_open=1) as saver:
        chain(saver, 3)
        stored = ids(saver.list(config()))
        with files_of_at_most(0), pytest.raises(OSError, match="File too large"):
            saver.put_writes(config(checkpoint_id=stored[0]), [("n", 1)], "task")
        LOOKS[look](saver)
        with pytest.raises(FailedSessionError, match="File too large"):
            put(saver, at(7), {"n": 7})
        assert saver.get_tuple(config()).checkpoint["channel_values"] == {"n": 2}
        put(saver, at(8), {"n": 8})
        assert ids(saver.list(config()))[0] == at(8)
    with JsonlSaver(root) as saver:
        assert saver.get_tuple(config()).checkpoint["channel_values"] == {"n": 8}
        assert saver.verify("t").ok


def test_a_subgraph_that_begins_lets_its_run_not_go_on(root: Path) -> None:
    """It reads what it begins with as the run did; only the next run goes on."""
    runs = [SimpleNamespace(control=object()) for _ in range(2)]  # as LangGraph hands it to all parts of a run

    def of(run: Any, ns: str = "") -> Any:
        return {"configurable": {**config(ns=ns)["configurable"], "__pregel_runtime": run}}

    with JsonlSaver(root) as saver:
        stored = chain(saver, 3)
        saver.get_tuple(of(runs[0]))
        with files_of_at_most(0), pytest.raises(OSError, match="File too large"):
            saver.put_writes(config(checkpoint_id=stored[-1]), [("n", 1)], "task")
        assert saver.get_tuple(of(runs[0], "sub:1")) is None
        with pytest.raises(FailedSessionError, match="File too large"):
            put(saver, at(7), {"n": 7})
        assert saver.get_tuple(of(runs[1])).checkpoint["channel_values"] == {"n": 2}
        put(saver, at(8), {"n": 8})
    with JsonlSaver(root) as saver:
        assert ids(saver.list(config())) == [at(8), *stored[::-1]]


def test_a_thread_that_cannot_be_created_is_not_there(root: Path) -> None:
    """No file of it is left, and with room it is created."""
    with JsonlSaver(root) as saver:
        with files_of_at_most(10), pytest.raises(OSError, match="File too large"):
            put(saver, at(1), {"n": 1})
        assert [*saver.path("t").parent.iterdir()] == []
        assert saver.get_tuple(config()) is None
        put(saver, at(1), {"n": 1})
        assert ids(saver.list(config())) == [at(1)]
