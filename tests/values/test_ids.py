"""Ids and names of other types than strings: taken where it is plain what they mean, else refused by name."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from .thread import Thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[Thread]:
    """A thread over an empty directory."""
    with Thread(tmp_path) as thread:
        yield thread


@pytest.mark.parametrize("stored", [str, lambda run: run], ids=["as a string", "as a UUID"])
@pytest.mark.parametrize("told", [str, lambda run: run], ids=["by a string", "by a UUID"])
def test_a_run_is_deleted_by_its_id_whatever_type_it_has(thread: Thread, stored: type, told: type) -> None:
    """LangChain's run ids are UUIDs, and metadata holds either."""
    run = uuid.uuid4()
    thread.step({"channel": 1}, metadata={"run_id": stored(run)})
    thread.step({"channel": 2}, metadata={"run_id": stored(uuid.uuid4())})
    thread.saver.delete_for_runs([told(run)])
    thread.reopen()
    assert [saved.checkpoint["channel_values"] for saved in thread.saver.list(None)] == [{"channel": 2}]
