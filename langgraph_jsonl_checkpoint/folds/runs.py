"""Who wrote a log, and whether its last run was left by a writer that died."""

from __future__ import annotations

from bisect import bisect_right

from langgraph_jsonl_checkpoint.log import records


class Runs:
    """The fold.

    Attributes:
        writer: The last writer; empty if there is none.
        hooks: By writer, whether a hook recorded its tool calls: only then is a call without a record one that
            never started.
        closed: Whether the last writer closed the session behind its last record.
        paused: The writers that closed it with a run that waited, so that none of its tasks had begun.
        restored: Whether the run since was begun by a writer that died.
        recovered: Torn ends that were moved aside.
    """

    def __init__(self) -> None:
        self.writer = ""
        self.hooks: dict[str, bool] = {}
        self.closed = False
        self.paused: set[str] = set()
        self.restored = False
        self._begins: list[int] = []
        self._writers: list[str] = []
        self.recovered: list[records.Recovered] = []

    def writer_of(self, seq: int) -> str:
        """Who wrote a record; empty if nobody said so."""
        at = bisect_right(self._begins, seq) - 1
        return self._writers[at] if at >= 0 else ""

    def apply(self, record: records.Record | None, seq: int) -> None:
        """Take in the next record of the log."""
        kind = type(record)
        self.closed = kind is records.Close
        if kind is records.Open:
            assert isinstance(record, records.Open)  # noqa: S101 - for the type checker; this runs for each record
            self.writer = record.writer
            self._begins.append(seq)
            self._writers.append(record.writer)
            self.hooks[record.writer] = record.hook or self.hooks.get(record.writer, False)
            self.restored = self.restored or bool(record.died)
            if record.recovered is not None:
                self.recovered.append(record.recovered)
        elif kind is records.Close:
            assert isinstance(record, records.Close)  # noqa: S101 - as above
            if not record.error:
                self.paused.add(record.writer)
        elif kind is records.Terminal:
            self.restored = False
