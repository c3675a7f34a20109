"""A disk without room: the part that was written is cut off, and nothing is built on what is missing."""

from __future__ import annotations

import contextlib
import resource
from typing import TYPE_CHECKING

import pytest

from cases.graphs import at, chain, config, ids, put
from cases.logs import records
from langgraph_jsonl_checkpoint import FailedSessionError, JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Iterator
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
    """kimi-code#2902: the call raises, so do later ones; once the log was read again, with room, it goes on."""
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
        put(saver, at(9), {"n": 9})
    with JsonlSaver(root) as saver:
        assert ids(saver.list(config())) == [at(9), *stored]
        assert saver.get_tuple(config()).checkpoint["channel_values"] == {"n": 9}
    assert records(log)[-1]["type"] == "checkpoint"


def test_a_thread_that_cannot_be_created_is_not_there(root: Path) -> None:
    """No file of it is left, and with room it is created."""
    with JsonlSaver(root) as saver:
        with files_of_at_most(10), pytest.raises(OSError, match="File too large"):
            put(saver, at(1), {"n": 1})
        assert [*saver.path("t").parent.iterdir()] == []
        assert saver.get_tuple(config()) is None
        put(saver, at(1), {"n": 1})
        assert ids(saver.list(config())) == [at(1)]
