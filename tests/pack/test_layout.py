"""Packing changes where a log's lines stand, and nothing else that anybody can see."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from cases.graphs import at, config, ids, prose, put
from cases.logs import of_type, records, text
from guard.scene import CHARGE, LOOKUP, MAIL, asked
from langchain_core.messages import HumanMessage

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.log import frames, packing

from .layout import is_packed, parts, read_by_lines
from .scene import KINDS, SECRET, encrypted, go_on, logs, secrets, seen, seen_anew, small

if TYPE_CHECKING:
    from pathlib import Path

    from guard.conftest import Place

SIZES = {"one frame": 1 << 18, "many frames": 700}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_packing_again_and_again_changes_no_line_and_nothing_that_is_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: str
) -> None:
    """Turn by turn: packed by one saver, all is the same to it, to one that was open, to a new one, and by lines."""
    monkeypatch.setattr(packing, "_TEXT", SIZES[size])
    with (
        JsonlSaver(root, fsync="never", restore_memory="never") as saver,
        JsonlSaver(root, restore_memory="never") as other,
    ):
        for turn in range(4):
            KINDS[kind](saver, turn)
            for thread_id, log in logs(saver).items():
                lines, told = text(log), seen(saver, thread_id)
                assert seen(other, thread_id) == told
                assert saver.pack(thread_id)
                assert is_packed(log)
                assert text(log) == lines
                records(log)
                for reader in (saver, other):
                    assert seen(reader, thread_id) == told
                assert seen_anew(root, thread_id) == told
                with read_by_lines(log):
                    assert seen_anew(root, thread_id) == told
                assert not saver.pack(thread_id)
                assert not other.pack(thread_id)
                assert text(log) == lines
                assert [file.name for file in log.parent.iterdir()] == [log.name]


def test_packing_makes_a_long_log_a_fraction_of_its_size(root: Path) -> None:
    """What costs a frame for each commit is evened out."""
    with JsonlSaver(root, fsync="never") as saver:
        for place in range(200):
            put(saver, at(place), {"messages": [HumanMessage(f"m {n}", id=str(n)) for n in range(place)]}, step=place)
        log = saver.path("t")
        before = log.stat().st_size
        saver.pack("t")
        assert log.stat().st_size < before / 2


def test_packing_does_not_make_a_thread_the_latest(root: Path) -> None:
    """`sessions` names the last changed first: whoever packs an old thread has not gone on with it."""
    with JsonlSaver(root, fsync="never") as saver:
        for name in ("old", "new"):
            put(saver, at(1), {"n": 1}, thread_id=name)
        os.utime(saver.path("old"), (1e9, 1e9))
        before = list(saver.sessions())
        assert [info.thread_id for info in before] == ["new", "old"]
        saver.pack("old")
        assert list(saver.sessions()) == before


def test_tool_calls_in_every_status_are_told_as_before(place: Place) -> None:
    """Completed, failed, uncertain, asked about, decided: what a hook recorded is folded from packed lines, too."""
    place.crash("create_agent", after=["lookup", "mail"], rounds=[[CHARGE, LOOKUP, MAIL]], raises=["mail"])
    saver = place.saver(restore_memory="never")

    def statuses() -> dict[str, str]:
        told, lines = seen_anew(place.root / "sessions", "t"), text(place.log)
        assert saver.pack("t")
        assert text(place.log) == lines
        assert seen_anew(place.root / "sessions", "t") == told == seen(saver, "t")
        with read_by_lines(place.log):
            assert seen_anew(place.root / "sessions", "t") == told
        return {call.name: call.status for call in told["resume"].tool_calls}

    crashed = statuses()
    assert (crashed["charge"], crashed["lookup"]) == ("uncertain", "completed")
    graph = place.graph("create_agent", rounds=[[CHARGE, LOOKUP, MAIL]], saver=saver)
    assert asked(graph.invoke(None, config("t")))
    assert statuses()["charge"] == "uncertain"
    saver.resolve("t", "charge-1", {"type": "reject"})
    assert statuses()["charge"] == "resolved"
    graph.invoke(None, config("t"))
    assert statuses()["charge"] != "uncertain"
    assert place.effects("charge") == 1


def test_a_call_that_a_live_process_runs_is_running_in_a_packed_log(place: Place) -> None:
    """Packed by another process while a tool runs, the log takes the call's end behind its frames."""
    pid = place.process("create_agent", holds=["charge"])["pid"]
    saver = place.saver(restore_memory="never")
    for _ in range(2):
        assert [call.status for call in saver.resume_state("t").tool_calls] == ["running"]
        saver.pack("t")
        assert is_packed(place.log)
    place.release(pid)
    assert [call.status for call in saver.resume_state("t").tool_calls] == ["completed"]
    told = seen(saver, "t")
    assert saver.pack("t")
    assert seen(saver, "t") == told == seen_anew(place.root / "sessions", "t")
    records(place.log)


def test_a_name_with_lone_surrogates_leaves_a_log_as_it_is(root: Path) -> None:
    """No index can name it: nothing is packed, and all is read."""
    ns = "child\ud800:1"
    with JsonlSaver(root, fsync="never", restore_memory="never") as saver:
        for place in range(3):
            put(saver, at(place), {"n": place, "m": [HumanMessage("\udc80", id="1")]}, ns=ns)
            put(saver, at(place), {"n": place})
        data, told = saver.path("t").read_bytes(), seen(saver, "t")
        assert not saver.pack("t")
        assert saver.path("t").read_bytes() == data
        assert seen(saver, "t") == told == seen_anew(root, "t")
        put(saver, at(7), {"n": 7}, ns=ns)
        assert not saver.pack("t")
    with JsonlSaver(root) as saver:
        assert ids(saver.list(config("t", ns))) == [at(7), at(2), at(1), at(0)]


@pytest.mark.parametrize("where", ["channel", "key", "task", "thread", "value"])
def test_lone_surrogates_that_the_index_does_not_name_are_packed(root: Path, where: str) -> None:
    """A channel, a value, a task or the thread itself may hold them."""
    bad = "bad\ud800"
    thread_id = bad if where == "thread" else "t"
    values = {"channel": {bad: 1}, "key": {"d": {bad: [1] * 200}}, "value": {"v": [bad, bad * 300]}}.get(where, {})
    with JsonlSaver(root, fsync="never", restore_memory="never") as saver:
        put(saver, at(0), {"n": 0, **values}, thread_id=thread_id)
        saver.put_writes(config(thread_id, checkpoint_id=at(0)), [("x", 1)], bad if where == "task" else "task")
        told = seen(saver, thread_id)
        assert saver.pack(thread_id)
        assert seen(saver, thread_id) == told == seen_anew(root, thread_id)


@pytest.mark.usefixtures("small_frames")
def test_an_encrypted_log_is_packed_and_stays_unreadable(root: Path) -> None:
    """Nothing of it stands in the clear, in the index neither, and it can be read with the key alone."""
    with JsonlSaver(root, fsync="never", serde=encrypted(), restore_memory="never") as saver:
        for turn in range(4):
            secrets(saver, turn)
            log = saver.path("secret")
            lines, told = text(log), seen(saver, "secret")
            assert saver.pack("secret")
            assert text(log) == lines
            assert seen(saver, "secret") == told == seen_anew(root, "secret", serde=encrypted())
            index, _ = frames.read(memoryview(parts(log).index), 0)
            for data in (index, lines, log.read_bytes()):
                assert SECRET.encode() not in data


@pytest.mark.usefixtures("small_frames")
@pytest.mark.parametrize("packed", ["before", "between", "both"])
@pytest.mark.parametrize("what", ["prune", "copy", "delete_for_runs"])
def test_a_packed_log_is_rewritten_as_any_other(root: Path, what: str, packed: str) -> None:
    """Pruned, copied, or without some runs: the same comes of a packed log, and it may be packed again."""

    def fill(where: Path) -> JsonlSaver:
        saver = JsonlSaver(where, fsync="never", restore_memory="never")
        for place in range(6):
            values = {"m": [HumanMessage(prose(n, 200), id=str(n)) for n in range(place + 1)], "n": list(range(100))}
            parent = at(place - 1) if place else None
            put(saver, at(place), values, parent=parent, step=place, run_id=f"run {place // 2}")
            saver.put_writes(config(checkpoint_id=at(place)), [("m", [HumanMessage("w", id="w")])], f"t{place}")
        return saver

    def call(saver: JsonlSaver) -> str:
        if what == "copy":
            saver.copy_thread("t", "copy")
            return "copy"
        saver.prune(["t"]) if what == "prune" else saver.delete_for_runs(["run 0", "run 2"])
        return "t"

    def rows(saver: JsonlSaver, thread_id: str) -> list[Any]:
        return [tuple(row) for row in saver.list(config(thread_id))]

    with fill(root / "plain") as plain, fill(root / "packed") as saver:
        if packed in ("before", "both"):
            assert saver.pack("t")
        name = call(saver)
        assert call(plain) == name
        assert rows(saver, name) == rows(plain, name)
        if packed in ("between", "both"):
            lines = text(saver.path(name))
            assert saver.pack(name)
            assert text(saver.path(name)) == lines
            assert rows(saver, name) == rows(plain, name)
        assert tuple(go_on(saver, name)) == tuple(go_on(plain, name))
        assert [r["type"] for r in records(saver.path(name))] == [r["type"] for r in records(plain.path(name))]
        for each in (saver, plain):
            each.prune([name])
        assert rows(saver, name) == rows(plain, name)
    with JsonlSaver(root / "packed") as saver, JsonlSaver(root / "plain") as plain:
        assert rows(saver, name) == rows(plain, name)


def test_there_is_nothing_to_pack_in_a_thread_that_is_not_there(root: Path) -> None:
    """No file and no folder comes of it."""
    with JsonlSaver(root) as saver:
        assert not saver.pack("t")
        put(saver, at(1), {"n": 1})
        saver.delete_thread("t")
        assert not saver.pack("t")
        assert not saver.path("t").parent.exists()


def test_a_torn_end_is_told_of_and_packed(root: Path) -> None:
    """Whoever packs a log with a torn end moves it aside, and says so in the log."""
    log = small(root)
    told = seen_anew(root, "t")
    log.write_bytes(log.read_bytes() + b"torn")
    with JsonlSaver(root, restore_memory="never") as saver:
        assert saver.pack("t")
        assert seen(saver, "t")["rows"] == told["rows"]
    (report,) = [r["recovered"] for r in of_type(log, "open") if "recovered" in r]
    assert (log.parent / report["file"]).read_bytes() == b"torn"
    assert is_packed(log)
    assert [r["file"] for r in seen_anew(root, "t")["resume"].recovered] == [report["file"]]


def test_commits_near_the_largest_size_are_not_packed_into_a_larger_one(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader refuses a frame whose text is larger than a commit may be: no packed frame is."""
    monkeypatch.setattr(frames, "MAX_TEXT", 300_000)
    with JsonlSaver(root, fsync="never") as saver:
        for place in range(4):
            put(saver, at(place), {"text": prose(place, 100_000 if place % 2 else 250_000)})
        rows = [tuple(row) for row in saver.list(config())]
        assert saver.pack("t")
        assert [tuple(row) for row in saver.list(config())] == rows
    with JsonlSaver(root) as saver:
        assert [tuple(row) for row in saver.list(config())] == rows


async def test_a_log_is_packed_beside_an_event_loop(root: Path) -> None:
    """`apack` is `pack`."""
    log = small(root)
    lines = text(log)
    async with JsonlSaver(root, restore_memory="never") as saver:
        told = [tuple(row) async for row in saver.alist(config())]
        assert await saver.apack("t")
        assert not await saver.apack("t")
        assert [tuple(row) async for row in saver.alist(config())] == told
    assert text(log) == lines


def test_a_header_alone_in_its_frame_stays_first(root: Path) -> None:
    """Whoever lists threads reads one small frame of a packed log, too."""
    log = small(root)
    header = records(log)[0]
    with JsonlSaver(root) as saver:
        saver.pack("t")
        (info,) = saver.sessions()
        assert info.thread_id == "t"
    found, _ = frames.read(memoryview(parts(log).header), 0)
    assert found.count(b"\n") == 1
    assert records(log)[0] == header
