"""Tamper evidence: what a chain shows by itself, what a key adds, and what only an anchor outside shows."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from values.thread import Thread

from damage.scene import Log, committed, compressed
from langgraph_jsonl_checkpoint import ChainKeyError, CorruptSessionError, Head, JsonlSaver, NoSessionError
from langgraph_jsonl_checkpoint.log.local import LogFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CONFIG = {"configurable": {"thread_id": "thread"}}
KEY = b"a secret of the user's"


@pytest.fixture(params=[None, KEY], ids=["no key", "a key"])
def thread(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Thread]:
    """A thread of eight commits."""
    with Thread(tmp_path, fsync="never", chain_key=request.param) as thread:
        for number in range(4):
            thread.step({"number": number, "text": f"{number}" * 300})
            thread.write([("text", f"write {number}")], task_id=f"task {number}")
        yield thread


def log_of(thread: Thread) -> Log:
    """The log as it is now."""
    return Log(thread.saver.path("thread").read_bytes())


def first_problem(thread: Thread, data: bytes) -> int | None:
    """The seq of the first problem that a new saver finds in other bytes; None if it finds none."""
    path, was = thread.saver.path("thread"), thread.saver.path("thread").read_bytes()
    path.write_bytes(data)
    with JsonlSaver(thread.root, chain_key=thread.options["chain_key"]) as saver:
        report = saver.verify("thread")
    path.write_bytes(was)
    return report.problems[0].seq if report.problems else None


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_log_that_nobody_touched_has_no_problem(thread: Thread, is_packed: bool) -> None:
    """And it ends where its saver says that it ends."""
    if is_packed:
        thread.saver.pack("thread")
        thread.step({"number": 4})
    report = thread.saver.verify("thread", head=thread.saver.head("thread"))
    assert report.ok
    assert report.head == thread.saver.head("thread")
    assert report.records == report.head.seq + 1 == len(thread.records())
    assert "good" in str(report)
    assert pickle.loads(pickle.dumps(report)) == report


def test_every_commit_that_is_removed_changed_doubled_or_moved_is_found(thread: Thread) -> None:
    """Each commit but the last, in each way, with checksums that fit."""
    log = log_of(thread)
    every = log.numbers
    assert first_problem(thread, log.data) is None
    for n in every[1:]:
        if n != every[-1]:
            assert first_problem(thread, log.with_frames([m for m in every if m != n])) == log.seq(n)
            swapped = [*every[:n], n + 1, n, *every[n + 2 :]]
            assert first_problem(thread, log.with_frames(swapped)) == log.seq(n)
        changed = compressed(log.texts[n].replace(b'"ts":"2', b'"ts":"3', 1))
        assert first_problem(thread, log.with_frames([*every[:n], changed, *every[n + 1 :]])) == log.seq(n)
        doubled = log.with_frames([*every[: n + 1], n, *every[n + 1 :]])
        assert first_problem(thread, doubled) == (log.seqs[n + 1] if n + 1 < len(log.seqs) else log.next)


def test_every_changed_commit_of_a_packed_log_is_found(thread: Thread) -> None:
    """Within one packed frame, whose checksum fits, and an index that says what it said."""
    before = log_of(thread)
    thread.saver.pack("thread")
    log = log_of(thread)
    index = log.data[: log.begin(1) + 8 + int.from_bytes(log.data[log.begin(1) + 4 : log.begin(1) + 8], "little")]
    for seq in range(1, before.next):
        text = log.texts[1].replace(b'{"seq":%d,"type"' % seq, b'{"seq":%d,"tyPe"' % seq, 1)
        found = first_problem(thread, index + compressed(text))
        assert found is not None
        assert found <= seq


def rewritten(log: Log, n: int, key: bytes = b"") -> bytes:
    """A log whose `n`-th commit says something else, and whose chain fits from there on, for whoever has the key."""
    made, digest = [], b""
    for at, text in enumerate(log.texts):
        lines = text.splitlines()
        lines[-1] = lines[-1][: lines[-1].rindex(b',"chain":"')] + b"}"
        if at == n:
            lines[0] = lines[0].replace(b'"ts":"2', b'"ts":"3', 1)
        if at < n and at in log.numbers:
            made.append(log.frame(at))
            digest = bytes.fromhex(json.loads(text.splitlines()[-1])["chain"])
            continue
        frame, digest = committed(lines, digest, key)
        made.append(frame)
    return b"".join(made)


def test_a_chain_that_was_made_anew_is_found_with_a_key_or_an_anchor(thread: Thread) -> None:
    """Without both, whoever can write the file can write another history: the docs say so."""
    log, head = log_of(thread), thread.saver.head("thread")
    forged = rewritten(log, 4)
    has_key = thread.options["chain_key"] is not None
    assert first_problem(thread, forged) == (log.seq(4) if has_key else None)
    thread.saver.path("thread").write_bytes(forged)
    with JsonlSaver(thread.root, chain_key=thread.options["chain_key"]) as saver:
        assert not saver.verify("thread", head=head).ok


def test_a_cut_end_is_found_with_an_anchor_and_only_with_one(thread: Thread) -> None:
    """A log that ends earlier is a log; it lacks the commit that was noted elsewhere."""
    log, head = log_of(thread), thread.saver.head("thread")
    cut = log.data[: log.begin(-1)]
    assert first_problem(thread, cut) is None
    thread.saver.path("thread").write_bytes(cut)
    with JsonlSaver(thread.root, chain_key=thread.options["chain_key"]) as saver:
        report = saver.verify("thread", head=head)
        assert [problem.seq for problem in report.problems] == [head.seq]
        assert "ends before record" in report.problems[0].reason


def test_a_commit_that_is_being_written_is_no_problem(thread: Thread) -> None:
    """With a torn end it waits for whoever holds the lock; without one it waits for nobody."""
    path = thread.saver.path("thread")
    log = log_of(thread)
    whole, cut = log.data, log.begin(-1) + 20
    writer = LogFile(str(path))
    try:
        assert writer.lock() == len(whole)
        assert thread.saver.verify("thread").ok
        writer.truncate(cut)
        with ThreadPoolExecutor() as pool:
            report = pool.submit(thread.saver.verify, "thread")
            with pytest.raises(TimeoutError):
                report.result(timeout=0.2)
            writer.write(whole[cut:], cut)
            writer.unlock()
            assert report.result(timeout=30).ok
    finally:
        writer.unlock()
        writer.close()


def test_an_anchor_holds_while_the_log_goes_on_and_is_packed(thread: Thread) -> None:
    """A head stands for all before it, and for nothing behind; `prune` writes a new log that has it no more."""
    heads = []
    for number in range(4, 7):
        heads.append(thread.saver.head("thread"))
        thread.step({"number": number})
    thread.saver.pack("thread")
    for head in heads:
        assert thread.saver.verify("thread", head=head).ok
        assert not thread.saver.verify("thread", head=Head(head.seq, "0" * 32)).ok
        assert not thread.saver.verify("thread", head=Head(head.seq + 1, head.chain)).ok
    thread.saver.prune(["thread"])
    assert thread.saver.verify("thread").ok
    assert "prune" in thread.saver.verify("thread", head=heads[0]).problems[0].reason


CALLS: dict[str, Callable[[JsonlSaver], Any]] = {
    "read": lambda saver: saver.get_tuple(CONFIG),
    "write": lambda saver: saver.put_writes(
        {"configurable": {"thread_id": "thread", "checkpoint_ns": "", "checkpoint_id": "x"}}, [("a", 1)], "t"
    ),
    "pack": lambda saver: saver.pack("thread"),
    "prune": lambda saver: saver.prune(["thread"]),
    "copy": lambda saver: saver.copy_thread("thread", "copy"),
    "head": lambda saver: saver.head("thread"),
    "salvage": lambda saver: saver.salvage("thread", "saved"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("other", [None, b"another"], ids=["without one", "with another"])
def test_a_log_is_neither_read_nor_continued_with_another_key(
    thread: Thread, other: bytes | None, is_packed: bool, call: str
) -> None:
    """Nor one without a key by a saver that has one; the error says so, and the log is as it was."""
    if is_packed:
        thread.saver.pack("thread")
    mine = thread.options["chain_key"]
    data = thread.saver.path("thread").read_bytes()
    with JsonlSaver(thread.root, chain_key=other) as saver:
        if other == mine:
            CALLS[call](saver)
            return
        with pytest.raises(ChainKeyError, match="chain_key") as caught:
            CALLS[call](saver)
        assert caught.value.path == str(thread.saver.path("thread"))
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
        report = saver.verify("thread")
        assert [(problem.offset, problem.seq) for problem in report.problems] == [(0, 0)]
        assert "chain_key" in report.problems[0].reason
        assert list(saver.list(None)) == []
    assert thread.saver.path("thread").read_bytes() == data
    assert [file.name for file in thread.saver.path("thread").parent.iterdir()] == ["session.jsonl.zst"]


def test_a_key_is_the_key_of_every_commit_that_anything_writes(tmp_path: Path) -> None:
    """Appended, closed, rewritten, copied, salvaged: a saver with the key finds nothing wrong."""
    with Thread(tmp_path, chain_key=KEY) as thread:
        for number in range(3):
            thread.step({"number": number}, metadata={"run_id": f"run {number}"})
        thread.saver.copy_thread("thread", "copy")
        thread.saver.salvage("thread", "saved")
        thread.saver.delete_for_runs(["run 0"])
        thread.step({"number": 3})
    with JsonlSaver(tmp_path, chain_key=KEY) as saver:
        for name in ("thread", "copy", "saved"):
            assert saver.verify(name).ok
    with JsonlSaver(tmp_path) as saver:
        assert not any(saver.verify(name).ok for name in ("thread", "copy", "saved"))


@pytest.mark.parametrize("key", [b"", b"x" * 65, "text", 7])
def test_a_key_is_one_to_64_bytes(tmp_path: Path, key: Any) -> None:
    """BLAKE2b takes no more; an empty one would be none."""
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        JsonlSaver(tmp_path, chain_key=key)


def test_a_thread_without_a_log_has_no_head_and_nothing_to_verify(tmp_path: Path) -> None:
    """Each says so, and makes nothing."""
    with JsonlSaver(tmp_path / "root") as saver:
        for call in (saver.head, saver.verify, lambda name: saver.salvage(name, "other")):
            with pytest.raises(NoSessionError, match=r"session\.jsonl"):
                call("none")
    assert not (tmp_path / "root").exists()


async def test_the_async_ones_say_the_same(thread: Thread) -> None:
    """`ahead`, `averify` and `asalvage` are the others in a worker thread."""
    saver = thread.saver
    head = await saver.ahead("thread")
    assert head == saver.head("thread")
    assert await saver.averify("thread", head=head) == saver.verify("thread")
    assert (await saver.asalvage("thread", "saved")).records == head.seq
    saver.path("thread").write_bytes(b"")
    with pytest.raises(CorruptSessionError):
        await saver.asalvage("thread", "again")


@pytest.mark.parametrize("wrong", ["0:00", ("0", "00"), (0,), (0, b"00")], ids=str)
def test_a_head_that_is_none_is_refused(thread: Thread, wrong: Any) -> None:
    """As the command line prints it, say: the error names what is wanted, and nothing is called damaged."""
    thread.step({"a": 1})
    with pytest.raises(TypeError, match=r"a head is \(seq, chain\)"):
        thread.saver.verify(thread.thread_id, head=wrong)
