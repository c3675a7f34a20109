"""`verify` reads what the records say: a chain that fits does not make a reference point to something."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from values.forge import forge
from values.thread import Thread

from langgraph_jsonl_checkpoint import CorruptSessionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[Thread]:
    """A thread with messages, a list, a dict and a long list of scattered numbers."""
    with Thread(tmp_path, fsync="never") as thread:
        messages: list[Any] = []
        for number in range(3):
            messages = [*messages, HumanMessage(f"message {number}", id=str(number))]
            files = {f"{n}.py": "x" * 300 for n in range(20 + number)}
            thread.step({"messages": messages, "files": files, "odd": messages[::2] * 20})
        yield thread


def _walk(tree: Any, change: Callable[[dict], dict]) -> Any:
    if isinstance(tree, list):
        return [_walk(each, change) for each in tree]
    return change({k: _walk(v, change) for k, v in tree.items()}) if isinstance(tree, dict) else tree


def _ref(runs: Any) -> Callable[[dict], dict]:
    return lambda tree: {"$list": runs} if "$list" in tree else tree


HEADER = {"seq": 0, "type": "session", "ts": "", "format": "langgraph-jsonl-checkpoint", "version": 1} | {
    "thread_id": "thread",
    "workspace": "default",
}
LIES: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "a reference to a number that comes later": ("checkpoint", lambda r: _walk(r, _ref([[0, 999]]))),
    "a reference to a negative number": ("checkpoint", lambda r: _walk(r, _ref([[-1, 0]]))),
    "a run that is none": ("checkpoint", lambda r: _walk(r, _ref([[0]]))),
    "a run that goes backwards": ("checkpoint", lambda r: _walk(r, _ref([[1, 0]]))),
    "a run of words": ("checkpoint", lambda r: _walk(r, _ref([["a", "b"]]))),
    "no runs": ("checkpoint", lambda r: _walk(r, _ref({"a": 1}))),
    "a list that begins with itself": ("checkpoint", lambda r: _walk(r, _ref([999, [0, 0]]))),
    "a dict made of messages": ("checkpoint", lambda r: _walk(r, lambda t: {"$map": [[0, 0]]} if "$map" in t else t)),
    "a tag that nobody knows": ("checkpoint", lambda r: _walk(r, lambda t: {"$what": 1} if "$list" in t else t)),
    "a message like itself": ("message", lambda r: r | {"message": {"like": {"$ref": r["n"]}, "content": "x"}}),
    "a message like a later one": ("message", lambda r: r | {"message": {"like": {"$ref": r["n"] + 5}}}),
    "a message like nothing": ("message", lambda r: r | {"message": {"like": "that"}}),
    "a message of an unknown class": ("message", lambda r: r | {"message": {"class": "Popen", "args": ["id"]}}),
    "a message that is a list": ("message", lambda r: r | {"message": [1, 2]}),
    "a value that refers to itself": ("value", lambda r: r | {"values": [{"$ref": r["n"]} for _ in r["values"]]}),
    "a number that was given before": ("value", lambda r: r | {"n": 0}),
    "a checkpoint without an id": ("checkpoint", lambda r: {k: v for k, v in r.items() if k != "id"}),
    "an id that is a number": ("checkpoint", lambda r: r | {"id": 7}),
    "a second header": ("value", lambda r: HEADER | {"seq": r["seq"], "ts": r["ts"]}),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_record_that_says_what_no_writer_says_is_a_problem(thread: Thread, lie: str, is_packed: bool) -> None:
    """The first problem names the record; a salvage leaves out what lies and what builds on it."""
    kind, change = LIES[lie]
    path = thread.saver.path("thread")
    forge(path, lambda record: record)
    assert thread.saver.verify("thread").ok, "what the forger leaves alone passes"
    seqs = [r["seq"] for r in thread.records(kind)]
    target = seqs[1] if len(seqs) > 1 else seqs[0]
    forge(path, lambda r: change(r) if r["seq"] == target else r)
    if is_packed:
        thread.reopen()
        with contextlib.suppress(CorruptSessionError):  # a log that does not open is not packed
            thread.saver.pack("thread")
    thread.reopen()
    report = thread.saver.verify("thread")
    assert [p.seq for p in report.problems][:1] == [target]
    if "header" not in lie:
        thread.saver.salvage("thread", "saved")
        assert thread.saver.verify("saved").ok
