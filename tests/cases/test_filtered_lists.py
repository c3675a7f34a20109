"""A list of all threads with a filter: it reads a log once, and again whenever that could matter."""

from __future__ import annotations

import os
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from cases.graphs import at, config, put
from langgraph_jsonl_checkpoint import ClosedSaverError, JsonlSaver
from langgraph_jsonl_checkpoint.log import local, logfile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

THREADS = 12


@pytest.fixture
def filled(root: Path) -> Path:
    """Threads of two checkpoints each, the user of a thread being one of four."""
    with JsonlSaver(root, fsync="never") as saver:
        for number in range(THREADS):
            for step in range(2):
                put(saver, at(step), {}, thread_id=f"t{number}", user=f"u{number % 4}", step=step)
    _let_them_rest()
    return root


@pytest.fixture
def saver(filled: Path) -> Iterator[JsonlSaver]:
    """A saver that has read all logs for a list."""
    with JsonlSaver(filled) as saver:
        assert _threads(saver, user="u1", step=1) == ["t1", "t5", "t9"]
        yield saver


def _let_them_rest() -> None:
    time.sleep(0.12)  # a log that was changed just now is always read


def _threads(saver: JsonlSaver, **wanted: Any) -> list[str]:
    return sorted({found.config["configurable"]["thread_id"] for found in saver.list(None, filter=wanted)})


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads whose logs are opened from now on."""
    opened: list[str] = []

    class Watched(logfile.LogFile):
        def __init__(self, path: str, fd: int | None = None) -> None:
            opened.append(os.path.basename(os.path.dirname(path)))
            super().__init__(path, fd)

    monkeypatch.setattr(logfile, "LogFile", Watched)
    return opened


def test_a_log_without_a_match_is_read_once(saver: JsonlSaver, opened: list[str]) -> None:
    """A second list opens the logs that may match, and those that it could not judge before."""
    assert _threads(saver, user="u1") == ["t1", "t5", "t9"]
    assert sorted(opened) == ["t1", "t5", "t9"]
    assert _threads(saver, user="nobody") == []
    assert _threads(saver, user="u1", step=7) == []
    assert len(opened) == 3
    assert len(_threads(saver, other=None)) == THREADS


def test_a_list_drives_out_no_open_session(filled: Path, opened: list[str]) -> None:
    """What a list opens it closes again: the threads that are in use stay open."""
    with JsonlSaver(filled, max_open=2) as saver:
        for thread in ("t0", "t1"):
            saver.get_tuple(config(thread))
        assert len(_threads(saver, step=0)) == THREADS
        opened.clear()
        for thread in ("t0", "t1"):
            saver.get_tuple(config(thread))
        assert opened == []


def _append(root: Path) -> None:
    with JsonlSaver(root) as other:
        put(other, at(5), {}, thread_id="t0", user="new")


def _begin_anew(root: Path) -> None:
    with JsonlSaver(root) as other:
        other.delete_thread("t0")
        put(other, at(1), {}, thread_id="t0", user="new", step=1)


def _change_in_place(root: Path) -> None:
    """Another log of the same size, in the same file, with the same time of change."""
    with JsonlSaver(root) as other, JsonlSaver(root.parent / "forged", fsync="never") as forge:
        path, forged = other.path("t0"), forge.path("t0")
        for number in range(1000):
            for step in range(2):
                put(forge, at(step), {}, thread_id="t0", user="new", step=step, salt="x" * number)
            if forged.stat().st_size >= path.stat().st_size:
                break
            forge.delete_thread("t0")
        status = path.stat()
    with path.open("r+b") as file:
        file.write(forged.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns


@pytest.mark.parametrize("change", [_append, _begin_anew, _change_in_place])
@pytest.mark.parametrize("rests", [True, False])
def test_a_changed_log_is_read_again(saver: JsonlSaver, root: Path, change: Callable, rests: bool) -> None:
    """Whoever changed it, and whether or not it is still being changed."""
    assert _threads(saver, user="new") == []
    change(root)
    if rests:
        _let_them_rest()
    for _ in range(2):
        assert _threads(saver, user="new") == ["t0"]
        assert _threads(saver, user="u1") == ["t1", "t5", "t9"]


def test_a_log_that_was_changed_just_now_is_not_judged(filled: Path, opened: list[str]) -> None:
    """Two changes within a tick of the clock leave the same times."""
    with JsonlSaver(filled) as saver:
        for name in sorted(os.listdir(filled / "default"))[:3]:
            os.utime(filled / "default" / name / local.LOG)
        assert _threads(saver, user="nobody") == []
        opened.clear()
        assert _threads(saver, user="nobody") == []
        assert len(opened) == 3


def test_a_deleted_thread_is_in_no_list(saver: JsonlSaver, root: Path) -> None:
    """Also if another saver deleted it."""
    with JsonlSaver(root) as other:
        other.delete_thread("t1")
    assert _threads(saver, user="u1") == ["t5", "t9"]


VALUES = [
    *(None, True, False, 0, 1, 1.0, -1, 2**80, 0.5, float("nan"), float("inf"), "", "1", "True", "None", "é", "\0"),
    *([], ["1"], {}, {"a": 1}, (), ("1",), Decimal(1), "x" * 5000),
]


def test_equal_values_match_whatever_their_type(root: Path) -> None:
    """A saver that has read all before finds what one finds that has not, for every value and a missing key."""
    with JsonlSaver(root, fsync="never") as saver:
        for number, value in enumerate(VALUES):
            put(saver, at(0), {}, thread_id=f"t{number}", key=value)
        put(saver, at(0), {}, thread_id="without")
        for step in range(100):
            put(saver, at(step), {}, thread_id="long", key="long", step=step)
            put(saver, at(step), {}, thread_id="many", key=step)
            put(saver, at(step), {}, thread_id="mixed", key=[] if step == 7 else 1)
    _let_them_rest()
    with JsonlSaver(root) as saver:
        for wanted in [{"key": value} for value in [*VALUES, 99, "long"]] + [{"key": "long", "step": 70}]:
            with JsonlSaver(root) as fresh:
                expected = _threads(fresh, **wanted)
            for _ in range(2):
                assert _threads(saver, **wanted) == expected, wanted
        ones = [f"t{number}" for number, value in enumerate(VALUES) if value == 1]
        assert _threads(saver, key=1) == sorted([*ones, "many", "mixed"])


def test_what_cannot_be_read_hides_nothing_else(saver: JsonlSaver, root: Path) -> None:
    """A damaged log is left out, and one that is mended is in the list again."""
    with JsonlSaver(root) as other:
        path = other.path("t1")
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    assert _threads(saver, user="u1") == ["t5", "t9"]
    path.write_bytes(data)
    _let_them_rest()
    for _ in range(2):
        assert _threads(saver, user="u1") == ["t1", "t5", "t9"]


def test_a_closed_saver_lists_nothing(saver: JsonlSaver) -> None:
    """As every other call, it says that it is closed."""
    saver.close()
    with pytest.raises(ClosedSaverError):
        _threads(saver, user="u1")
