"""The checkpoints of all threads in one list, newest first."""

from __future__ import annotations

import contextlib
import heapq
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import CheckpointTuple

from langgraph_jsonl_checkpoint.errors import SessionError
from langgraph_jsonl_checkpoint.log import local
from langgraph_jsonl_checkpoint.sessions.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langgraph_jsonl_checkpoint.sessions.pool import Sessions
    from langgraph_jsonl_checkpoint.values.seal import Serde

_COARSE = 0.05  # seconds by which a file's time may lag behind the clock that ids are made with
_BEGUN = 64  # lists of threads that stay open half-read, each with a descriptor; others are begun again
_GREGORIAN = 0x01B21DD213814000  # 100 ns steps from 1582, where a UUID's time begins, to 1970

_Row = tuple[str, str]
"""A checkpoint in a list: its id and its namespace."""

_Rows = Iterator[tuple[_Row, CheckpointTuple]]

logger = logging.getLogger(__name__)


def list_all(
    sessions: Sessions,
    serde: Callable[[str], Serde],
    before: str | None,
    wanted: Mapping[str, Any] | None,
) -> Iterator[CheckpointTuple]:
    """The checkpoints of every thread that match, descending by id.

    A log was changed after the checkpoints in it were made. So a checkpoint that is younger than the last change of
    all logs that are not opened yet comes before everything in them, and a short list opens few logs. All logs are
    opened first if ids tell no time, if those of a log were made by a clock that runs ahead of the files' times, or
    if the clock was set back.
    """

    def rows(thread_id: str, log: local.Found | None, behind: _Row | None) -> _Rows:
        return _rows(sessions, serde, thread_id, log, before, wanted, behind)

    merged = _Merged(rows)
    may_match = sessions.skips.sieve(wanted or {})
    logs = sessions.logs()
    clocks_agree = not logs or logs[0].changed <= time.time() + _COARSE
    for log in logs:
        while clocks_agree and merged.newest_at() > log.changed + _COARSE:
            yield merged.pop()
        if may_match(log) and (thread_id := sessions.thread_id(log)) is not None:
            newest = merged.push(thread_id, rows(thread_id, log, None))
            clocks_agree = clocks_agree and not _is_ahead(newest, log, sessions.path(thread_id))
    while merged:
        yield merged.pop()


class _Merged:
    """The checkpoints of several threads in one order.

    Args:
        rows: Gives the checkpoints of a thread behind one of them.
    """

    def __init__(self, rows: Callable[[str, None, _Row], _Rows]) -> None:
        self._rows = rows
        self._heap: list[tuple[_Descending, str, CheckpointTuple, _Row]] = []
        self._begun: OrderedDict[str, _Rows] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._heap)

    def newest_at(self) -> float:
        """When the next one to be given out was made, as `_made_at` tells it."""
        return _made_at(self._heap[0][0].id) if self._heap else float("-inf")

    def push(self, thread_id: str, rows: _Rows) -> str:
        """Take in a thread's next checkpoint; its id, or nothing if there is none.

        A thread that cannot be read does not keep the others from being listed.
        """
        try:
            row = next(rows, None)
        except (SessionError, OSError) as error:
            logger.warning("thread %r is left out of the list: %s", thread_id, error)
            return ""
        if row is None:
            return ""
        heapq.heappush(self._heap, (_Descending(row[0][0]), thread_id, row[1], row[0]))
        self._begun[thread_id] = rows
        if len(self._begun) > _BEGUN:
            self._begun.popitem(last=False)
        return row[0][0]

    def pop(self) -> CheckpointTuple:
        """Give out the newest one."""
        _, thread_id, found, row = heapq.heappop(self._heap)
        rows = self._begun.pop(thread_id) if thread_id in self._begun else self._rows(thread_id, None, row)
        self.push(thread_id, rows)
        return found


def _rows(
    sessions: Sessions,
    serde: Callable[[str], Serde],
    thread_id: str,
    log: local.Found | None,
    before: str | None,
    wanted: Mapping[str, Any] | None,
    behind: _Row | None,
) -> _Rows:
    with sessions.glance(thread_id) as session:
        is_read_now, now = not session.exists, time.time()
        session.refresh()
        reader = Reader(session, serde(thread_id))
    if wanted and is_read_now and log is not None:
        found = (reader.fold.get(space, name) for name, space in reader.fold.newest_first())
        with contextlib.suppress(SessionError, OSError):  # which the list may not come to
            sessions.skips.add(log, now, (reader.metadata(record) for record in found if record is not None))
    yield from reader.list(None, None, before, wanted, behind)


class _Descending:
    """An id that sorts the other way round."""

    __slots__ = ("id",)

    def __init__(self, name: str) -> None:
        self.id = name

    def __lt__(self, other: _Descending) -> bool:
        return self.id > other.id


def _is_ahead(checkpoint_id: str, log: local.Found, path: str) -> bool:
    """Whether a checkpoint that is in a log says that it was made after the log's last change."""
    made = _made_at(checkpoint_id)
    return made > log.changed + _COARSE and made > local.changed_at(path) + _COARSE  # appended to since it was found


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
