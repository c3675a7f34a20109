"""Clocks that jump back, and clocks that do not agree: nothing that counts is ordered by them."""

from __future__ import annotations

import os
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from cases.graphs import config, ids, put

from langgraph_jsonl_checkpoint import JsonlSaver
from races.checks import whole
from races.jobs import conversation

if TYPE_CHECKING:
    from pathlib import Path

    from races.conftest import Crew

HOUR = 3600.0


def made_at(seconds: float) -> str:
    """A checkpoint id as a process makes it at that time."""
    ticks = int(seconds * 1e7) + 0x01B21DD213814000
    return str(uuid.UUID(int=(ticks >> 12) << 80 | 0x6 << 76 | (ticks & 0xFFF) << 64 | 1 << 63))


def said(saver: JsonlSaver) -> list[str]:
    """The newest state's messages."""
    return [message.text for message in saver.get_tuple(config()).checkpoint["channel_values"]["messages"]]


@pytest.mark.parametrize("shift", [-HOUR, HOUR], ids=["back", "ahead"])
def test_a_clock_that_jumps_in_a_run_changes_nothing(crew: Crew, shift: float) -> None:
    """Records keep their order by seq, the newest state is the last that was put; another process goes on."""
    turns = crew.start("run_by_a_wrong_clock", "r", before=3, turns=6, shift=shift).finish().reports("turn")
    newest = [turn["newest"] for turn in turns]
    assert newest == sorted(newest)
    expected = [text for turn in range(6) for text in (f"r {turn}", f"{2 * turn + 1}")]
    with JsonlSaver(crew.root) as saver:
        assert said(saver) == expected
        found = whole(saver.path("t"))
        times = [record["ts"] for record in found]
        assert (times == sorted(times)) == (shift > 0), "the clock did not jump"
        assert not saver.resume_state("t").crashed
        assert len(ids(saver.list(config()))) == 6 * 3
    if shift < 0:
        # The ids that were made before the jump are in the future of this process's clock, if it has made none yet:
        # see the next test.
        return
    with JsonlSaver(crew.root) as saver:
        put(saver, made_at(time.time() + 2 * HOUR), {"n": 1})
        assert saver.get_tuple(config()).checkpoint["channel_values"] == {"n": 1}


def test_a_process_whose_clock_is_behind_loses_nothing(crew: Crew) -> None:
    """Its checkpoints have smaller ids, so the newest is another's, as with every saver; all of them are there."""
    crew.start("run_by_a_wrong_clock", "first", before=9, turns=2, shift=0.0).finish()
    with JsonlSaver(crew.root) as saver:
        before = ids(saver.list(config()))
    crew.start("run_by_a_wrong_clock", "second", before=0, turns=2, shift=-HOUR).finish()
    with JsonlSaver(crew.root) as saver:
        after = ids(saver.list(config()))
        assert after[: len(before)] == before
        assert len(after) == 2 * len(before)
        for name in after:
            assert saver.get_tuple(config(checkpoint_id=name)).checkpoint["id"] == name
        assert [r["id"] for r in whole(saver.path("t")) if r["type"] == "checkpoint"][: len(before)] == before[::-1]
        graph = conversation(saver)
        graph.invoke({"messages": [("user", "now")]}, config())
        assert said(saver) == ["first 0", "1", "first 1", "3", "now", "5"]


def test_a_deletion_by_a_wrong_clock_takes_no_later_write(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock jumps back after a deletion: writes of the thread that begins anew are not taken for late ones."""
    with JsonlSaver(root) as saver:
        graph = conversation(saver)
        graph.invoke({"messages": [("user", "old")]}, config())
        saver.delete_thread("t")
        now = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: now() - int(HOUR * 1e9))
        graph.invoke({"messages": [("user", "new")]}, config(), durability="async")
        assert said(saver) == ["new", "1"]
        written = [r for r in whole(saver.path("t")) if r["type"] == "writes"]
        assert len(written) == 2, "the input's and the node's"


@pytest.mark.parametrize("limit", [1, 2, None])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((HOUR, -100.0), (2 * HOUR, -200.0)),  # ids from a clock that runs ahead
        ((HOUR, HOUR), (HOUR + 1, -10.0)),  # the clock was set back between the two
        ((-50.0, -50.0), (HOUR, -10.0)),  # only one of them runs ahead
    ],
    ids=["ahead", "set back", "one ahead"],
)
def test_a_list_of_all_threads_is_by_id_whatever_the_clocks_say(
    root: Path, first: tuple[float, float], second: tuple[float, float], limit: int | None
) -> None:
    """The greatest id comes first, also if its log was changed before the others' by the time of its file."""
    now = time.time()
    with JsonlSaver(root) as saver:
        for thread, (made, changed) in {"a": first, "b": second}.items():
            put(saver, made_at(now + made - 1), {"n": 0}, thread_id=thread)
            put(saver, made_at(now + made), {"n": 1}, thread_id=thread)
            os.utime(saver.path(thread), (now + changed, now + changed))
        expected = sorted(
            (made_at(now + made - back) for made, _ in (first, second) for back in (0, 1)), reverse=True
        )
        assert ids(saver.list(None, limit=limit)) == expected[:limit]
    with JsonlSaver(root) as fresh:
        assert ids(fresh.list(None, limit=limit)) == expected[:limit]
