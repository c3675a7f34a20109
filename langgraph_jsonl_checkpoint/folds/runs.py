"""Who wrote a log, and whether its last run was left by a writer that died."""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from langgraph_jsonl_checkpoint.log import records


class Runs(msgspec.Struct):
    """The fold.

    Attributes:
        writer: The last writer; empty if there is none.
        hooks: By writer, whether a hook recorded its tool calls: only then is a call without a record one that
            never started.
        closed: Whether the last writer closed the session behind its last record.
        paused: The writers that closed it with a run that waited, so that none of its tasks had begun.
        restored: Whether the run since was begun by a writer that died.
        recovered: Torn ends that were moved aside.
        begins: The seqs of the `open` records.
        writers: Their writers.
    """

    writer: str
    hooks: dict[str, bool]
    closed: bool
    paused: set[str]
    restored: bool
    recovered: list[records.Recovered]
    begins: list[int]
    writers: list[str]

    def writer_of(self, seq: int) -> str:
        """Who wrote a record; empty if nobody said so."""
        at = bisect_right(self.begins, seq) - 1
        return self.writers[at] if at >= 0 else ""

    def apply(self, kind: str, text: bytes, seq: int) -> None:
        """Take in the next line of the log."""
        self.closed = kind == "close"
        if kind not in ("open", "close", "terminal"):
            return
        record = records.parse(kind, text)
        if isinstance(record, records.Open):
            self.writer = record.writer
            self.begins.append(seq)
            self.writers.append(record.writer)
            self.hooks[record.writer] = record.hook or self.hooks.get(record.writer, False)
            self.restored = self.restored or bool(record.died)
            if record.recovered is not None:
                self.recovered.append(record.recovered)
        elif isinstance(record, records.Close):
            if not record.error:
                self.paused.add(record.writer)
        else:
            self.restored = False
