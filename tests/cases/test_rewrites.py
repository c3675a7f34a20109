"""Rewriting and deleting a log beside others who do the same, or after somebody who was killed."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from cases.graphs import at, chain, config, ids, put
from cases.logs import of_type
from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.log import files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("strategy", ["prune", "delete_for_runs"])
def test_a_torn_end_that_a_rewrite_moves_aside_is_reported(root: Path, strategy: str) -> None:
    """Whoever recovers a log says so in it, also if it then removes nothing."""
    with JsonlSaver(root) as saver:
        chain(saver, 3)
        log = saver.path("t")
    log.write_bytes(log.read_bytes() + b"torn")
    with JsonlSaver(root) as saver:
        if strategy == "prune":
            saver.prune(["t"])
        else:
            saver.delete_for_runs(["no such run"])
    reports = [r["recovered"] for r in of_type(log, "open") if "recovered" in r]
    assert [report["bytes"] for report in reports] == [len(b"torn")]
    assert (log.parent / reports[0]["file"]).read_bytes() == b"torn"
    with JsonlSaver(root) as saver:
        before = ids(saver.list(config()))
        put(saver, at(9), {"n": 9})
        assert ids(saver.list(config())) == [at(9), *before]


def test_a_delete_waits_for_a_rewrite_of_another_saver(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that was deleted is not brought back by a prune that had begun, and the prune does not fail."""
    rename, done = files.rename, threading.Event()
    with JsonlSaver(root) as deleting, JsonlSaver(root) as pruning:
        chain(deleting, 4)
        waiting = threading.Thread(target=lambda: (deleting.delete_thread("t"), done.set()))

        def late(*paths: str) -> None:
            waiting.start()
            assert not done.wait(0.3), "the delete did not wait for the lock"
            rename(*paths)

        monkeypatch.setattr(files, "rename", late)
        pruning.prune(["t"])
        waiting.join()
        assert ids(pruning.list(config())) == ids(deleting.list(config())) == []
        assert not deleting.path("t").parent.exists()


def test_a_rewrite_leaves_no_second_name_of_what_it_removed(root: Path) -> None:
    """A writer killed while it created the log leaves a link to it, which would keep the removed data."""
    with JsonlSaver(root) as saver:
        chain(saver, 4)
        log = saver.path("t")
        os.link(log, log.parent / ".new-0123")
        saver.prune(["t"])
        assert os.listdir(log.parent) == [log.name]
        assert len(ids(saver.list(config()))) == 1
