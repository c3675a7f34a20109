"""Others who read and write a thread while somebody packs it, and after."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from cases.graphs import ChatState, at, chain, checkpoint, config, ids, prose, put, sequence
from cases.logs import of_type, records, text
from cases.test_processes import _finish, _start
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_jsonl_checkpoint import JsonlSaver, SessionError
from langgraph_jsonl_checkpoint.log import files, logfile
from langgraph_jsonl_checkpoint.sessions.reader import Reader

from .layout import is_packed
from .scene import go_on, seen, seen_anew, small

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("small_frames")


def said(log: Path) -> list[str]:
    """The ids of the messages that are written; none is written twice."""
    found = [record["message"]["id"] for record in of_type(log, "message")]
    assert len(found) == len(set(found)), "a message is written twice"
    return found


@pytest.mark.parametrize("who", ["the same saver", "another saver"])
def test_a_list_that_was_begun_goes_on_over_a_packing(root: Path, who: str) -> None:
    """A generator gives what the thread held when it was made, however often it is packed and grows meanwhile."""
    small(root)
    with JsonlSaver(root, restore_memory="never") as saver, JsonlSaver(root, restore_memory="never") as other:
        packer = saver if who == "the same saver" else other
        expected = [tuple(row) for row in saver.list({"configurable": {"thread_id": "t"}})]
        found, rows = [], saver.list({"configurable": {"thread_id": "t"}})
        for number, row in enumerate(rows):
            found.append(tuple(row))
            packer.pack("t")
            put(packer, at(100 + number), {"n": prose(number, 3000)}, ns="elsewhere")
        assert found == expected


@pytest.mark.parametrize("who", ["the same saver", "another saver"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_reader_that_was_taken_before_reads_on(root: Path, who: str, packed: bool) -> None:
    """What it has not read yet it finds in the file that it began with, or in the new one: it is the same."""
    small(root)
    with JsonlSaver(root, restore_memory="never") as saver, JsonlSaver(root, restore_memory="never") as other:
        packer = saver if who == "the same saver" else other
        if packed:
            packer.pack("t")
        expected = {place: saver.get_tuple(config("t", "", at(place))) for place in range(3)}
        with JsonlSaver(root, restore_memory="never") as third:
            with third._sessions.use("t") as session:
                session.refresh()
                reader = Reader(session, third._serde("t"))
            with saver._sessions.use("t") as session:
                session.refresh()
                mine = Reader(session, saver._serde("t"))
            put(packer, at(50), {"n": 1})
            assert packer.pack("t")
            packer.prune(["t"])
            gc.collect()
            for place, found in expected.items():
                assert reader.get("", at(place)) == found
                if packer is other:
                    assert mine.get("", at(place)) == found


def test_a_writer_goes_on_where_another_packed(root: Path) -> None:
    """Step by step, each of three savers in turn packs and another goes on: nothing is lost or written twice."""
    savers = [JsonlSaver(root, fsync="never", restore_memory="never") for _ in range(3)]
    reply = lambda state: {
        "messages": [AIMessage(prose(len(state["messages"]), 300), id=f"a{len(state['messages'])}")]
    }
    graphs = [sequence(ChatState, ("reply", reply)).compile(checkpointer=saver) for saver in savers]
    for turn in range(12):
        graph, packer = graphs[turn % 3], savers[(turn + 1) % 3] if turn % 4 else savers[turn % 3]
        graph.invoke({"messages": [HumanMessage(f"h {turn} {prose(-turn, 300)}", id=f"h{turn}")]}, config())
        assert packer.pack("t")
    log = savers[0].path("t")
    assert len(said(log)) == 24
    records(log)
    for saver in savers:
        messages = saver.get_tuple(config()).checkpoint["channel_values"]["messages"]
        assert [m.id for m in messages] == [name for turn in range(12) for name in (f"h{turn}", f"a{2 * turn + 1}")]
        assert len(ids(saver.list(config()))) == 36
        saver.close()


@pytest.mark.parametrize("held", ["read", "put"])
@pytest.mark.parametrize("who", ["the same saver", "another saver"])
def test_a_state_from_before_a_packing_is_not_written_again(root: Path, held: str, who: str) -> None:
    """A run that read or put its state, then somebody packs, then it puts: its messages have their numbers still."""
    with JsonlSaver(root, fsync="never") as saver, JsonlSaver(root) as other:
        messages = [HumanMessage(prose(n, 300), id=str(n), additional_kwargs={"a": [n]}) for n in range(20)]
        put(saver, at(0), {"messages": messages})
        if held == "read":
            messages = saver.get_tuple(config()).checkpoint["channel_values"]["messages"]
        for n in range(1, 5):
            (saver if who == "the same saver" else other).pack("t")
            messages = [*messages, HumanMessage("new", id=f"new {n}")]
            put(saver, at(n), {"messages": messages}, parent=at(n - 1))
        assert len(said(saver.path("t"))) == 24
        assert saver.get_tuple(config()).checkpoint["channel_values"]["messages"] == messages
    with JsonlSaver(root) as saver:
        assert saver.get_tuple(config()).checkpoint["channel_values"]["messages"] == messages


def test_threads_put_and_read_while_another_packs(root: Path) -> None:
    """Each put is there, in its place; each read gives what was put; the log's lines have no gap."""
    stop = threading.Event()
    names = ["a", "b", "c"]

    def write(saver: JsonlSaver, name: str) -> None:
        messages: list[Any] = []
        for place in range(25):
            messages = [*messages, HumanMessage(prose((name, place), 200), id=f"{name}{place}")]
            put(saver, at(place), {"messages": messages}, ns=name, parent=at(place - 1) if place else None)
            saver.put_writes(config("t", name, at(place)), [("x", [name, place])], f"task {place}")
            found = saver.get_tuple(config("t", name, at(place // 2)))
            assert [m.id for m in found.checkpoint["channel_values"]["messages"]] == [
                f"{name}{n}" for n in range(place // 2 + 1)
            ]
            assert found.pending_writes == [(f"task {place // 2}", "x", [name, place // 2])]

    def pack(saver: JsonlSaver) -> int:
        count = 0
        while not stop.is_set():
            count += saver.pack("t")
        return count

    with (
        JsonlSaver(root, fsync="never", restore_memory="never") as one,
        JsonlSaver(root, fsync="never", restore_memory="never") as two,
        ThreadPoolExecutor(5) as pool,
    ):
        packing = [pool.submit(pack, one), pool.submit(pack, two)]
        writing = [pool.submit(write, saver, name) for saver, name in zip([one, two, one], names, strict=True)]
        try:
            for each in writing:
                each.result()
        finally:
            stop.set()
        assert sum(each.result() for each in packing) > 2
        for saver in (one, two):
            assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) == 75
    records(one.path("t"))
    assert len(said(one.path("t"))) == 75
    with JsonlSaver(root) as saver:
        for name in names:
            found = saver.get_tuple(config("t", name)).checkpoint["channel_values"]["messages"]
            assert [m.content for m in found] == [prose((name, n), 200) for n in range(25)]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes as POSIX has them")
def test_processes_put_while_others_pack(root: Path) -> None:
    """langgraph#8136: two processes put, a third packs without a pause: no checkpoint is lost, none twice."""
    code = """
from langchain_core.messages import HumanMessage
from langgraph_jsonl_checkpoint.log import packing
packing._TEXT = 2000
name, kind = args
with JsonlSaver(root, fsync="never", restore_memory="never") as saver:
    print("ready", flush=True)
    sys.stdin.readline()
    if kind == "pack":
        import time
        end, count = time.monotonic() + 1.5, 0
        while time.monotonic() < end:
            count += saver.pack("t")
        print(count)
    else:
        messages, parent = [], None
        for place in range(60):
            messages = [*messages, HumanMessage(f"{name} {place} " + "x" * 300, id=f"{name}{place}")]
            put(saver, f"{place:04}-{name}", {"messages": messages}, parent=parent)
            parent = f"{place:04}-{name}"
            assert saver.get_tuple(config(checkpoint_id=f"{place // 2:04}-{name}")) is not None
"""
    kinds = [("a", "put"), ("b", "put"), ("c", "pack")]
    children = [_start(code, root, *kind) for kind in kinds]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    outs = [_finish(child) for child in children]
    assert sum(map(int, filter(str.strip, outs))) > 2
    with JsonlSaver(root, restore_memory="never") as saver:
        found = {row.checkpoint["id"]: row for row in saver.list(config())}
        assert sorted(found) == sorted(f"{place:04}-{name}" for place in range(60) for name in "ab")
        for name, row in found.items():
            held = row.checkpoint["channel_values"]["messages"]
            assert [m.id for m in held] == [f"{name[5:]}{n}" for n in range(int(name[:4]) + 1)]
    assert len(said(saver.path("t"))) == 120
    records(saver.path("t"))


async def test_tasks_put_and_list_while_others_pack(root: Path) -> None:
    """The same with asyncio: each task's thread goes on as if it were alone."""
    async with JsonlSaver(root, fsync="never", restore_memory="never") as saver:
        reply = lambda s: {"messages": [AIMessage(prose(len(s["messages"]), 200), id=f"a{len(s['messages'])}")]}
        graph = sequence(ChatState, ("reply", reply)).compile(checkpointer=saver)

        async def talk(name: str) -> None:
            for turn in range(6):
                given = {"messages": [HumanMessage(prose((name, turn), 200), id=f"h{turn}")]}
                await graph.ainvoke(given, config(name))
                await saver.apack(name)

        async def look(name: str) -> None:
            while not done.is_set():
                rows = [row async for row in saver.alist(config(name))]
                assert ids(rows) == sorted(ids(rows), reverse=True)
                await saver.apack(name)

        done = asyncio.Event()
        looking = [asyncio.create_task(look(name)) for name in ("one", "two")]
        await asyncio.gather(talk("one"), talk("two"))
        done.set()
        await asyncio.gather(*looking)
        for name in ("one", "two"):
            assert len(said(saver.path(name))) == 12
            assert len([row async for row in saver.alist(config(name))]) == 18


async def test_a_put_reads_nothing_in_the_event_loop(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was handed out is compared with lines that a packing moved to the disk: not by the loop's thread."""
    small(root)
    reads: list[int] = []
    read = logfile.LogFile.read

    def seen_read(self: Any, *args: int) -> bytes:
        reads.append(threading.get_ident())
        return read(self, *args)

    monkeypatch.setattr(logfile.LogFile, "read", seen_read)
    async with JsonlSaver(root, restore_memory="never") as saver:
        found = await saver.aget_tuple(config())
        await saver.apack("t")
        values = {**found.checkpoint["channel_values"], "more": 1}
        stored = checkpoint(at(60), values)
        await saver.aput(found.config, stored, {"step": 1}, stored["channel_versions"])
        assert reads
        assert threading.get_ident() not in reads
        assert (await saver.aget_tuple(config())).checkpoint["channel_values"] == values


# --- between the packed log's coming to its place and the packer's opening it

BETWEEN: dict[str, Callable[[JsonlSaver], Any]] = {
    "append": lambda saver: put(saver, at(70), {"n": 70}),
    "prune": lambda saver: saver.prune(["t"]),
    "prune and append": lambda saver: (saver.prune(["t"]), put(saver, at(70), {"n": prose(1, 9000)})),
    "pack": lambda saver: (put(saver, at(70), {"n": 70}), saver.pack("t")),
    "delete": lambda saver: saver.delete_thread("t"),
    "delete and begin anew": lambda saver: (saver.delete_thread("t"), chain(saver, 30)),
}


@pytest.mark.parametrize("what", BETWEEN)
def test_whoever_comes_when_the_packed_log_is_in_its_place_is_noticed(
    root: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The new file's lock is nobody's for a moment: what another writer does then is what all read afterwards."""
    small(root)
    with JsonlSaver(root, restore_memory="never") as saver, JsonlSaver(root, restore_memory="never") as other:
        saver.get_tuple(config())
        rename, did = files.rename, threading.Event()
        done = threading.Event()

        def between() -> None:
            BETWEEN[what](other)
            done.set()

        meanwhile = threading.Thread(target=between)

        def then(*paths: str) -> None:
            rename(*paths)
            if not did.is_set():
                did.set()
                meanwhile.start()
                done.wait(0.5)  # or it waits for a lock that the packer holds

        monkeypatch.setattr(files, "rename", then)
        saver.pack("t")
        meanwhile.join()
        rows = [tuple(row) for row in other.list({"configurable": {"thread_id": "t"}})]
        assert [tuple(row) for row in saver.list({"configurable": {"thread_id": "t"}})] == rows
        put(saver, at(80), {"n": 80})
        expected = ids(other.list({"configurable": {"thread_id": "t"}}))
        assert at(80) in expected
        assert len(expected) == len(rows) + 1
        assert not list(saver.path("t").parent.glob("session.torn-*")), "a part was moved aside as torn"
    with JsonlSaver(root, restore_memory="never") as saver:
        assert ids(saver.list({"configurable": {"thread_id": "t"}})) == expected
    records(saver.path("t"))


# --- descriptors


def _open_under(root: Path) -> list[int]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith(f"{root}/") and ".writers" not in target:
            found.append(int(name))
    return found


linux = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")


@linux
def test_packed_sessions_keep_few_descriptors(root: Path) -> None:
    """langgraph#4168: of fifty packed threads, read early and late, packed again and evicted, four stay open."""
    with JsonlSaver(root, max_open=4, fsync="never", restore_memory="never") as saver:
        for turn in range(3):
            for number in range(20):
                name = f"t{number}"
                for place in range(4):
                    put(saver, at(10 * turn + place), {"n": prose(place, 400)}, thread_id=name)
                saver.pack(name)
                assert saver.get_tuple(config(name, "", at(0))).checkpoint["channel_values"] == {"n": prose(0, 400)}
                assert len(list(itertools.islice(saver.list(config(name)), 2))) == 2
                assert len(_open_under(root)) <= 4
        assert len(list(saver.list(None))) == 240
        assert len(_open_under(root)) <= 4
    assert _open_under(root) == []


@linux
def test_the_old_file_is_closed_when_nobody_reads_it(root: Path) -> None:
    """A packing leaves no descriptor behind, in whoever packs and in whoever notices."""
    small(root)
    with JsonlSaver(root, restore_memory="never") as saver, JsonlSaver(root, restore_memory="never") as other:
        for turn in range(5):
            for each in (saver, other):
                found = each.get_tuple(config())
                assert found is not None
                put(each, at(60 + turn), {**found.checkpoint["channel_values"], "n": turn})
            saver.pack("t")
            other.get_tuple(config())
            assert len(_open_under(root)) == 2


@linux
@pytest.mark.parametrize("reused", [False, True])
def test_a_descriptor_closed_by_someone_else_gives_no_other_state(root: Path, tmp_path: Path, reused: bool) -> None:
    """langgraph#4168: whoever reads packed lines then gets them, or an error; a later read opens the log again."""
    small(root)
    told = seen_anew(root, "t")
    with JsonlSaver(root, restore_memory="never") as saver:
        saver.pack("t")
    saver = JsonlSaver(root, restore_memory="never")
    rows = saver.list({"configurable": {"thread_id": "t"}})
    found = [next(rows)]
    state = saver.get_tuple(config())
    lost = _open_under(root)
    for descriptor in lost:
        os.close(descriptor)
    others = [(tmp_path / f"bystander-{n}").open("w+b", buffering=0) for n in range(len(lost) if reused else 0)]
    for each in others:
        each.write(b"not a log" * 1000)
    with contextlib.suppress(OSError, SessionError):
        found += rows
    assert [tuple(row) for row in found] == told["rows"][: len(found)]
    try:
        put(saver, at(70), {**state.checkpoint["channel_values"], "n": 1}, parent=at(2))
        count = 7
    except (OSError, SessionError):
        count = 6
    assert saver.get_tuple(config("t", "child:1")) is not None
    assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) == count
    assert seen(saver, "t")["rows"][-6:] == told["rows"] or count == 7
    put(saver, at(71), {"n": 2})
    saver.close()
    for each in others:
        each.seek(0)
        assert each.read() == b"not a log" * 1000
        each.close()
    records(saver.path("t"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes as POSIX has them")
def test_a_forked_child_reads_writes_and_packs_a_packed_log(root: Path) -> None:
    """The parent goes on with what the child packed."""
    small(root)
    with JsonlSaver(root, restore_memory="never") as saver:
        saver.pack("t")
        rows = saver.list({"configurable": {"thread_id": "t"}})
        first = next(rows)
        if (pid := os.fork()) == 0:
            code = 1
            try:
                go_on(saver, number=80)
                code = 0 if saver.pack("t") and len(list(rows)) == 5 else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert len([first, *rows]) == 6
        assert saver.get_tuple(config()).checkpoint["id"] == at(80)
        newest = go_on(saver, number=81)
        lines = text(saver.path("t"))
        assert saver.pack("t")
        assert text(saver.path("t")) == lines
        assert is_packed(saver.path("t"))
    with JsonlSaver(root, restore_memory="never") as saver:
        assert saver.get_tuple(config()) == newest
    said(saver.path("t"))
