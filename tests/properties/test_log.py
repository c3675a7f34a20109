"""Whatever happens to a log's bytes, it gives what was committed or says what is wrong; never other data."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from values.thread import Thread

from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver, SessionError
from langgraph_jsonl_checkpoint.log import journal

if TYPE_CHECKING:
    from collections.abc import Iterator

# Logs of the same commits differ by some bytes (times, writers), so places in them are drawn as shares.
shares = st.floats(0, 1) | st.sampled_from([0.0, 1.0])
LIMITS = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])

texts = st.text(max_size=12) | st.builds(lambda s, n: s * n, st.text(min_size=1, max_size=6), st.integers(50, 400))
commits = st.lists(st.tuples(st.booleans(), texts), min_size=1, max_size=6)


class Log:
    """A thread's log, where each of its commits ends, and what a reader must find behind each."""

    def __init__(self, thread: Thread, made: list[tuple[bool, str]]) -> None:
        self.ends: list[int] = []
        self.states: list[list[Any]] = []
        messages: list[Any] = []
        for number, (is_put, text) in enumerate(made):
            messages = [*messages, HumanMessage(f"{number} {text}", id=str(number))]
            if is_put or not thread.configs:
                thread.step({"messages": messages, "text": text})
            else:
                thread.write([("messages", messages[-1:]), ("text", text)], task_id=f"task {number}")
            self.ends.append(thread.size())
            self.states.append(everything(thread.saver, thread.thread_id))
        self.path = thread.saver.path(thread.thread_id)
        self.data = self.path.read_bytes()

    def before(self, offset: int) -> list[Any]:
        """What is in the commits that lie whole before an offset."""
        whole = [state for end, state in zip(self.ends, self.states, strict=True) if end <= offset]
        return whole[-1] if whole else []


def everything(saver: JsonlSaver, thread_id: str) -> list[Any]:
    """All that can be read of a thread."""
    config = {"configurable": {"thread_id": thread_id}}
    return [(t.config, t.checkpoint, t.metadata, t.parent_config, t.pending_writes) for t in saver.list(config)]


def read(root: Path) -> tuple[list[Any] | None, SessionError | None]:
    """What a saver that has seen nothing before reads, or its error."""
    with JsonlSaver(root) as saver:
        try:
            return everything(saver, "thread"), None
        except SessionError as error:
            return None, error


@contextlib.contextmanager
def a_log(made: list[tuple[bool, str]]) -> Iterator[tuple[Path, Log]]:
    """A closed log on disk."""
    with tempfile.TemporaryDirectory() as root:
        with Thread(Path(root), fsync="never") as thread:
            log = Log(thread, made)
        yield Path(root), log


def goes_on(root: Path, before: list[Any]) -> None:
    """Append ten commits, read them all, and the ones before."""
    with Thread(root, fsync="never") as thread:
        # Ids that sort behind those of the damaged log.
        number = 100 + len(before)
        thread.configs = [{"configurable": {"thread_id": "thread", "checkpoint_ns": ""}}] * number
        for n in range(10):
            thread.step({"n": n})
        thread.reopen()
        found = everything(thread.saver, "thread")
    assert [t[1]["channel_values"] for t in found[:10]] == [{"n": n} for n in reversed(range(10))]
    assert found[10:] == before


@LIMITS
@given(commits, shares, st.sampled_from([b"", bytes(7), bytes(5000), b"\x28\xb5\x2f\xfd", b"garbage" * 9]))
def test_a_log_cut_anywhere_gives_every_commit_before_the_cut(made: list, share: float, tail: bytes) -> None:
    """A writer died, or the disk lost the end: what was whole is there, the rest is not, and it goes on."""
    with a_log(made) as (root, log):
        cut = int(share * len(log.data))
        log.path.write_bytes(log.data[:cut] + tail)
        first = log.ends[0]
        if cut < first:
            # Header and first commit are created together, so no writer leaves this: any answer will do.
            assert read(root)[0] in ([], None)
            return
        assert read(root) == (log.before(cut), None)
        goes_on(root, log.before(cut))


@LIMITS
@given(commits, shares, st.integers(0, 7))
def test_a_flipped_bit_is_found(made: list, share: float, bit: int) -> None:
    """In the last commit it is a torn end; before it, an error that says where; in no case another value."""
    with a_log(made) as (root, log):
        at = int(share * (len(log.data) - 1))
        changed = bytearray(log.data)
        changed[at] ^= 1 << bit
        log.path.write_bytes(changed)
        found, error = read(root)
        if isinstance(error, CorruptSessionError):
            # It names the begin of the frame that holds the bit.
            assert error.offset <= at
            assert not any(error.offset < end <= at for end in log.ends)
        elif error is not None:
            # The header's text: another format, version or thread.
            assert at < log.ends[0]
        elif found != log.states[-1]:  # zstd has bits that mean nothing
            assert found == log.before(at)
            assert at >= [0, *log.ends][-2]


@LIMITS
@given(commits, shares, shares, st.sampled_from(["hole", "double", "zeros", "swap"]))
def test_bytes_lost_or_put_in_are_found(made: list, one: float, two: float, kind: str) -> None:
    """A hole, a doubled stretch, a run of NUL bytes, two commits swapped: what is read was committed."""
    with a_log(made) as (root, log):
        behind = len(log.data) - log.ends[0]
        begin, end = sorted(log.ends[0] + int(share * behind) for share in (one, two))
        middle = log.data[begin:end]
        changed = {
            "hole": log.data[:begin] + log.data[end:],
            "double": log.data[:end] + middle + log.data[end:],
            "zeros": log.data[:begin] + bytes(len(middle)) + log.data[end:],
            "swap": log.data[:begin] + log.data[end:] + middle,
        }[kind]
        log.path.write_bytes(changed)
        intact = next((i for i, (a, b) in enumerate(zip(changed, log.data, strict=False)) if a != b), None)
        intact = min(len(changed), len(log.data)) if intact is None else intact
        found, error = read(root)
        if error is not None:
            assert isinstance(error, CorruptSessionError)
            assert error.offset in log.ends
        else:
            assert found == log.before(intact)


lines = st.lists(st.integers(0, 50).map(lambda n: b"x" * n), min_size=1, max_size=4)


@LIMITS
@given(st.lists(lines, min_size=1, max_size=6), st.data())
def test_commits_are_followed_from_any_position(groups: list[list[bytes]], data: st.DataObject) -> None:
    """`follow` gives the lines that `commit` was given, from the begin or from behind any commit."""
    positions, texts, made = [journal.Position()], [], b""
    for group in groups:
        seq = positions[-1].seq
        texts.append([b'{"seq":%d,"type":"t","x":"%s"}' % (seq + i, x) for i, x in enumerate(group)])
        frame, position = journal.commit(positions[-1], texts[-1])
        made += frame
        positions.append(position)
        assert position.offset == len(made)
    start = data.draw(st.integers(0, len(groups)), label="start")
    found = journal.follow(made[positions[start].offset :], positions[start])
    assert (found.position, found.problem) == (positions[-1], None)
    assert found.frames == [(position.seq, position.offset) for position in positions[start:-1]]
    assert found.lines == [journal.Line("t", text) for group in texts[start:] for text in group]
    wrong = data.draw(st.integers(0, len(groups)), label="wrong position")
    if positions[wrong].chain != positions[start].chain and start < len(groups):
        problem = journal.follow(made[positions[start].offset :], positions[wrong]).problem
        assert problem is not None
        assert not problem.torn
