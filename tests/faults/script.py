"""What is run over a disk that fails: each kind of call that a saver has, one after the other, on three threads.

The same calls make the same checkpoints, so a thread's state after a number of steps is the same in every run.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from kill.bare import frames, records
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Interrupt

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.log import entries, files, logfile
from langgraph_jsonl_checkpoint.sessions import pool
from langgraph_jsonl_checkpoint.tool_calls.rules import Visit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

MAIN, COPY = "main", "copy"
THREADS = [MAIN, COPY]
TORN = b"\x28\xb5\x2f\xfd torn"


class Step(NamedTuple):
    """A call.

    Attributes:
        name: What it is.
        thread: The thread that it changes.
        call: Makes it.
        kind: "step" or "writes" appends, the first synced by default; "rewrite" puts a file in a file's place;
            "create" and "delete" a thread; "read" and "end" change nothing.
    """

    name: str
    thread: str
    call: Callable[[JsonlSaver], Any]
    kind: str

    @property
    def appends(self) -> bool:
        """Whether it appends a commit."""
        return self.kind in ("step", "writes")

    def is_promised(self, fsync: str) -> bool:
        """Whether what it did is there after a power cut, once it has returned."""
        if self.kind in ("create", "delete", "read", "end"):
            return self.kind in ("create", "delete")
        return fsync == "always" or fsync == "checkpoint" and self.kind != "writes"


class Seen(NamedTuple):
    """What is stored of a thread."""

    stored: list[CheckpointTuple]
    tools: list[tuple[str, str]]


def config(thread: str, checkpoint_id: str | None = None) -> RunnableConfig:
    """The config of a thread, or of a checkpoint in it."""
    named = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": named | ({} if checkpoint_id is None else {"checkpoint_id": checkpoint_id})}


def at(place: int) -> str:
    """A checkpoint id; ids sort as their places do."""
    return f"1f0cd5c8-{place:04x}-6000-8000-000000000000"


def prose(seed: Any, size: int) -> str:
    """Text that stays about as long when it is compressed."""
    return "".join(hashlib.sha512(f"{seed} {n}".encode()).hexdigest() for n in range(size // 128 + 1))[:size]


def put(saver: JsonlSaver, thread: str, place: int, parent: int | None = None) -> None:
    """Store a checkpoint, whose state is a conversation of `place` messages."""
    values = {
        "messages": [HumanMessage(prose(n, 90), id=str(n)) for n in range(place)],
        "branch:to:model": None,
    }
    versions = {name: f"{place:032}.{name}" for name in values}
    checkpoint: Any = {
        "v": 4,
        "id": at(place),
        "ts": "2026-01-02T03:04:05.678901+00:00",
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": [*values],
    }
    where = config(thread, None if parent is None else at(parent))
    saver.put(where, checkpoint, {"source": "loop", "step": place, "parents": {}}, versions)


def put_writes(saver: JsonlSaver, thread: str, place: int, task: str, size: int = 60) -> None:
    """Store what a task of a checkpoint wrote."""
    message = AIMessage(prose(f"{place} {task}", size), id=f"{place} {task}")
    saver.put_writes(config(thread, at(place)), [("messages", [message])], task, f"~{task}")


def ask(saver: JsonlSaver, thread: str, place: int) -> None:
    """Store that a task waits for a human."""
    question = Interrupt(value="sure?", id="0" * 32)
    saver.put_writes(config(thread, at(place)), [("__interrupt__", (question,))], "asker", "~asker")


def tear(saver: JsonlSaver, thread: str) -> None:
    """Leave a part of a commit behind the log, as a process does that is killed in a write."""
    log = saver.path(thread)
    fd = files.open(str(log), 0x2)
    try:
        files.pwrite(fd, memoryview(TORN), log.stat().st_size)
    finally:
        files.close(fd)


CHARGE = Visit(
    key=("task of 2", "call 1"),
    tool_call_id="call 1",
    name="charge",
    args={"amount": 7},
    given={"amount": 7},
    effect="side_effects",
    check=False,
    ns="",
    checkpoint=at(2),
)


def start_tool(saver: JsonlSaver) -> None:
    """Come to the tool, whose code would run next."""
    saver.ledger(MAIN).enter(CHARGE, {}, None, 0)


def end_tool(saver: JsonlSaver) -> None:
    """The tool has returned."""
    saver.ledger(MAIN).leave(CHARGE, "completed", result="charged")


STEPS = [
    Step("create", MAIN, lambda s: put(s, MAIN, 1), "step"),
    Step("write", MAIN, lambda s: put_writes(s, MAIN, 1, "first"), "writes"),
    Step("write more", MAIN, lambda s: put_writes(s, MAIN, 1, "second", 1200), "writes"),
    Step("write again", MAIN, lambda s: put_writes(s, MAIN, 1, "third"), "writes"),
    Step("step", MAIN, lambda s: put(s, MAIN, 2, 1), "step"),
    Step("start a tool", MAIN, start_tool, "step"),
    Step("end a tool", MAIN, end_tool, "step"),
    Step("write its result", MAIN, lambda s: put_writes(s, MAIN, 2, "task of 2"), "writes"),
    Step("step on", MAIN, lambda s: put(s, MAIN, 3, 2), "step"),
    Step("ask a human", MAIN, lambda s: ask(s, MAIN, 3), "step"),
    Step("write behind a torn end", MAIN, lambda s: put_writes(s, MAIN, 3, "asker's sibling"), "writes"),
    Step("go on", MAIN, lambda s: put(s, MAIN, 4, 3), "step"),
    Step("copy", COPY, lambda s: s.copy_thread(MAIN, COPY), "create"),
    Step("read", COPY, lambda s: s.get_tuple(config(COPY)), "read"),
    Step("write to the copy", COPY, lambda s: put_writes(s, COPY, 4, "heir"), "writes"),
    Step("prune", MAIN, lambda s: s.prune([MAIN]), "rewrite"),
    Step("write behind the pruned", MAIN, lambda s: put_writes(s, MAIN, 4, "late", 700), "writes"),
    Step("step behind the pruned", MAIN, lambda s: put(s, MAIN, 5, 4), "step"),
    Step("pack", MAIN, lambda s: s.pack(MAIN), "rewrite"),
    Step("write behind the packed", MAIN, lambda s: put_writes(s, MAIN, 5, "later"), "writes"),
    Step("list", MAIN, lambda s: list(s.list(None)), "read"),
    Step("step of the copy", COPY, lambda s: put(s, COPY, 5, 4), "step"),
    Step("delete", COPY, lambda s: s.delete_thread(COPY), "delete"),
    Step("last step", MAIN, lambda s: put(s, MAIN, 6, 5), "step"),
    Step("close", MAIN, lambda s: s.close(), "end"),
]
TORN_BEFORE = 10  # the step


def look(saver: JsonlSaver, thread: str) -> Seen:
    """What is stored of a thread."""
    stored = list(saver.list(config(thread)))
    log = saver.path(thread)
    lines = records(log) if log.exists() else []
    assert [line["seq"] for line in lines] == [*range(len(lines))]
    for line in lines if thread == MAIN else []:  # a copy has its source's lines, and not what lies beside it
        if "recovered" in line:
            torn = (log.parent / line["recovered"]["file"]).read_bytes()
            assert len(torn) == line["recovered"]["bytes"]
    return Seen(stored, [(line["call"], line["status"]) for line in lines if line["type"] == "tool"])


def open_saver(root: Path, fsync: str) -> JsonlSaver:
    """A saver of the script."""
    return JsonlSaver(root, fsync=fsync, restore_memory="never")


def run(saver: JsonlSaver, done: Callable[[Step], None] = lambda step: None) -> None:
    """Make all calls; `done` is called after each."""
    for number, step in enumerate(STEPS):
        if number == TORN_BEFORE:
            tear(saver, MAIN)
        step.call(saver)
        done(step)


def states(root: Path) -> dict[str, list[Seen]]:
    """What is stored of each thread before the first step, and after each."""
    found: dict[str, list[Seen]] = {thread: [Seen([], [])] for thread in THREADS}
    with open_saver(root, "never") as reader:

        def remember(step: Step) -> None:
            for thread in THREADS:
                same = thread != step.thread or step.kind in ("read", "end")
                found[thread].append(found[thread][-1] if same else look(reader, thread))

        run(open_saver(root, "never"), remember)
    return found


def whole(log: Path) -> bool:
    """Whether nothing stands behind the last whole frame of a log."""
    data = log.read_bytes()
    return frames(data)[-1][0] == len(data)


def kill(saver: JsonlSaver) -> None:
    """Forget a saver as if its process had been killed: nothing of it runs at the end of this one."""
    inner = saver._sessions
    inner._end.detach()
    pool._all.discard(inner)
    pool._mine.discard(inner.writer.id)
    inner._closed = True
    inner._open.clear()
    with contextlib.suppress(OSError):
        inner.writer._own.drop()
    entries._entered.clear()
    logfile._lost.clear()
