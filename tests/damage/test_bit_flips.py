"""One flipped bit, at every place of a small log: it is found, or every line is as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kill.bare import frames
from langchain_core.messages import HumanMessage
from values.thread import Thread

from damage.scene import Log
from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver, SessionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = {"configurable": {"thread_id": "thread"}}


def written(root: Path, kind: str) -> tuple[Path, bytes]:
    """A small log: not packed, packed, or with a commit behind what is packed."""
    with Thread(root, fsync="never") as thread:
        messages: list[Any] = []
        for number in range(2):
            messages = [*messages, HumanMessage(f"message {number} " + "ab" * 20, id=str(number))]
            thread.step({"messages": messages, "files": {f"{number}.py": "x" * 300}})
            thread.write([("messages", messages[-1:])], task_id=f"task {number}")
        if kind != "plain":
            thread.saver.pack("thread")
        if kind == "packed and more":
            thread.step({"messages": messages})
        log = thread.saver.path("thread")
    return log, log.read_bytes()


def flipped(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The offset and the data with one bit changed; each byte is hit three times, at bits that move along."""
    for at in range(len(data)):
        for bit in {at % 8, (at + 3) % 8, (at + 6) % 8}:
            yield at, data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "packed", "packed and more"])
def test_a_flipped_bit_anywhere_is_found_or_changes_no_line(tmp_path: Path, kind: str) -> None:
    """Readers give what was written up to a torn end, or an error; `verify` misses no flip that changes anything."""
    log, data = written(tmp_path, kind)
    lines = [text for _, text in frames(data)]
    last = Log(data).begin(-1) if kind != "packed" else len(data)

    def read() -> list[Any] | SessionError:
        with JsonlSaver(tmp_path, restore_memory="never") as saver:
            try:
                return [(each.checkpoint, each.metadata, each.pending_writes) for each in saver.list(CONFIG)]
            except SessionError as error:
                return error

    whole = read()
    log.write_bytes(data[:last])
    before = read()
    assert whole
    tried = harmless = 0
    for at, damaged in flipped(data):
        log.write_bytes(damaged)
        found = read()
        with JsonlSaver(tmp_path) as saver:
            ok = saver.verify("thread").ok
        tried += 1
        if ok:
            # zstd has bits that mean nothing, and texts that can be said in two ways.
            assert [text for _, text in frames(damaged)] == lines, at
            assert found == whole
            harmless += 1
        elif isinstance(found, SessionError):
            assert type(found) is CorruptSessionError
            assert (found.path, found.offset <= at) == (str(log), True)
        else:
            assert found == (before if at >= last else whole), at  # a torn end, or an index that is not needed
    assert harmless < tried / 50
