"""What of a thread stays when somebody asks for less of it, and which lines of its log that is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from langgraph_jsonl_checkpoint.folds.deltas import metadata_of, reading, rebuilt_from
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.upstream import channels, namespaces
from langgraph_jsonl_checkpoint.values.references import texts_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from langgraph_jsonl_checkpoint.folds.checkpoints import Checkpoints
    from langgraph_jsonl_checkpoint.folds.tool_calls import Call, ToolCalls
    from langgraph_jsonl_checkpoint.log.journal import Line
    from langgraph_jsonl_checkpoint.values.thaw import Thawer

Place = tuple[str, str]
"""A checkpoint: its namespace and its id."""


@dataclass
class Removal:
    """What is to go.

    Attributes:
        checkpoints: Checkpoints, with their writes.
        namespaces: Whole namespaces: calls of subgraphs that are over.
    """

    checkpoints: set[Place] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)

    def covers(self, ns: str, checkpoint_id: str) -> bool:
        """Whether a checkpoint goes."""
        return ns in self.namespaces or (ns, checkpoint_id) in self.checkpoints


def all_but_latest(fold: Checkpoints, thaw: Thawer) -> Removal:
    """Keep the newest checkpoint of each namespace, as PostgresSaver 3.2 does, and what it needs.

    That is the ancestors that its DeltaChannels are rebuilt from, which PostgresSaver refuses, and the parent that
    holds its pending sends if it predates version 4. A subgraph call's namespace goes when the root checkpoint that
    it started from is stored and goes.
    """
    heads = {ns: head for ns in fold.namespaces() if (head := fold.get(ns, None)) is not None}
    removal = Removal()
    for ns, head in heads.items():
        parents = metadata_of(fold, thaw, head).get("parents")
        root = parents.get("") if isinstance(parents, dict) else None
        is_newest = "" in heads and root == heads[""].id
        if namespaces.is_of_task(ns) and root and not is_newest and fold.get("", root) is not None:
            removal.namespaces.add(ns)
    kept: set[Place] = set()
    for ns, head in heads.items():
        if ns not in removal.namespaces:
            kept |= {(ns, head.id)} | _ancestors_of_deltas(fold, thaw, head) | _parent_with_sends(fold, head)
    removal.checkpoints.update((ns, name) for name, ns in fold.newest_first() if (ns, name) not in kept)
    return removal


def of_runs(fold: Checkpoints, thaw: Thawer, run_ids: Collection[str]) -> Removal:
    """The checkpoints that these runs made, but for those that the DeltaChannels of others are rebuilt from."""
    stored = [(ns, name, record) for name, ns in fold.newest_first() if (record := fold.get(ns, name)) is not None]
    made = {(ns, name) for ns, name, record in stored if _run_id(metadata_of(fold, thaw, record)) in run_ids}
    needed: set[Place] = set()
    for ns, name, record in stored if made else ():
        if (ns, name) not in made:
            needed |= _ancestors_of_deltas(fold, thaw, record)
    return Removal(made - needed)


def survivors(
    lines: Sequence[Line], fold: Checkpoints, tools: ToolCalls, thaw: Thawer, removal: Removal
) -> Iterator[bytes]:
    """The lines that stay, in their order; the header is not among them.

    Of a checkpoint that was put several times the last content stays, behind what it refers to. A tool call stays if
    its checkpoint does, or if somebody has yet to decide upon it. A message or a value stays if something that stays
    refers to it.
    """
    calls = {call.key for call in tools if _may_go_on(call, fold, removal)} | {call.key for call in tools.unsettled()}
    numbers: set[int] = set()
    stays: list[tuple[Line, records.Record | None]] = []
    for seq, line in enumerate(lines, 1):
        try:
            record = records.parse(line.kind, line.text)
        except msgspec.DecodeError as error:
            raise fold.lines.corrupt(seq, f"the record is not what its type says ({error})") from error
        if isinstance(record, records.Checkpoint):
            goes = removal.covers(record.ns, record.id) or fold.seq(record.ns, record.id) != seq
        elif isinstance(record, (records.Writes, records.Terminal)):
            goes = removal.covers(record.ns, record.checkpoint)
        else:
            goes = isinstance(record, records.Tool) and (record.task, record.call) not in calls
        if goes:
            continue
        with reading(fold, seq, f"a {line.kind} record"):
            numbers.update(*map(thaw.numbers, texts_of(record)))
        stays.append((line, record))
    for line, record in stays:
        yield from _rewritten(line, record, removal, numbers)


def _may_go_on(call: Call, fold: Checkpoints, removal: Removal) -> bool:
    """Whether a tool call's task may still go on: its checkpoint stays, or is not stored and no later one took it."""
    if call.checkpoint is None:
        return True
    if call.is_told and not fold.has(call.ns, call.checkpoint):
        return False
    return not removal.covers(call.ns, call.checkpoint)


def _rewritten(line: Line, record: records.Record | None, removal: Removal, numbers: set[int]) -> Iterator[bytes]:
    ts = records.timestamp(line.text)
    if isinstance(record, records.Message):
        if record.n in numbers:
            yield line.text
    elif isinstance(record, records.Value):
        kept = [(n, text) for n, text in enumerate(record.values, record.n) if n in numbers]
        yield from (records.line(0, ts, part) for part in records.values_of(kept))
    elif isinstance(record, records.Checkpoint):
        if record.parent is not None and removal.covers(record.ns, record.parent):
            record = msgspec.structs.replace(record, parent=None)  # the fold's own stays: the rewrite may fail
        yield records.line(0, ts, record)
    else:
        yield line.text


def _ancestors_of_deltas(fold: Checkpoints, thaw: Thawer, record: records.Checkpoint) -> set[Place]:
    needed, _ = rebuilt_from(fold, thaw, record)
    return {(record.ns, name) for name in needed}


def _parent_with_sends(fold: Checkpoints, record: records.Checkpoint) -> set[Place]:
    ns, parent = record.ns, record.parent
    if parent is None or not isinstance(record.v, int) or record.v >= 4:  # noqa: PLR2004
        return set()
    sends = [write for write in fold.writes(ns, parent) if write.channel == channels.TASKS]
    return {(ns, parent)} if sends and fold.has(ns, parent) else set()


def _run_id(metadata: dict[str, Any]) -> str | None:
    run_id = metadata.get("run_id")
    return None if run_id is None else str(run_id)  # LangChain's are UUIDs, LangGraph's strings
