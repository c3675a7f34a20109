"""Checkpoints and pending writes: what the `checkpoint` and `writes` records of a log come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from langgraph_jsonl_checkpoint import upstream
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.values.types import untag_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec


class Write(NamedTuple):
    """One pending write."""

    path: str
    task: str
    idx: int
    channel: str
    text: msgspec.Raw


class Checkpoints:
    """The fold. Ids and namespaces are those of LangGraph, which are strings.

    Attributes:
        ended: How the last run stopped, if it did.
        inputs: The ids of the inputs that were applied.
        answer: The record and the text of the last answer that was given to a run as a whole.
    """

    def __init__(self) -> None:
        self._checkpoints: dict[str, dict[str, records.Checkpoint]] = {}
        self._newest: dict[str, str] = {}
        self._seqs: dict[tuple[str, str], int] = {}
        self._writes: dict[tuple[str, str], dict[tuple[str, int], Write]] = {}
        self.ended: records.Terminal | None = None
        self.inputs: set[str] = set()
        self.answer: tuple[int, msgspec.Raw] | None = None

    def apply(self, record: records.Record, seq: int) -> None:
        """Take in the next record of the log; types that say nothing about checkpoints are passed over."""
        if type(record) is records.Checkpoint:
            self._take_checkpoint(record, seq)
        elif type(record) is records.Writes:
            self._take_writes(record, seq)
        elif type(record) is records.Terminal:
            self.ended = record
        elif type(record) is records.Tool and record.status == "started":
            self.ended = None
        elif type(record) is records.Prune:
            self.inputs.update(map(untag_text, record.inputs or ()))

    def _take_checkpoint(self, record: records.Checkpoint, seq: int) -> None:
        ns, name = untag_text(record.ns), untag_text(record.id)
        self._checkpoints.setdefault(ns, {})[name] = record
        self._seqs[ns, name] = seq
        # The greatest id is the newest, not the last one written: ids of several processes interleave.
        if name >= self._newest.get(ns, ""):
            self._newest[ns] = name
        if self.ended is not None and self.ended.checkpoint != record.id:
            self.ended = None  # the run goes on; an interrupt may come before the checkpoint that it is about
        if record.input is not None:
            self.inputs.add(untag_text(record.input))

    def _take_writes(self, record: records.Writes, seq: int) -> None:
        task, path = untag_text(record.task), untag_text(record.path)
        known = self._writes.setdefault((untag_text(record.ns), untag_text(record.checkpoint)), {})
        for index, channel, text in record.writes:
            # Special channels overwrite; of ordinary writes the first one stays.
            if index < 0 or (task, index) not in known:
                known[task, index] = Write(path, task, index, untag_text(channel), text)
            if index == upstream.RESUME_INDEX:
                self.ended = None  # a human has answered
                if task == upstream.NULL_TASK:
                    self.answer = seq, text

    def get(self, ns: str, checkpoint_id: str | None) -> records.Checkpoint | None:
        """A namespace's checkpoint with this id, or its newest."""
        found = self._checkpoints.get(ns, {})
        return found.get(checkpoint_id or self._newest.get(ns, ""))

    def writes(self, ns: str, checkpoint_id: str) -> list[Write]:
        """A checkpoint's pending writes in the order in which a run applies them."""
        # (task_path, task_id, idx), as langgraph.checkpoint.base.writes_sort_key has it
        return sorted(self._writes.get((ns, checkpoint_id), {}).values(), key=lambda w: w[:3])

    @property
    def is_unfinished(self) -> bool:
        """Whether the thread's last run, as far as it is stored, neither ended nor paused for a human."""
        newest = self.get("", None)
        return self.ended is None and newest is not None and bool(newest.next)

    def has_write(self, ns: str, checkpoint_id: str, task: str, index: int) -> bool:
        """Whether an ordinary write is stored already, so that storing it again would change nothing."""
        return index >= 0 and (task, index) in self._writes.get((ns, checkpoint_id), ())

    def seq(self, ns: str, checkpoint_id: str) -> int:
        """Where in the log a checkpoint's content stands."""
        return self._seqs[ns, checkpoint_id]

    def namespaces(self) -> list[str]:
        """The namespaces that have a checkpoint."""
        return list(self._checkpoints)

    def newest_first(self, ns: str | None = None) -> list[tuple[str, str, records.Checkpoint]]:
        """(id, namespace, record) of one namespace or all, descending by id."""
        spaces = self._checkpoints if ns is None else {ns: self._checkpoints.get(ns, {})}
        # Copies: a reader lists without the lock while the session goes on.
        rows = [
            (name, space, record) for space, found in list(spaces.items()) for name, record in list(found.items())
        ]
        return sorted(rows, key=lambda row: row[:2], reverse=True)

    def ancestors(self, ns: str, checkpoint_id: str | None) -> Iterator[tuple[str, records.Checkpoint]]:
        """A checkpoint's stored ancestors, the nearest first; a chain that turns back on itself ends there."""
        record = self.get(ns, checkpoint_id)
        seen = set() if record is None else {untag_text(record.id)}
        while record is not None and record.parent is not None:
            parent = untag_text(record.parent)
            if parent in seen:
                return
            seen.add(parent)
            record = self._checkpoints[ns].get(parent)
            if record is not None:
                yield parent, record
