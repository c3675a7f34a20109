"""What is done to whole threads: listing all of them, copying one, and removing from them."""

from __future__ import annotations

import contextlib
import heapq
import logging
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from langgraph_jsonl_checkpoint.errors import SessionError
from langgraph_jsonl_checkpoint.folds import retention
from langgraph_jsonl_checkpoint.log import journal, local, packing, records
from langgraph_jsonl_checkpoint.reader import Reader
from langgraph_jsonl_checkpoint.sessions import header_of
from langgraph_jsonl_checkpoint.values.types import tag_text, untag_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from langgraph.checkpoint.base import CheckpointTuple

    from langgraph_jsonl_checkpoint.folds.checkpoints import Checkpoints
    from langgraph_jsonl_checkpoint.sessions import Sessions
    from langgraph_jsonl_checkpoint.values.seal import Serde
    from langgraph_jsonl_checkpoint.values.thaw import Thawer

_COARSE = 0.05  # seconds by which a file's time may lag behind the clock that ids are made with
_GREGORIAN = 0x01B21DD213814000  # 100 ns steps from 1582, where a UUID's time begins, to 1970

logger = logging.getLogger(__name__)


def list_all(
    sessions: Sessions,
    serde: Callable[[str], Serde],
    before: str | None,
    wanted: Mapping[str, Any] | None,
) -> Iterator[CheckpointTuple]:
    """The checkpoints of every thread that match, descending by id.

    A log was changed after the checkpoints in it were made, so a checkpoint that is younger than the last change of
    every log not yet opened comes before all that they hold: a short list opens few of them. Ids that tell no time
    come after all logs were read.
    """
    heap: list[tuple[_Descending, str, CheckpointTuple, Iterator[tuple[str, CheckpointTuple]]]] = []

    def push(thread_id: str, rows: Iterator[tuple[str, CheckpointTuple]]) -> None:
        # A damaged session does not keep the others from being listed.
        try:
            row = next(rows, None)
        except SessionError as error:
            logger.warning("thread %r is left out of the list: %s", thread_id, error)
            return
        if row is not None:
            heapq.heappush(heap, (_Descending(row[0]), thread_id, row[1], rows))

    def pop() -> CheckpointTuple:
        _, thread_id, found, rows = heapq.heappop(heap)
        push(thread_id, rows)
        return found

    may_match = sessions.skips.sieve(wanted or {})
    for log in sessions.logs():
        while heap and _made_at(heap[0][0].id) > log.changed + _COARSE:
            yield pop()
        if may_match(log) and (thread_id := sessions.thread_id(log)) is not None:
            push(thread_id, _rows(sessions, serde, thread_id, log, before, wanted))
    while heap:
        yield pop()


@dataclass(frozen=True)
class SessionInfo:
    """One thread's log.

    Attributes:
        thread_id: The thread.
        changed: When the log was changed last.
        parent: The thread whose agent started this one's; None if none did.
        delegation_depth: How many threads stand above it.
    """

    thread_id: str
    changed: datetime
    parent: str | None
    delegation_depth: int


def infos(sessions: Sessions, *, children: bool) -> Iterator[SessionInfo]:
    """Every thread, the last changed first; `children` are those that another thread's agent started."""
    for changed, thread_id in sessions.thread_ids():
        head = header_of(sessions.path(thread_id))
        if head is not None and (children or head.parent is None):
            parent = None if head.parent is None else untag_text(head.parent)
            yield SessionInfo(thread_id, datetime.fromtimestamp(changed, UTC), parent, head.delegation_depth)


def copy(sessions: Sessions, serde: Callable[[str], Serde], source: str, target: str) -> None:
    """Copy a thread's log under another id. A thread that does not exist has nothing to copy.

    Raises:
        ValueError: The target exists.
    """
    with sessions.use(source) as session:
        session.refresh()
        if not session.exists:
            return
        lines = list(session.lines.since(0))
        header = session.header
    assert header is not None  # noqa: S101 - a session that exists has one
    head = sessions.identity(target).header(
        delegation_depth=header.delegation_depth,
        parent=header.parent,
        forked_from={"thread_id": tag_text(source), "seq": len(lines) - 1},
    )
    ts = records.timestamp(lines[-1].text)
    texts = [line.text for line in lines[1:]]
    if serde(source).seals:
        owner, heir = serde(source), serde(target)
        texts = [msgspec.json.encode(heir.moved(msgspec.json.decode(text), owner)) for text in texts]
    log = packing.compose(records.line(0, ts, head), texts, sessions.writer.chain_key)
    try:
        local.create(sessions.path(target), log, sync=True).close()
    except FileExistsError:
        raise ValueError(f"thread {target!r} exists; delete it first, or copy {source!r} under another id") from None


def prune(sessions: Sessions, serde: Callable[[str], Serde], thread_id: str) -> None:
    """Keep of a thread its latest checkpoints and what they need; the disk gets the rest back."""
    _rewrite(sessions, serde, thread_id, "keep_latest", retention.all_but_latest)


def delete_for_runs(sessions: Sessions, serde: Callable[[str], Serde], run_ids: Collection[str]) -> None:
    """Delete what these runs stored, in every thread."""
    errors: list[SessionError] = []
    for _, thread_id in list(sessions.thread_ids()):
        try:
            _rewrite(sessions, serde, thread_id, "delete_for_runs", lambda f, t: retention.runs(f, t, run_ids))
        except SessionError as error:
            errors.append(error)  # the other threads first
    if errors:
        raise errors[0]


def _rewrite(
    sessions: Sessions,
    serde: Callable[[str], Serde],
    thread_id: str,
    strategy: str,
    choose: Callable[[Checkpoints, Thawer], retention.Removal],
) -> None:
    with sessions.use(thread_id) as session:

        def plan(lines: list[journal.Line]) -> tuple[records.Prune, list[bytes]] | None:
            reader = Reader(session, serde(thread_id))
            removal = choose(reader.fold, reader.thaw)
            gone = sum(removal.covers(ns, name) for name, ns in reader.fold.newest_first())
            if not gone:
                return None
            stays = list(retention.survivors(lines[1:], reader.fold, session.tools, reader.thaw, removal))
            removed = {"checkpoints": gone, "records": len(lines) - 1 - len(stays)}
            inputs = sorted(reader.fold.inputs)
            prune = records.Prune(strategy=strategy, removed=removed, inputs=[tag_text(i) for i in inputs] or None)
            return prune, stays

        session.rewrite(plan)


def _rows(
    sessions: Sessions,
    serde: Callable[[str], Serde],
    thread_id: str,
    log: local.Found,
    before: str | None,
    wanted: Mapping[str, Any] | None,
) -> Iterator[tuple[str, CheckpointTuple]]:
    with sessions.glance(thread_id) as session:
        is_read_now, now = not session.exists, time.time()
        session.refresh()
        reader = Reader(session, serde(thread_id))
    if wanted and is_read_now:
        found = (reader.fold.get(space, name) for name, space in reader.fold.newest_first())
        with contextlib.suppress(SessionError):  # the list may not come as far
            sessions.skips.add(log, now, (reader.metadata(record) for record in found if record is not None))
    yield from reader.list(None, None, before, wanted)


class _Descending:
    """An id that sorts the other way round."""

    __slots__ = ("id",)

    def __init__(self, name: str) -> None:
        self.id = name

    def __lt__(self, other: _Descending) -> bool:
        return self.id > other.id


def _made_at(checkpoint_id: str) -> float:
    """When a checkpoint's id was made, in seconds since 1970, if it is a UUID of version 6; else before all time."""
    try:
        found = uuid.UUID(checkpoint_id)
    except ValueError:
        return float("-inf")
    if found.version != 6:  # noqa: PLR2004
        return float("-inf")
    ticks = (found.int >> 80) << 12 | (found.int >> 64) & 0xFFF
    return (ticks - _GREGORIAN) / 1e7
