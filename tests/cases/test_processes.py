"""Processes: killed, forked, several on one log; descriptors and folders that vanish under an open saver."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from cases.graphs import at, chain, config, ids, put
from cases.logs import of_type, records
from langgraph_jsonl_checkpoint import JsonlSaver, SessionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="signals and descriptors as POSIX has them")

HEAD = """
import os, signal, sys, threading
from cases.graphs import at, chain, config, ids, put
from langgraph_jsonl_checkpoint import JsonlSaver
root, *args = sys.argv[1:]
"""


def _start(code: str, root: Path, *args: str) -> subprocess.Popen[str]:
    """A Python process that runs the code over this folder."""
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + code, str(root), *args],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finish(child: subprocess.Popen[str], code: int = 0) -> str:
    try:
        out, err = child.communicate(timeout=40)
    finally:
        child.kill()
    assert child.returncode == code, err
    return out


@pytest.mark.parametrize("fsync", ["checkpoint", "always", "never"])
@pytest.mark.parametrize("way", ["sync", "async"])
def test_what_put_returned_for_survives_a_kill(root: Path, fsync: str, way: str) -> None:
    """langgraph#8298: a put, a print, SIGKILL to itself; the parent finds it."""
    code = """
import asyncio
from cases.graphs import checkpoint
saver = JsonlSaver(root, fsync=args[0])
stored = checkpoint(at(1), {"x": ["kept", 1]})
if args[1] == "sync":
    saver.put(config(), stored, {"step": 1}, stored["channel_versions"])
    print("stored", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
async def main():
    await saver.aput(config(), stored, {"step": 1}, stored["channel_versions"])
    print("stored", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    assert _finish(_start(code, root, fsync, way), -signal.SIGKILL) == "stored\n"
    with JsonlSaver(root) as saver:
        found = saver.get_tuple(config())
        assert (found.checkpoint["id"], found.checkpoint["channel_values"]) == (at(1), {"x": ["kept", 1]})
        assert found.metadata["step"] == 1
        put(saver, at(2), {"x": []}, parent=at(1))
        assert ids(saver.list(config())) == [at(2), at(1)]


@pytest.mark.parametrize("checkpoint_first", [True, False])
def test_what_put_writes_returned_for_survives_a_kill(root: Path, checkpoint_first: bool) -> None:
    """langgraph#8298: the same after put_writes alone, also in a thread that has no checkpoint yet."""
    if checkpoint_first:
        with JsonlSaver(root) as saver:
            put(saver, at(1), {"n": 1})
    code = """
saver = JsonlSaver(root)
saver.put_writes(config(checkpoint_id=at(1)), [("x", ["kept"]), ("y", None)], "task", "path")
print("stored", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert _finish(_start(code, root), -signal.SIGKILL) == "stored\n"
    with JsonlSaver(root) as saver:
        if not checkpoint_first:
            put(saver, at(1), {"n": 1})
        (found,) = saver.list(config())
        assert found.checkpoint["channel_values"] == {"n": 1}
        assert found.pending_writes == [("task", "x", ["kept"]), ("task", "y", None)]


def test_two_processes_lose_no_checkpoint(root: Path) -> None:
    """langgraph#8136: 500 puts each on one thread id: 1,000 checkpoints, numbered without a gap."""
    code = """
name = args[0]
with JsonlSaver(root, fsync="never") as saver:
    print("ready", flush=True)
    sys.stdin.readline()
    parent = None
    for place in range(500):
        put(saver, f"{place:04}-{name}", {"x": [name, place]}, parent=parent, worker=name)
        parent = f"{place:04}-{name}"
"""
    children = [_start(code, root, name) for name in ("a", "b")]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _finish(child)
    with JsonlSaver(root) as saver:
        found = [*saver.list(config())]
        path = saver.path("t")
    assert ids(found) == sorted((f"{n:04}-{name}" for n in range(500) for name in "ab"), reverse=True)
    for item in found:
        place, name = item.checkpoint["id"].split("-")
        assert item.checkpoint["channel_values"] == {"x": [name, int(place)]}
        if item.parent_config is not None:
            assert item.parent_config["configurable"]["checkpoint_id"] == f"{int(place) - 1:04}-{name}"
    assert len(of_type(path, "checkpoint")) == 1000
    assert len(of_type(path, "open")) == 2


def test_a_process_reads_what_another_has_just_stored(root: Path) -> None:
    """langgraph#8136: two processes answer each other on one thread; each turn builds on the other's."""
    code = """
with JsonlSaver(root) as saver:
    for line in sys.stdin:
        found = saver.get_tuple(config())
        values = found.checkpoint["channel_values"]["items"]
        put(saver, at(int(line) + 1), {"items": [*values, "child"]}, parent=found.checkpoint["id"])
        saver.put_writes(config(checkpoint_id=at(int(line) + 1)), [("items", ["child"])], "task")
        print("done", flush=True)
"""
    child = _start(code, root)
    with JsonlSaver(root) as saver:
        items: list[str] = []
        for turn in range(0, 20, 2):
            items.append("parent")
            put(saver, at(turn), {"items": items}, parent=at(turn - 1) if turn else None)
            child.stdin.write(f"{turn}\n")
            child.stdin.flush()
            assert child.stdout.readline() == "done\n"
            found = saver.get_tuple(config())
            items = found.checkpoint["channel_values"]["items"]
            assert found.pending_writes == [("task", "items", ["child"])]
        assert items == ["parent", "child"] * 10
        assert ids(saver.list(config())) == [at(place) for place in reversed(range(20))]
    _finish(child)


def test_a_fork_with_an_open_saver_loses_and_doubles_nothing(root: Path) -> None:
    """langgraph#8136: parent and child go on with the saver that was open; closing one leaves the other."""
    code = """
saver = JsonlSaver(root)
chain(saver, 3)
child = os.fork()
who = "parent" if child else "child"
for place in range(20):
    put(saver, f"2-{place:02}-{who}", {"x": who}, parent=at(2))
    saver.put_writes(config(checkpoint_id=at(2)), [("x", [who, place])], f"{who}-{place:02}")
if child == 0:
    saver.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
put(saver, "3", {"x": "last"}, parent=at(2))
assert len([*saver.list(config())]) == 44
saver.close()
"""
    _finish(_start(code, root))
    with JsonlSaver(root) as saver:
        found = ids(saver.list(config()))
        forked = sorted((f"2-{n:02}-{who}" for n in range(20) for who in ("parent", "child")), reverse=True)
        assert found == ["3", *forked, *(at(place) for place in (2, 1, 0))]
        expected = [(f"{who}-{n:02}", "x", [who, n]) for who in ("child", "parent") for n in range(20)]
        assert saver.get_tuple(config(checkpoint_id=at(2))).pending_writes == expected
        writers = {record["writer"] for record in of_type(saver.path("t"), "open")}
    assert len(writers) == 2, "a forked child is another writer"


@pytest.mark.parametrize("what", ["put", "close"])
def test_a_fork_in_the_middle_of_a_put_does_not_hang(root: Path, what: str) -> None:
    """langgraph#8136: another thread of the parent may hold every lock of the saver at the fork."""
    code = """
saver = JsonlSaver(root, fsync="never")
stop = threading.Event()
def work(name):
    place = 0
    while not stop.is_set():
        put(saver, f"{name}-{place:05}", {"x": name * 20_000})
        place += 1
threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in "ab"]
for thread in threads: thread.start()
for number in range(10):
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        if args[0] == "close":
            saver.close()
            os._exit(0)
        put(saver, f"child-{number}", {"x": "child"})
        os._exit(0 if saver.get_tuple(config(checkpoint_id=f"child-{number}")) else 1)
    assert os.waitpid(child, 0)[1] == 0, number
stop.set()
for thread in threads: thread.join()
print(len([*saver.list(config())]))
"""
    stored = int(_finish(_start(code, root, what)))
    with JsonlSaver(root) as saver:
        found = ids(saver.list(config()))
        assert len(found) == len(set(found)) == stored
        children = [name for name in found if name.startswith("child")]
        assert children == ([f"child-{n}" for n in range(9, -1, -1)] if what == "put" else [])
        records(saver.path("t"))


def _descriptors(*, under: Path) -> Iterator[int]:
    """The descriptors of this process that are open on files in this folder."""
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith(f"{under}{os.sep}"):
            yield int(name)


linux = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")


def _told_or_done(act: Any) -> bool:
    """Whether the call succeeded; if not, it must have raised an error of this package or of the system."""
    try:
        act()
    except (SessionError, OSError):
        return False
    return True


@linux
@pytest.mark.parametrize("reused", [False, True])
def test_a_descriptor_closed_by_someone_else_harms_no_file(root: Path, tmp_path: Path, reused: bool) -> None:
    """langgraph#4168: a daemon closes all descriptors; the number may be another file's by the next put."""
    saver = JsonlSaver(root)
    chain(saver, 3)
    lost = [*_descriptors(under=root)]
    for descriptor in lost:
        os.close(descriptor)
    bystanders = [tmp_path / f"bystander-{number}" for number in range(len(lost) if reused else 0)]
    handles = [path.open("w+b", buffering=0) for path in bystanders]
    for handle in handles:
        handle.write(b"not a log")
    assert not reused or not lost or {handle.fileno() for handle in handles} & {*lost}

    stored = [at(place) for place in range(3)]
    for place in (3, 4):
        if _told_or_done(lambda place=place: put(saver, at(place), {"n": place}, parent=at(2))):
            stored.append(at(place))
        assert saver.get_tuple(config()).checkpoint["id"] == stored[-1]
    assert at(4) in stored, "after a read the session is open again"
    assert [path.read_bytes() for path in bystanders] == [b"not a log"] * len(bystanders)
    saver.close()
    for handle in handles:
        os.fstat(handle.fileno())
        handle.close()
    with JsonlSaver(root) as saver:
        assert ids(saver.list(config())) == stored[::-1]
        records(saver.path("t"))


@pytest.mark.parametrize("what", ["log", "session", "workspace", "root"])
@pytest.mark.parametrize("read_first", [True, False])
def test_a_folder_deleted_under_an_open_saver_is_noticed(root: Path, what: str, read_first: bool) -> None:
    """langgraph#8054: what a later put stores is found by the next saver, or the put says that it failed."""
    saver = JsonlSaver(root)
    chain(saver, 3)
    log = saver.path("t")
    if what == "log":
        log.unlink()
    else:
        shutil.rmtree({"session": log.parent, "workspace": log.parent.parent, "root": root}[what])
    if read_first:
        assert saver.get_tuple(config()) is None
    done = _told_or_done(lambda: put(saver, at(7), {"n": "new"}))
    assert done or not read_first
    _told_or_done(lambda: saver.put_writes(config(checkpoint_id=at(1)), [("x", 1)], "late"))
    expected = [at(7)] if done else []
    assert ids(saver.list(config())) == expected
    saver.get_tuple(config())
    put(saver, at(8), {"n": "newer"})
    saver.close()
    with JsonlSaver(root) as saver:
        assert ids(saver.list(config())) == [at(8), *expected]
        records(saver.path("t"))


@linux
def test_open_sessions_are_bounded(root: Path) -> None:
    """langgraph#4168: fifty threads with `max_open=4` keep few descriptors, and each is what it was."""
    with JsonlSaver(root, max_open=4) as saver:
        for turn in range(3):
            for number in range(50):
                stored = put(saver, at(turn), {"n": [number, turn]}, thread_id=f"t{number}")
                saver.put_writes(stored, [("x", number)], "task")
                assert len([*_descriptors(under=root)]) <= 4
        for number in range(50):
            found = saver.get_tuple(config(f"t{number}"))
            assert found.checkpoint["channel_values"] == {"n": [number, 2]}
            assert found.pending_writes == [("task", "x", number)]
            assert len([*_descriptors(under=root)]) <= 4
        assert len([*saver.list(None)]) == 150
        assert len([*_descriptors(under=root)]) <= 4
    assert [*_descriptors(under=root)] == []


@linux
def test_the_least_recently_used_session_is_closed(root: Path) -> None:
    """Whatever was asked of a thread counts as its use, a read as well as a write; one in use stays."""

    def open_threads() -> list[str]:
        links = [os.readlink(f"/proc/self/fd/{each}") for each in _descriptors(under=root / "default")]
        return sorted(os.path.basename(os.path.dirname(link)) for link in links)

    with JsonlSaver(root, max_open=3) as saver:
        for name in "abc":
            put(saver, at(1), {}, thread_id=name)
        saver.get_tuple(config("a"))
        put(saver, at(1), {}, thread_id="d")
        assert open_threads() == ["a", "c", "d"]
        saver.put_writes(config("c", checkpoint_id=at(1)), [("x", 1)], "task")
        with saver._sessions.use("a"):
            thread = threading.Thread(target=lambda: [put(saver, at(1), {}, thread_id=name) for name in "ef"])
            thread.start()
            thread.join()
            assert open_threads() == ["a", "e", "f"]
        put(saver, at(1), {}, thread_id="g")
        assert len(open_threads()) == 3


@linux
def test_deleted_threads_take_no_place(root: Path) -> None:
    """After many of them as many sessions stay open as before."""
    with JsonlSaver(root, cache_size=1 << 20) as saver:
        for number in range(100):  # of 16 KB each, if they counted
            put(saver, at(1), {}, thread_id=f"gone {number}")
            saver.delete_thread(f"gone {number}")
        for name in "abc":
            put(saver, at(1), {}, thread_id=name)
        assert len([*_descriptors(under=root / "default")]) == 3


@linux
def test_open_sessions_are_bounded_for_many_threads_at_once(root: Path) -> None:
    """langgraph#4168: a session that is evicted while another thread uses it loses nothing."""
    from concurrent.futures import ThreadPoolExecutor

    with JsonlSaver(root, max_open=4, fsync="never") as saver, ThreadPoolExecutor(8) as pool:

        def work(number: int) -> None:
            for place in range(10):
                put(
                    saver,
                    at(place),
                    {"n": [number, place]},
                    thread_id=f"t{number % 25}",
                    ns=f"{number // 25}",
                )

        [*pool.map(work, range(50))]
        assert len([*_descriptors(under=root)]) <= 4
        for number in range(50):
            found = [*saver.list(config(f"t{number % 25}", f"{number // 25}"))]
            assert [item.checkpoint["channel_values"]["n"] for item in found] == [
                [number, place] for place in reversed(range(10))
            ]


@linux
def test_a_list_of_all_threads_keeps_few_logs_open(root: Path) -> None:
    """Packed logs are read from their files: of eighty threads that interleave, each comes in its turn."""
    threads = [f"t{number}" for number in range(80)]
    with JsonlSaver(root, fsync="never", max_open=4) as saver:
        for turn in range(3):
            for number, name in enumerate(threads):
                put(saver, at(100 * turn + number), {"n": [name, turn]}, thread_id=name)
        assert all(saver.pack(name) for name in threads)
        found = []
        for each in saver.list(None):
            found.append(each.checkpoint["channel_values"]["n"])
            assert len([*_descriptors(under=root)]) <= 4 + 64 + 1
    assert found == [[name, turn] for turn in (2, 1, 0) for name in reversed(threads)]


def test_few_descriptors_are_enough_for_many_threads(root: Path) -> None:
    """Under a low limit fewer threads stay open than `max_open` allows: each call and each list has a descriptor."""
    code = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
with JsonlSaver(root, fsync="never") as saver:
    for i in range(150):
        put(saver, at(1), {"n": i}, thread_id=f"t{i}")
    print(len(list(saver.list(None))))
"""
    assert _finish(_start(code, root)) == "150\n"
