"""A process is killed while it rewrites, copies or deletes a thread, which is then as it was or as it was to be."""

from __future__ import annotations

import itertools
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from kill.conversations import THREADS, build, config, fill, log_of, look, resume, tear, texts, turn, whole
from kill.script import plain
from kill.test_kill_points import KERNEL
from langgraph_jsonl_checkpoint import JsonlSaver, SessionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

    from kill.conftest import Program
    from kill.conversations import Seen

# The call, the threads that it changes, and how often it comes to a kernel point at least.
CALLS: dict[str, tuple[list[Any], list[str], int]] = {
    "prune plain": (["prune", ["plain"]], ["plain"], 8),
    "prune delta": (["prune", ["delta"]], ["delta"], 8),
    "prune asks": (["prune", ["asks"]], ["asks"], 8),
    "prune torn": (["prune", ["plain"]], ["plain"], 17),
    "delete runs": (["delete_for_runs", ["delta-1", "asks-1"]], ["delta", "asks"], 16),
    "delete": (["delete_thread", "asks"], ["asks"], 5),
    "copy": (["copy_thread", "delta", "copy"], ["copy"], 13),
}


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The conversations before anything happens to them."""
    root = tmp_path_factory.mktemp("threads")
    fill(root)
    return root


def kill_each(dies: Callable[[str, int], bool]) -> int:
    """Call `dies` for the first, second, … time of each kernel point until nobody died; how many died."""
    died = 0
    for point in KERNEL:
        for number in itertools.count(1):
            if not dies(point, number):
                break
            died += 1
    return died


def check_meaning(call: list[Any], changed: str, old: dict[str, Seen], new: dict[str, Seen]) -> None:
    """The call did what it is for, when nobody killed it."""
    before, after = old[changed], new[changed]
    if call[0] == "delete_thread":
        assert (after.stored, after.state.values, after.state.next) == ([], {}, ())
    elif call[0] == "copy_thread":
        source = old[call[1]]
        assert [found.checkpoint for found in after.stored] == [found.checkpoint for found in source.stored]
        assert after.state.values == source.state.values
    else:
        assert len(after.stored) < len(before.stored)
        parents = [found.parent_config for found in after.stored if found.parent_config is not None]
        assert [parent for parent in parents if parent not in [found.config for found in after.stored]] == []
        assert (after.state.values, after.state.next) == (before.state.values, before.state.next)
        assert after.state.interrupts == before.state.interrupts


def repeat(root: Path, call: list[Any], *, done: bool) -> None:
    """Make the call again."""
    name, *args = call
    with JsonlSaver(root, restore_memory="never") as saver:
        if name == "copy_thread" and done:
            with pytest.raises(ValueError, match="exists"):
                saver.copy_thread(*args)
        else:
            getattr(saver, name)(*args)


def check_goes_on(root: Path, thread: str, before: Seen) -> None:
    """The thread's run ends, another follows, and all of it is read again."""
    with JsonlSaver(root, restore_memory="never") as saver:
        agent = build(saver, thread)
        expected = texts(agent, thread)
        if before.state.next:
            resume(agent, thread)
            expected.append("yes" if before.state.interrupts else "done")
        turn(agent, thread, "more", 4)
        expected += ["more", f"heard {len(expected) + 1}", "done"]
        assert texts(agent, thread) == expected
    with JsonlSaver(root, restore_memory="never") as saver:
        assert texts(build(saver, thread), thread) == expected
        stored = {found.checkpoint["id"]: found for found in saver.list(config(thread))}
    for found in before.stored:
        now = stored[found.checkpoint["id"]]
        assert now._replace(pending_writes=None) == found._replace(pending_writes=None)
        assert [write for write in found.pending_writes or [] if write not in (now.pending_writes or [])] == []
    whole(log_of(root, thread))


LONG = {"delete runs", "prune torn", "prune delta", "prune asks"}


def marked(what: str) -> Any:
    """One of the calls, as a parameter."""
    return pytest.param(what, marks=[pytest.mark.slow] if what in LONG else [])


@pytest.mark.parametrize("what", [*map(marked, CALLS)])
def test_a_thread_is_as_before_or_as_after_a_killed_rewrite(
    program: Program, threads: Path, tmp_path: Path, what: str
) -> None:
    """Killed at any kernel call, a rewrite is done or not; the threads go on, and a second call does the rest."""
    call, changed, least = CALLS[what]
    begin = shutil.copytree(threads, tmp_path / "begin")
    logs = {thread: log_of(begin, thread).relative_to(begin) for thread in THREADS}
    torn = tear(begin / logs["plain"]) if what == "prune torn" else None
    done = shutil.copytree(begin, tmp_path / "done")
    assert not program.run(done, call=call).killed
    old, new = look(begin, THREADS), look(done, THREADS)
    assert [thread for thread in THREADS if new[thread] != old[thread]] == changed
    for thread in changed:
        check_meaning(call, thread, old, new)
    after = {thread: new[thread] for thread in changed}
    outcomes = set()

    def dies(point: str, number: int) -> bool:
        root = shutil.copytree(begin, tmp_path / f"{point} {number}")
        run = program.run(root, point=point, number=number, call=call)
        for thread in {"plain", "delta", "asks"} - {*changed}:
            assert (root / logs[thread]).read_bytes() == (begin / logs[thread]).read_bytes()
        seen = look(root, changed)
        for thread in changed:
            assert seen[thread] in (old[thread], new[thread])
            outcomes.add(seen[thread] == new[thread])

        again = shutil.copytree(root, tmp_path / f"{point} {number}, again")
        repeat(again, call, done=seen == after)
        assert look(again, changed) == after
        if call[0] == "delete_thread":
            assert not (again / logs[changed[0]]).parent.exists()
        if torn is not None:
            beside = (again / logs["plain"]).parent.glob("session.torn-*")
            assert torn in [file.read_bytes() for file in beside]

        for thread in changed:
            check_goes_on(root, thread, seen[thread])
        with JsonlSaver(root, restore_memory="never") as saver:
            saver.prune([*THREADS], strategy="delete")
        assert list((root / logs["plain"]).parents[1].iterdir()) == []
        return run.killed

    assert kill_each(dies) >= least
    assert outcomes == {False, True}


def steps(saver: JsonlSaver, thread: str) -> list[Any]:
    """The checkpoints and their writes, without the ids that differ from run to run."""
    return [
        (
            found.metadata["step"],
            plain(found.checkpoint["channel_values"].get("messages")),
            [[channel, plain(value)] for _, channel, value in found.pending_writes or []],
        )
        for found in saver.list(config(thread))
    ]


def go_on_over(root: Path, thread: str, meanwhile: Callable[[], Any]) -> list[Any]:
    """End a run, and make another in which `meanwhile` happens; the steps that are stored."""
    with JsonlSaver(root, restore_memory="never") as saver:
        agent = build(saver, thread, meanwhile)
        resume(agent, thread)
        turn(agent, thread, "more", 4)
        found = steps(saver, thread)
    with JsonlSaver(root, restore_memory="never") as saver:
        assert steps(saver, thread) == found
        assert texts(build(saver, thread), thread)[-3:] == ["more", "heard 10", "done"]
    return found


@pytest.mark.parametrize("what", [*map(marked, ["prune plain", "prune delta", "prune asks", "delete runs"])])
def test_a_live_run_goes_on_over_a_killed_rewrite(program: Program, threads: Path, tmp_path: Path, what: str) -> None:
    """A process in the middle of a superstep stores the rest of its run in the log that is there then."""
    call, (thread, *_), least = CALLS[what]
    twin = go_on_over(shutil.copytree(threads, tmp_path / "twin"), thread, lambda: None)
    lengths = set()

    def dies(point: str, number: int) -> bool:
        root = shutil.copytree(threads, tmp_path / f"{point} {number}")
        runs = []
        found = go_on_over(
            root, thread, lambda: runs.append(program.run(root, point=point, number=number, call=call))
        )
        # What left is the oldest: nothing that this process stored since.
        assert found == twin[: len(found)]
        session = whole(log_of(root, thread))[0]
        assert session.get("generation", 0) == (len(found) < len(twin))
        lengths.add(len(found))
        return runs[0].killed

    assert kill_each(dies) >= least
    assert len(lengths) == 2
    assert max(lengths) == len(twin)


def test_a_live_run_is_told_that_its_thread_was_deleted(program: Program, threads: Path, tmp_path: Path) -> None:
    """Where delete_thread was killed before the log was gone the run goes on; else it fails, and the next begins."""
    outcomes = set()

    def dies(point: str, number: int) -> bool:
        root = shutil.copytree(threads, tmp_path / f"{point} {number}")
        runs = []

        def delete() -> None:
            runs.append(program.run(root, point=point, number=number, call=["delete_thread", "plain"]))

        log = log_of(root, "plain")
        with JsonlSaver(root, restore_memory="never") as saver:
            agent = build(saver, "plain", delete)
            resume(agent, "plain")
            expected = [*texts(agent, "plain"), "more", "heard 10", "done"]
            try:
                turn(agent, "plain", "more", 4)
            except SessionError:
                assert not log.exists()
                expected = []
            assert texts(agent, "plain") == expected
            outcomes.add(bool(expected))
            turn(build(saver, "plain"), "plain", "again", 5)
            expected += ["again", f"heard {len(expected) + 1}", "done"]
            assert texts(agent, "plain") == expected
        with JsonlSaver(root, restore_memory="never") as saver:
            assert texts(build(saver, "plain"), "plain") == expected
        whole(log)
        return runs[0].killed

    assert kill_each(dies) >= 3
    assert outcomes == {False, True}


def test_no_put_of_a_live_process_is_lost_to_killed_rewrites(program: Program, tmp_path: Path) -> None:
    """A process puts without a pause while others rewrite its thread and are killed at every kernel call."""
    stop, progress = threading.Event(), threading.Event()
    new: list[str] = []

    def store(saver: JsonlSaver, run: str) -> str:
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"text": run * 200}
        checkpoint["channel_versions"] = {"text": saver.get_next_version(None, None)}
        where: RunnableConfig = {"configurable": {"thread_id": "busy", "checkpoint_ns": ""}}
        stored = saver.put(where, checkpoint, {"run_id": run}, checkpoint["channel_versions"])
        saver.put_writes(stored, [("text", run)], "task")
        return checkpoint["id"]

    def write(saver: JsonlSaver) -> None:
        while not stop.is_set():
            new.append(store(saver, "new"))
            progress.set()

    def dies(point: str, number: int) -> bool:
        run = program.run(tmp_path, point=point, number=number, call=["delete_for_runs", [f"old {next(count)}"]])
        progress.clear()
        assert progress.wait(10)
        return run.killed

    count = itertools.count()
    with JsonlSaver(tmp_path, fsync="never") as saver, ThreadPoolExecutor(1) as pool:
        old = [store(saver, f"old {number}") for number in range(20)]
        writing = pool.submit(write, saver)
        try:
            assert kill_each(dies) >= 8
        finally:
            stop.set()
        writing.result()
    with JsonlSaver(tmp_path, restore_memory="never") as saver:
        stored = {found.checkpoint["id"]: found for found in saver.list(config("busy"))}
    assert {*new} <= stored.keys() < {*old, *new}
    for name, found in stored.items():
        run = "new" if name in new else f"old {old.index(name)}"
        assert found.metadata["run_id"] == run
        assert found.checkpoint["channel_values"] == {"text": run * 200}
        assert found.pending_writes == [("task", "text", run)]
    assert whole(log_of(tmp_path, "busy"))[0]["generation"] == len(old) + len(new) - len(stored)
