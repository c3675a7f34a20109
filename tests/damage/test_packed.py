"""Damage to a packed log: its index may be missed, its frames may not."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import zstandard
from values.thread import Thread

from damage.scene import Log, compressed, skippable
from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG = {"configurable": {"thread_id": "thread"}}


class Packed(NamedTuple):
    """A packed log of several frames, and commits behind them."""

    root: Path
    path: Path
    data: bytes
    frames: list[int]  # where each frame begins, the index among them, and the end
    seqs: list[int]
    whole: list[Any]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """Several packed frames, and two commits."""
    root = tmp_path_factory.mktemp("packed")
    noise = random.Random(7)
    with Thread(root, fsync="never") as thread:
        for number in range(9):
            thread.step({"text": noise.randbytes(60_000).hex(), "number": number})
        thread.saver.pack("thread")
        packed = Log(thread.saver.path("thread").read_bytes())
        thread.step({"number": 7})
        thread.write([("number", 8)])
        path = thread.saver.path("thread")
        data = path.read_bytes()
        assert len(packed.texts) >= 4
        return Packed(root, path, data, Log(data).ends, Log(data).seqs, read(root))


def read(root: Path) -> list[Any]:
    """All that a new saver reads."""
    with JsonlSaver(root, restore_memory="never") as saver:
        return list(saver.list(CONFIG))


def index_of(log: Packed) -> tuple[int, int]:
    """Where the index begins and ends."""
    begin = log.frames[1]
    return begin, begin + 8 + int.from_bytes(log.data[begin + 4 : begin + 8], "little")


def _changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def _in_the_index(log: Packed) -> bytes:
    return _changed(log.data, sum(index_of(log)) // 2, bytes(8))


def _without_index(log: Packed) -> bytes:
    begin, end = index_of(log)
    return log.data[:begin] + log.data[end:]


def _index_of_nothing(log: Packed) -> bytes:
    begin, end = index_of(log)
    return log.data[:begin] + skippable(b"nothing") + log.data[end:]


def _length(change: Callable[[int], int]) -> Callable[[Packed], bytes]:
    def make(log: Packed) -> bytes:
        begin, end = index_of(log)
        return _changed(log.data, begin + 4, change(end - begin - 8).to_bytes(4, "little"))

    return make


READ_WITHOUT = {"zeros in the index": _in_the_index, "an index of nothing": _index_of_nothing}
FOUND: dict[str, tuple[Callable[[Packed], bytes], int]] = {
    "the index is too short": (_length(lambda n: n - 1), 1),
    "the index is too long": (_length(lambda n: n + 1), 1),
    "the index reaches behind the end": (_length(lambda _: 0xFFFFFFF0), 1),
    "the index reaches to the end": (lambda log: _length(lambda _: len(log.data) - index_of(log)[0] - 8)(log), 1),
    "the index covers the first packed frame": (
        lambda log: _length(lambda _: log.frames[2] - index_of(log)[0] - 8)(log),
        1,
    ),
    "the index's magic is damaged": (lambda log: _changed(log.data, index_of(log)[0], b"\0"), 1),
    "cut in the last packed frame": (lambda log: log.data[: log.frames[-3] - 9], -3),
    "cut in the first packed frame": (lambda log: log.data[: log.frames[2] - 9], 1),
    "cut in the index": (lambda log: log.data[: index_of(log)[1] - 9], 1),
    "cut behind the header": (lambda log: log.data[: log.frames[1]], 0),
    "zeros in the second packed frame": (lambda log: _changed(log.data, log.frames[2] + 99, bytes(99)), 2),
}


@pytest.mark.parametrize("name", READ_WITHOUT)
def test_a_damaged_index_is_not_needed(written: Packed, tmp_path: Path, name: str) -> None:
    """The lines are read instead; `verify` says that it is damaged, and packing makes a new one."""
    written.path.write_bytes(READ_WITHOUT[name](written))
    assert read(written.root) == written.whole
    with JsonlSaver(written.root) as saver:
        report = saver.verify("thread")
        assert [(p.offset, p.seq) for p in report.problems] == [(index_of(written)[0], 1)]
        assert "index" in report.problems[0].reason
        assert saver.pack("thread")
        assert saver.verify("thread").ok
    assert read(written.root) == written.whole


@pytest.mark.parametrize("name", FOUND)
def test_no_damage_hides_a_packed_frame(written: Packed, name: str) -> None:
    """A packed log has its place only when it is whole, so nothing of it is ever taken for a torn end."""
    make, _ = FOUND[name]
    data = make(written)
    written.path.write_bytes(data)
    if name == "cut behind the header":
        # What is left is a log without a commit. Only an anchor outside tells.
        assert read(written.root) == []
        return
    calls: list[Callable[[JsonlSaver], Any]] = [lambda s: list(s.list(CONFIG)), lambda s: s.prune(["thread"])]
    if "in the second" not in name:  # which neither of them reads
        calls.append(lambda s: s.head("thread"))
        calls.append(lambda s: s.put_writes(written.whole[0].config, [("number", 9)], "another task"))
    for call in calls:
        with JsonlSaver(written.root) as saver, pytest.raises(CorruptSessionError) as caught:
            call(saver)
        assert caught.value.path == str(written.path)
        assert written.path.read_bytes() == data
        assert [file.name for file in written.path.parent.iterdir()] == [written.path.name]
    with JsonlSaver(written.root) as saver:
        assert not saver.verify("thread").ok
        saver.delete_thread("saved")
        if name in ("cut in the first packed frame", "cut in the index"):
            with pytest.raises(CorruptSessionError, match="no record"):
                saver.salvage("thread", "saved")
            return
        report = saver.salvage("thread", "saved")
        assert report.lost
        assert saver.verify("saved").ok
        found = [(t.checkpoint, t.metadata) for t in saver.list({"configurable": {"thread_id": "saved"}})]
        whole = [(t.checkpoint, t.metadata) for t in written.whole]
        assert [each for each in whole if each in found] == found


def test_the_commits_of_a_damaged_packed_frame_are_salvaged_up_to_the_damage(written: Packed) -> None:
    """Their digests hold them, though the frame's checksum does not."""
    at = written.frames[3] - 2000  # near the end of the second packed frame
    written.path.write_bytes(_changed(written.data, at, bytes(500)))
    with JsonlSaver(written.root) as saver:
        saver.delete_thread("saved")
        report = saver.salvage("thread", "saved")
        ((first, last),) = report.missing  # the index ties what stands behind to the log
        assert written.seqs[2] < first <= last < written.seqs[3]
        assert report.unchecked == ()
        assert saver.verify("saved").ok


def _told(log: Packed, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """The log with an index that says something else, whole and with a checksum that fits."""
    begin, end = index_of(log)
    index = json.loads(zstandard.ZstdDecompressor().decompress(log.data[begin + 8 : end]))
    change(index)
    return log.data[:begin] + skippable(compressed(json.dumps(index).encode())) + log.data[end:]


def _put(*keys: Any, value: Any) -> Callable[[dict[str, Any]], Any]:
    def change(index: dict[str, Any]) -> None:
        at: Any = index
        for key in keys[:-1]:
            at = at[key]
        at[keys[-1]] = value

    return change


LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another writer": _put("contents", "runs", "writer", value="00000000"),
    "a hook that was not there": lambda index: index["contents"]["runs"]["hooks"].update(dict.fromkeys("x", True)),
    "a number elsewhere": lambda index: index["contents"]["numbers"]["seqs"].reverse(),
    "no checkpoints": _put("contents", "places", value={}),
    "an input that was applied": _put("contents", "places", "inputs", value=["job-7"]),
    "no folds": _put("contents", value={"places": 7}),
    "another digest before a frame": lambda index: index["packed"][1].__setitem__(3, "00" * 16),
    "another digest behind them": lambda index: index["behind"].__setitem__(2, "00" * 16),
    "another seq behind them": lambda index: index["behind"].__setitem__(1, index["behind"][1] - 1),
    "fewer frames": lambda index: index.update(behind=[(last := index["packed"].pop())[0], *last[2:]]),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_index_that_says_something_else_than_the_lines_is_a_problem(written: Packed, lie: str) -> None:
    """Whoever writes an index that fits the format is found by whoever reads the lines."""
    written.path.write_bytes(_told(written, lambda index: index))
    with JsonlSaver(written.root) as saver:
        assert saver.verify("thread").ok, "what the forger leaves alone passes"
    written.path.write_bytes(_told(written, LIES[lie]))
    with JsonlSaver(written.root) as saver:
        report = saver.verify("thread")
    assert [(problem.offset, problem.seq) for problem in report.problems] == [(index_of(written)[0], 1)]
    assert "index" in report.problems[0].reason


@pytest.mark.parametrize("change", ["version alone", "and its folds"])
def test_an_index_of_another_release_is_no_problem_and_is_not_used(written: Packed, change: str) -> None:
    """Its folds may say something else of the same lines: readers read the lines, and a packing replaces it."""

    def other(index: dict[str, Any]) -> None:
        index["contents"]["version"] -= 1
        if change == "and its folds":
            index["contents"]["places"] = {"somewhere": "else"}

    with JsonlSaver(written.root) as saver:
        state = saver.resume_state("thread")
    written.path.write_bytes(_told(written, other))
    with JsonlSaver(written.root) as saver:
        assert saver.verify("thread").ok
        assert saver.resume_state("thread") == state
