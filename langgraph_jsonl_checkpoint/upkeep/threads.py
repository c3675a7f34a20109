"""What is done to whole threads: listing them, copying one, and removing things from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from langgraph_jsonl_checkpoint.errors import CorruptSessionError, SessionError, WrongSerdeError
from langgraph_jsonl_checkpoint.folds import retention
from langgraph_jsonl_checkpoint.log import journal, local, packing, records
from langgraph_jsonl_checkpoint.log.surrogates import tag_text
from langgraph_jsonl_checkpoint.sessions.identity import header_of
from langgraph_jsonl_checkpoint.sessions.reader import Reader
from langgraph_jsonl_checkpoint.values.seal import SEALED, SealError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from langgraph_jsonl_checkpoint.folds.checkpoints import Checkpoints
    from langgraph_jsonl_checkpoint.log.lines import Lines
    from langgraph_jsonl_checkpoint.sessions.pool import Sessions
    from langgraph_jsonl_checkpoint.values.seal import Serde
    from langgraph_jsonl_checkpoint.values.thaw import Thawer


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
    for changed, thread_id in sessions.threads():
        head = header_of(sessions.path(thread_id))
        if head is not None and (children or head.parent is None):
            yield SessionInfo(thread_id, datetime.fromtimestamp(changed, UTC), head.parent, head.delegation_depth)


def copy(sessions: Sessions, serde: Callable[[str], Serde], source: str, target: str) -> None:
    """Copy a thread's log under another id. A thread that does not exist has nothing to copy.

    Raises:
        ValueError: The target exists.
    """
    with sessions.use(source) as session:
        session.refresh()
        if not session.exists:
            return
        held, lines = session.lines, list(session.lines.since(0))
        header = session.header
    assert header is not None  # noqa: S101 - a session that exists has one
    head = sessions.identity(target).header(
        delegation_depth=header.delegation_depth,
        parent=header.parent,
        forked_from={"thread_id": tag_text(source), "seq": len(lines) - 1},
    )
    ts = records.timestamp(lines[-1].text)
    texts = [line.text for line in lines[1:]]
    if serde(source).seals or any(SEALED in text for text in texts):
        texts = list(_sealed_anew(held, texts, serde(source), serde(target)))
    log = packing.compose(records.line(0, ts, head), texts, sessions.writer.chain_key)
    try:
        local.create(sessions.path(target), log, sync=True).close()
    except FileExistsError:
        raise ValueError(f"thread {target!r} exists; delete it first, or copy {source!r} under another id") from None


def _sealed_anew(lines: Lines, texts: Iterable[bytes], owner: Serde, heir: Serde) -> Iterator[bytes]:
    for seq, text in enumerate(texts, 1):
        try:
            yield msgspec.json.encode(heir.moved(msgspec.json.decode(text), owner))
        except (msgspec.DecodeError, LookupError, ValueError, TypeError, RecursionError) as error:
            says = WrongSerdeError if isinstance(error, SealError) else CorruptSessionError
            raise lines.corrupt(seq, f"the record cannot be sealed for another thread: {error}", says) from error


def prune(sessions: Sessions, serde: Callable[[str], Serde], thread_id: str) -> None:
    """Keep of a thread its latest checkpoints and what they need; the disk gets the rest back."""
    _rewrite(sessions, serde, thread_id, "keep_latest", retention.all_but_latest)


def delete_for_runs(sessions: Sessions, serde: Callable[[str], Serde], run_ids: Collection[str]) -> None:
    """Delete what these runs stored, in every thread."""
    errors: list[SessionError | OSError] = []
    for _, thread_id in list(sessions.threads()):
        try:
            _rewrite(sessions, serde, thread_id, "delete_for_runs", lambda f, t: retention.of_runs(f, t, run_ids))
        except (SessionError, OSError) as error:
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
            prune = records.Prune(strategy=strategy, removed=removed, inputs=inputs or None)
            return prune, stays

        session.rewrite(plan)
