"""A process is killed while it packs a log, which is then as it was or packed, and has the same lines."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from cases.logs import text
from pack.layout import is_packed

from kill.conversations import build, fill, log_of, look, tear, texts, turn, whole
from kill.test_killed_rewrites import check_goes_on, go_on_over, kill_each
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from pathlib import Path

    from kill.conftest import Program

THREADS = pytest.mark.parametrize(
    "thread", ["plain", *(pytest.param(thread, marks=pytest.mark.slow) for thread in ("delta", "asks"))]
)
LEAST = 8  # how often packing comes to a kernel point at least


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The conversations before anything happens to them."""
    root = tmp_path_factory.mktemp("threads")
    fill(root)
    return root


def begin_with(threads: Path, root: Path, thread: str, state: str) -> Path:
    """A copy of the conversations, with a log that was packed before and has grown since, or has a torn end."""
    shutil.copytree(threads, root)
    if state == "packed before":
        with JsonlSaver(root, restore_memory="never") as saver:
            assert saver.pack(thread)
            turn(build(saver, thread), thread, "between", 9)
    return root


@pytest.mark.parametrize("state", ["plain", "packed before", "torn"])
@THREADS
def test_a_log_is_whole_wherever_the_process_that_packs_it_died(
    program: Program, threads: Path, tmp_path: Path, thread: str, state: str
) -> None:
    """Killed at any kernel call, it left the old log or the packed one; the thread goes on and is packed."""
    begin = begin_with(threads, tmp_path / "begin", thread, state)
    log = log_of(begin, thread).relative_to(begin)
    lines, (seen,) = text(begin / log), look(begin, [thread]).values()
    torn = tear(begin / log) if state == "torn" else None
    data = (begin / log).read_bytes()
    outcomes = set()

    def dies(point: str, number: int) -> bool:
        root = shutil.copytree(begin, tmp_path / f"{point} {number}")
        run = program.run(root, point=point, number=number, call=["pack", thread])
        now = (root / log).read_bytes()
        if torn is None:
            assert now == data or is_packed(root / log)
            assert text(root / log) == lines
        outcomes.add(is_packed(root / log) and now != data)
        assert look(root, [thread]) == {thread: seen}
        if run.killed:
            with JsonlSaver(root, restore_memory="never") as saver:
                saver.pack(thread)
        assert is_packed(root / log)
        assert text(root / log).startswith(lines)
        # What a process left that died with a log beside its place goes when the log is replaced.
        left = {file.name for file in (root / log).parent.iterdir()}
        assert not run.killed or len([name for name in left if name.startswith(".new-")]) <= (now != data)
        if torn is not None:
            assert torn in [file.read_bytes() for file in (root / log).parent.glob("session.torn-*")]
        check_goes_on(root, thread, seen)
        return run.killed

    assert kill_each(dies) >= LEAST
    assert outcomes == {False, True}


def test_what_killed_packers_left_goes_when_the_log_is_packed(
    program: Program, threads: Path, tmp_path: Path
) -> None:
    """Three processes die with a packed log beside its place; the fourth clears up and packs."""
    root = shutil.copytree(threads, tmp_path / "root")
    log = log_of(root, "plain")
    for point in ("half a write", "after write", "after sync"):
        assert program.run(root, point=point, number=1, call=["pack", "plain"]).killed
        assert any(file.name.startswith(".new-") for file in log.parent.iterdir())
    with JsonlSaver(root, restore_memory="never") as saver:
        assert saver.pack("plain")
    assert [file.name for file in log.parent.iterdir()] == [log.name]


@THREADS
def test_a_live_run_goes_on_over_a_killed_packer(
    program: Program, threads: Path, tmp_path: Path, thread: str
) -> None:
    """A process in the middle of a superstep stores the rest of its run in the log that is there then."""
    twin = go_on_over(shutil.copytree(threads, tmp_path / "twin"), thread, lambda: None)

    def dies(point: str, number: int) -> bool:
        root = shutil.copytree(threads, tmp_path / f"{point} {number}")
        runs = []
        found = go_on_over(
            root,
            thread,
            lambda: runs.append(program.run(root, point=point, number=number, call=["pack", thread])),
        )
        assert found == twin
        lines = whole(log_of(root, thread))
        said = [line["message"].get("id") for line in lines if line["type"] == "message"]
        assert len(said) == len(set(said)), "a message is written twice"
        return runs[0].killed

    assert kill_each(dies) >= LEAST


def test_a_process_packs_and_goes_on_and_dies(program: Program, threads: Path, tmp_path: Path) -> None:
    """What a saver stored behind the frames that it packed is there when it is killed later."""
    root = shutil.copytree(threads, tmp_path / "root")
    with JsonlSaver(root, restore_memory="never") as saver:
        agent = build(saver, "plain")
        for number in range(3):
            saver.pack("plain")
            turn(agent, "plain", f"more {number}", 10 + number)
            program.run(root, point="after write", number=1, call=["pack", "plain"])
        expected = texts(agent, "plain")
    with JsonlSaver(root, restore_memory="never") as saver:
        assert texts(build(saver, "plain"), "plain") == expected
    whole(log_of(root, "plain"))
