"""A few kilobytes that decompress to gigabytes: refused, or read, in bounded memory; and indexes that lie."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from langchain_core.messages import HumanMessage

from hostile.forger import HEADER, checkpoint, commits, frame
from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver, SessionError
from langgraph_jsonl_checkpoint.log import journal, lines, packing
from langgraph_jsonl_checkpoint.sessions import session

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
GIB = 1 << 30
ZEROS = 1 << 17  # bytes of a block

READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
from langgraph_jsonl_checkpoint import JsonlSaver, SessionError
config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
readers = {
    "get_tuple": lambda s: s.get_tuple(config),
    "list": lambda s: list(s.list(None)),
    "sessions": lambda s: list(s.sessions()),
    "resume_state": lambda s: s.resume_state("t"),
    "pack": lambda s: s.pack("t"),
}
for name in sys.argv[3:]:
    with JsonlSaver(sys.argv[1]) as saver:
        try:
            readers[name](saver)
            print("read")
        except SessionError as error:
            print(type(error).__name__, error)
"""
ALL = ("get_tuple", "list", "sessions", "resume_state", "pack")


def read_in(root: Path, memory: int, *readers: str) -> list[str]:
    """What readers say in a process that has so much address space."""
    order = [sys.executable, "-c", READ, str(root), str(memory), *(readers or ALL)]
    done = subprocess.run(order, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def blocks(size: int, first: bytes = b"") -> bytes:
    """A frame that declares `size` bytes and holds `first` and then one letter, a few bytes for each 128 KB."""
    body = frame_header(size)
    left = size
    if first:
        body += (len(first) << 3).to_bytes(3, "little") + first
        left -= len(first)
    while left:
        length = min(left, ZEROS)
        left -= length
        body += (length << 3 | 1 << 1 | (not left)).to_bytes(3, "little") + b"x"
    return body + b"\0\0\0\0"  # a checksum that nobody comes to


def frame_header(size: int) -> bytes:
    """The begin of a frame with a content size of 8 bytes and a checksum."""
    return b"\x28\xb5\x2f\xfd" + bytes([3 << 6 | 1 << 2]) + b"\x58" + size.to_bytes(8, "little")


def put(path: Path, *parts: bytes) -> None:
    """Write a log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(parts))


def test_more_text_than_may_be_held_is_an_error_that_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sound commits, of which only the first ones fit; the same in packed frames, which are not held, is read."""
    monkeypatch.setattr(journal, "MAX_LOOSE", 5 << 20)
    path = tmp_path / "default" / "t" / "session.jsonl.zst"
    big: Any = ("runtime", b'"filler":"' + b"x" * (1 << 20) + b'"')
    parts = [frame(text) for text in commits([[HEADER], [checkpoint(1)], *[[big]] * 6])]
    put(path, *parts)
    with JsonlSaver(tmp_path) as saver:
        with pytest.raises(CorruptSessionError, match="hold more than") as refusal:
            saver.get_tuple(CONFIG)
        assert (refusal.value.offset, refusal.value.seq) == (sum(map(len, parts[:6])), 6)
        monkeypatch.undo()
        assert saver.pack("t")
        monkeypatch.setattr(journal, "MAX_LOOSE", 5 << 20)
    with JsonlSaver(tmp_path) as saver:
        assert saver.get_tuple(CONFIG).checkpoint["channel_values"] == {"v": 1}


def test_a_saver_packs_before_it_has_written_more_than_may_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text that compresses well fills no file: its bytes in memory count, and a long run never comes to the bound."""
    monkeypatch.setattr(session, "_LOOSEST", 1 << 20)
    monkeypatch.setattr(session.Session, "_loosest", 1 << 20)
    monkeypatch.setattr(journal, "MAX_LOOSE", 3 << 20)
    with JsonlSaver(tmp_path) as saver:
        for step in range(20):
            made = {"v": 4, "id": f"1f000000-0000-6000-8000-{step:012}", "ts": "2026", "channel_values": {}}
            made |= {"channel_versions": {"v": f"{step}"}, "versions_seen": {}}
            made["channel_values"] = {"v": f"{step}" + "x" * (1 << 19)}
            saver.put(CONFIG, made, {"source": "loop", "step": step}, {"v": f"{step}"})
        with JsonlSaver(tmp_path) as other:
            assert [len(c.checkpoint["channel_values"]["v"]) > 1 << 19 for c in other.list(CONFIG)] == [True] * 20


def test_packed_frames_that_hold_gigabytes_are_read_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read of them stays in memory only up to a bound."""
    monkeypatch.setattr(packing, "_TEXT", 1 << 12)
    path = packed(tmp_path, 40)
    monkeypatch.setattr(lines, "_LOADED", 1 << 14)
    with JsonlSaver(tmp_path) as saver:
        assert len(list(saver.list(CONFIG))) == 40
        with saver._sessions.use("t") as opened:
            assert 0 < opened.lines.held <= 1 << 14
    assert path.stat().st_size < 1 << 18


@pytest.mark.slow
def test_many_frames_that_hold_gigabytes_are_refused_before_they_are_held(tmp_path: Path) -> None:
    """Sound commits of 800 MB, in 80 KB each: an error that says where, with 5 GB of address space."""
    path = tmp_path / "default" / "t" / "session.jsonl.zst"
    big: Any = ("runtime", b'"filler":"' + b"x" * (800 << 20) + b'"')
    parts = [frame(text) for text in commits([[HEADER], [checkpoint(1)], [big], [big], [big]])]
    put(path, *parts)
    assert path.stat().st_size < 1 << 20
    (said,) = read_in(tmp_path, 5 * GIB, "get_tuple")
    assert said.startswith(f"CorruptSessionError {path} is damaged at byte {sum(map(len, parts[:4]))}, record 4")
    assert "hold more than" in said


def test_a_frame_that_declares_more_than_a_commit_may_hold_is_never_decompressed(tmp_path: Path) -> None:
    """8 GB are declared, in 200 KB: with 1 GB of address space each reader stops before it."""
    path = tmp_path / "default" / "t" / "session.jsonl.zst"
    header, first = map(frame, commits([[HEADER], [checkpoint(1)]]))
    put(path, header, first, blocks(8 * GIB))
    assert path.stat().st_size < 1 << 19
    assert read_in(tmp_path, GIB)[:4] == ["read"] * 4
    with JsonlSaver(tmp_path) as saver:
        assert saver.get_tuple(CONFIG).checkpoint["channel_values"] == {"v": 1}


def test_a_header_that_holds_a_gigabyte_is_never_decompressed(tmp_path: Path) -> None:
    """Each listing of the sessions reads all headers."""
    path = tmp_path / "default" / "t" / "session.jsonl.zst"
    put(path, blocks(GIB, b'{"seq":0,"type":"session","ts":"2026-01-01T00:00:00.000Z"'))
    said = read_in(tmp_path, GIB)
    assert [line.split()[0] for line in said] == [
        *("CorruptSessionError", "read", "read", "CorruptSessionError", "CorruptSessionError")
    ]
    assert "more than" in said[0]


def packed(root: Path, count: int = 6) -> Path:
    """A packed log of several frames."""
    with JsonlSaver(root) as saver:
        versions: dict[str, Any] = {}
        config = CONFIG
        for step in range(count):
            versions = {"messages": saver.get_next_version(versions.get("messages"), None)}
            state = {"messages": [HumanMessage(f"{n} " + "x" * 300, id=str(n)) for n in range(step + 1)]}
            made = {"v": 4, "id": f"1f000000-0000-6000-8000-{step:012}", "ts": "2026", "channel_values": state}
            made |= {"channel_versions": versions, "versions_seen": {}}
            config = saver.put(config, made, {"source": "loop", "step": step}, versions)
            saver.put_writes(config, [("messages", [HumanMessage("a write", id="w")])], "task")
        assert saver.pack("t")
        return saver.path("t")


def index_of(path: Path) -> tuple[int, int, Any]:
    """Where the index of a packed log begins and ends, and what it says."""
    data = path.read_bytes()
    begin = data.index(b"\x5a\x2a\x4d\x18")
    end = begin + 8 + int.from_bytes(data[begin + 4 : begin + 8], "little")
    return begin, end, json.loads(zstandard.ZstdDecompressor().decompress(data[begin + 8 : end]))


def with_index(path: Path, content: bytes) -> None:
    """Put another index in the place of a packed log's."""
    data = path.read_bytes()
    begin, end, _ = index_of(path)
    skippable = b"\x5a\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content
    path.write_bytes(data[:begin] + skippable + data[end:])


def test_an_index_that_holds_a_gigabyte_is_passed_over(tmp_path: Path) -> None:
    """The lines are read instead; with 1 GB of address space."""
    path = packed(tmp_path)
    with_index(path, blocks(900 << 20, b'{"packed":['))
    assert read_in(tmp_path, GIB, "get_tuple") == ["read"]
    with JsonlSaver(tmp_path) as saver:
        assert len(saver.get_tuple(CONFIG).checkpoint["channel_values"]["messages"]) == 6
        assert saver.pack("t")
        assert len(list(saver.list(CONFIG))) == 6


def _changed(tree: Any, source: random.Random) -> Any:
    """A tree with one leaf, or one branch, that says something else."""
    if isinstance(tree, dict) and tree and source.random() < 0.9:
        key = source.choice(list(tree))
        return {**tree, key: _changed(tree[key], source)}
    if isinstance(tree, list) and tree and source.random() < 0.9:
        at = source.randrange(len(tree))
        return [*tree[:at], _changed(tree[at], source), *tree[at + 1 :]]
    if isinstance(tree, int) and source.random() < 0.7:
        return tree + source.choice((-1, 1, -(10**6), 10**6, 10**18, -(10**18)))
    return source.choice((None, -1, 0, 1, 3, 10**9, 2**63, -(2**63), "", "x", [], [-1], {}, [[]], True, 1.5))


def test_an_index_that_lies_is_an_error_or_is_passed_over(tmp_path: Path) -> None:
    """600 lies, one at a time: no other exception, no endless reading, and no message that was never stored."""
    path = packed(tmp_path)
    data, (_, _, index) = path.read_bytes(), index_of(path)
    source = random.Random(5)
    refused = 0
    for _ in range(600):
        with_index(path, frame(json.dumps(_changed(index, source)).encode()))
        with JsonlSaver(tmp_path) as saver:
            try:
                for found in (saver.get_tuple(CONFIG), *saver.list(CONFIG)):
                    messages = [] if found is None else found.checkpoint["channel_values"].get("messages", [])
                    assert all(m.content == f"{m.id} " + "x" * 300 for m in messages)
                saver.resume_state("t")
            except SessionError as error:
                refused += str(path) in str(error)
        path.write_bytes(data)
    assert refused > 10


def test_damage_before_bombs_is_told_in_bounded_time(tmp_path: Path) -> None:
    """Behind a broken frame the next whole one is looked for; what declares much is not decompressed for ever."""
    path = tmp_path / "default" / "t" / "session.jsonl.zst"
    header, first, second = map(frame, commits([[HEADER], [checkpoint(1)], [checkpoint(2)]]))
    bombs = b"".join(blocks(GIB // 4, b'{"seq":9,"type":"x",') for _ in range(40))
    put(path, header, first, second[:-1] + b"?", bombs)
    begin = time.process_time()
    with JsonlSaver(tmp_path) as saver, pytest.raises(CorruptSessionError) as refusal:
        saver.get_tuple(CONFIG)
    assert refusal.value.offset == len(header) + len(first)
    assert time.process_time() - begin < 20
