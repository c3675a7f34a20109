"""Who wrote a log, and whether its last run was left by a writer that died."""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from langgraph_jsonl_checkpoint.log import records


class Runs(msgspec.Struct):
    """The fold.

    Attributes:
        writer: The last writer; empty if there is none.
        hooks: By writer, whether a hook recorded its tool calls.
        within: By writer, the namespaces that the hook was in; a writer that is not there had it in all.
        closed: Whether the last writer closed the session behind its last record.
        paused: The writers that closed it with a run that waited, so that none of its tasks had begun.
        restored: Whether the run since was begun by a writer that died.
        recovered: Torn ends that were moved aside.
        begins: The seqs of the `open` records.
        writers: Their writers.
    """

    writer: str
    hooks: dict[str, bool]
    within: dict[str, set[str]]
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

    def is_hooked(self, writer: str, ns: str) -> bool:
        """Whether a hook recorded the tool calls of a writer's graph: one without a record never started there."""
        return self.hooks.get(writer, False) and (writer not in self.within or ns in self.within[writer])

    def untold(self, writer: str, hooks: set[str | None]) -> set[str | None]:
        """The namespaces in which a writer has a hook, without those that the log tells of; None is all of them."""
        if self.hooks.get(writer, False) and writer not in self.within:
            return set()
        return {None} if None in hooks else hooks - self.within.get(writer, set())

    def apply(self, kind: str, text: bytes, seq: int) -> None:
        """Take in the next line of the log."""
        self.closed = kind == "close"
        if self.restored and kind == "checkpoint":
            self._take_checkpoint(text)
        if kind not in ("open", "close", "terminal"):
            return
        record = records.parse(kind, text)
        if isinstance(record, records.Open):
            self.writer = record.writer
            self.begins.append(seq)
            self.writers.append(record.writer)
            self._take_hook(record)
            self.restored = self.restored or bool(record.died)
            if record.recovered is not None:
                self.recovered.append(record.recovered)
        elif isinstance(record, records.Close):
            if not record.error:
                self.paused.add(record.writer)
        else:
            self.restored = False

    def _take_checkpoint(self, text: bytes) -> None:
        """A restored run is over with a checkpoint that leads to nothing, even if no run stored that one."""
        record = records.parse_as(records.Checkpoint, text)
        if not record.ns and not record.next:
            self.restored = False

    def _take_hook(self, record: records.Open) -> None:
        writer, had = record.writer, self.hooks.get(record.writer, False)
        self.hooks[writer] = record.hook or had
        if not record.hook:
            return
        if not record.within:
            self.within.pop(writer, None)
        elif not had or writer in self.within:
            self.within.setdefault(writer, set()).update(record.within)


def no_runs() -> Runs:
    """What an empty log comes to."""
    return Runs(
        writer="",
        hooks={},
        within={},
        closed=False,
        paused=set(),
        restored=False,
        recovered=[],
        begins=[],
        writers=[],
    )
