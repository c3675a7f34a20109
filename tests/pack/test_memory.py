"""What a packed session holds in memory, and what it reads of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cases.graphs import at, config, prose, put
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.log import logfile, packing

from .layout import index, parts

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 150
TEXT = 8000  # bytes of a packed frame here


@pytest.fixture
def log(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A closed and packed log of a long history: a chat, and a value that is replaced at each step."""
    monkeypatch.setattr(packing, "_TEXT", TEXT)
    messages: list[Any] = []
    with JsonlSaver(root, fsync="never", restore_memory="never") as saver:
        for place in range(STEPS):
            messages = [*messages, (HumanMessage, AIMessage)[place % 2](prose(place, 400), id=str(place))]
            values = {"messages": messages, "scratch": prose(-place, 1500), "n": place}
            put(saver, at(place), values, parent=at(place - 1) if place else None, step=place)
            saver.put_writes(config(checkpoint_id=at(place)), [("messages", messages[-1:])], f"task {place}")
        assert saver.pack("t")
        assert len(index(saver.path("t"))["packed"]) > 20
        return saver.path("t")


class Reads:
    """What is read of logs."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []

    @property
    def bytes(self) -> int:
        """How many bytes."""
        return sum(end - begin for begin, end in self.spans)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Each read from now on."""
    found, read = Reads(), logfile.LogFile.read

    def seen(self: logfile.LogFile, offset: int, end: int) -> bytes:
        data = read(self, offset, end)
        found.spans.append((offset, offset + len(data)))
        return data

    monkeypatch.setattr(logfile.LogFile, "read", seen)
    return found


def held(saver: JsonlSaver) -> int:
    """Bytes of lines in memory."""
    return saver._sessions.peek("t").lines.held


def text_size(log: Path) -> int:
    """Bytes of all lines."""
    from cases.logs import text

    return len(text(log))


def test_a_packing_gives_the_lines_memory_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wrote a long history and packs it holds none of its lines; whoever goes on, what is new."""
    monkeypatch.setattr(packing, "_TEXT", TEXT)
    with JsonlSaver(root, fsync="never", restore_memory="never") as saver:
        for place in range(40):
            put(saver, at(place), {"text": prose(place, 3000)}, parent=at(place - 1) if place else None)
        assert held(saver) > 40 * 3000
        assert saver.pack("t")
        assert held(saver) == 0
        saver.get_tuple(config())
        assert held(saver) < 4 * TEXT
        put(saver, at(50), {"text": prose(50, 3000)})
        assert 3000 < held(saver) < 5 * TEXT


def test_a_newest_checkpoint_reads_each_frame_once(root: Path, log: Path, reads: Reads) -> None:
    """Its messages stand in all of them: each is read once, and no more than the log is held."""
    with JsonlSaver(root, restore_memory="never") as saver:
        found = saver.get_tuple(config())
        assert found.checkpoint["channel_values"]["n"] == STEPS - 1
        assert len(found.checkpoint["channel_values"]["messages"]) == STEPS
        assert held(saver) <= text_size(log)
        assert reads.bytes <= log.stat().st_size + (1 << 16)
        assert len(reads.spans) == len(set(reads.spans))


def test_an_early_checkpoint_is_read_of_few_frames(root: Path, log: Path, reads: Reads) -> None:
    """The fifth of 150 checkpoints: the index, and two or three frames."""
    begin = len(parts(log).header) + len(parts(log).index) + 8
    with JsonlSaver(root, restore_memory="never") as saver:
        found = saver.get_tuple(config("t", "", at(4)))
        assert found.checkpoint["channel_values"]["scratch"] == prose(-4, 1500)
        assert [m.id for m in found.checkpoint["channel_values"]["messages"]] == [str(n) for n in range(5)]
        frames = {span for span in reads.spans if span[0] >= begin}
        assert len(frames) <= 3
        assert held(saver) <= 4 * (TEXT + 4000)
        assert saver.get_tuple(config("t", "", at(4))) == found
        assert {span for span in reads.spans if span[0] >= begin} == frames, "what was read is not read again"


def test_a_frame_is_read_once(root: Path, log: Path, reads: Reads) -> None:
    """All checkpoints, one by one, forwards and backwards: what is held is what the lines are, and no more."""
    with JsonlSaver(root, restore_memory="never") as saver:
        for place in [*range(0, STEPS, 10), *range(STEPS - 1, -1, -10)]:
            assert saver.get_tuple(config("t", "", at(place))).checkpoint["channel_values"]["n"] == place
        assert len(list(saver.list(config()))) == STEPS
        assert held(saver) <= text_size(log)
        assert len(reads.spans) == len(set(reads.spans))
        assert reads.bytes <= 2 * log.stat().st_size + (1 << 17)


def test_a_walk_over_all_lines_keeps_none(root: Path, log: Path) -> None:
    """The session memory is derived from every line; they do not stay for it."""
    with JsonlSaver(root, restore_memory="never") as saver:
        with saver._sessions.use("t") as session:
            session.refresh()
            assert sum(1 for _ in session.lines.since(0)) == session.lines.next
        assert held(saver) == 0
        assert saver.accepts("t", "input")
        assert held(saver) == 0
    assert log.exists()


def test_listing_a_few_reads_a_few(root: Path, log: Path, reads: Reads) -> None:
    """The thread is not read as a whole to know whether it exists or which ids it has."""
    size = log.stat().st_size
    with JsonlSaver(root, restore_memory="never") as saver:
        assert saver.get_tuple(config("t", "other")) is None
        assert saver.get_tuple(config("t", "", at(9999))) is None
        assert reads.bytes < size / 2
        (row,) = saver.list(config("t", "", at(2)))
        assert row.metadata["step"] == 2
        assert reads.bytes < size / 2


def test_a_thread_that_grows_and_is_packed_is_not_packed_anew_as_a_whole(
    root: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full frames stay as they are: packing costs what is new, and the last frame."""
    frames, told = parts(log).frames, index(log)["packed"]
    made: list[int] = []
    compress = packing.frames.compress
    monkeypatch.setattr(packing.frames, "compress", lambda t, level=1: made.append(len(t)) or compress(t, level))
    with JsonlSaver(root, fsync="never", restore_memory="never") as saver:
        put(saver, at(STEPS), {"n": STEPS}, parent=at(STEPS - 1))
        made.clear()
        assert saver.pack("t")
    kept = told[-2][1]
    assert parts(log).frames[:kept] == frames[:kept]
    index_text = max(made)
    assert sum(made) - index_text < 3 * TEXT or len(made) <= 3


def test_a_resume_costs_what_the_state_needs_and_not_what_the_log_holds(
    root: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """openai/codex#28866: of a long log whose values were replaced again and again, little is read and held."""
    monkeypatch.setattr(packing, "_TEXT", TEXT)
    with JsonlSaver(root, fsync="never", restore_memory="never") as saver:
        for place in range(2 * STEPS):
            put(
                saver, at(place), {"scratch": prose(place, 1500)}, parent=at(place - 1) if place else None, step=place
            )
        saver.pack("t")
        log = saver.path("t")
    reads.spans.clear()
    with JsonlSaver(root, restore_memory="never") as saver:
        found = saver.get_tuple(config())
        assert found.checkpoint["channel_values"] == {"scratch": prose(2 * STEPS - 1, 1500)}
        assert held(saver) <= 2 * TEXT
        begin = log.stat().st_size - len(parts(log).frames)  # with the index, which knows each checkpoint's place
        assert reads.bytes <= (1 << 16) + begin + TEXT
        assert text_size(log) > 30 * held(saver)
