"""What a thread comes to when somebody goes on with it: its state and its memory.

All of it is read from the log and nothing is run. Each function is called with the session locked and read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from langchain_core.messages import BaseMessage

from langgraph_jsonl_checkpoint.errors import NoSessionError
from langgraph_jsonl_checkpoint.folds.resume import (
    LastCheckpoint,
    ResumeState,
    ToolCall,
    unrecorded,
    with_results,
    with_values,
)
from langgraph_jsonl_checkpoint.folds.story import MESSAGES, Story
from langgraph_jsonl_checkpoint.folds.tool_calls import is_replay_safe
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.restore.open_calls import (
    Left,
    is_of_another,
    known,
    messages_of,
    stored_results,
)
from langgraph_jsonl_checkpoint.upstream import channels, namespaces
from langgraph_jsonl_checkpoint.values.messages import MEMORY_ID, MemoryMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.messages import AIMessage

    from langgraph_jsonl_checkpoint.folds.memory import MemoryDeriver, SessionMemory
    from langgraph_jsonl_checkpoint.folds.tool_calls import Call, Key, Status
    from langgraph_jsonl_checkpoint.sessions.reader import Reader
    from langgraph_jsonl_checkpoint.sessions.session import Session
    from langgraph_jsonl_checkpoint.tool_calls.ledger import Ledger
    from langgraph_jsonl_checkpoint.tool_calls.redaction import Redaction


class Recall:
    """How far a session's memory has been derived.

    Args:
        deriver: The deriver.
        redaction: What it may know of tool calls.
    """

    def __init__(self, deriver: MemoryDeriver, redaction: Redaction) -> None:
        self.deriver = deriver
        self._redaction = redaction
        self._tools: dict[str, str] = {}  # of calls that were asked for
        self.state = deriver.start()
        self.story = Story()
        self.next = 0

    def follow(self, session: Session, reader: Reader) -> None:
        """Take in what the log holds since."""
        for kind, text in session.lines.since(self.next):
            seq = self.next
            with reader.reading(seq, f"a {kind} record"):
                events = list(self.story.events(records.parse(kind, text), seq, records.timestamp(text), reader.thaw))
            for event in events:
                self.deriver.apply(self.state, self._redaction.event(event, self._tools))
            self.next += 1


class Restored:
    """A thread, read from its log.

    Args:
        session: Its session, locked and read.
        reader: Reads its values.
        ledger: Knows whose calls still run.
        deriver: Derives its memory.
    """

    def __init__(self, session: Session, reader: Reader, ledger: Ledger, deriver: MemoryDeriver) -> None:
        self._session = session
        self._reader = reader
        self._ledger = ledger
        self._deriver = deriver

    def state(self) -> ResumeState:
        """All of it.

        Raises:
            NoSessionError: The thread has no log.
        """
        session, identity = self._session, self._session.identity
        if session.header is None:
            raise NoSessionError.of(identity.thread_id, identity.path)
        newest, ended = session.checkpoints.get("", None), session.checkpoints.ended
        calls = self.tool_calls()
        return ResumeState(
            thread_id=identity.thread_id,
            header=MappingProxyType(msgspec.structs.asdict(session.header)),
            checkpoint=None if newest is None else _last(newest),
            next=tuple(newest.next) if newest else (),
            messages=tuple(messages_of(self._reader, "")),
            tool_calls=calls,
            uncertain=_uncertain(calls),
            inputs=frozenset(session.checkpoints.inputs),
            memory=self.memory(_uncertain(calls)),
            ended=None if ended is None else ended.reason,
            error=None if ended is None else self._error(ended),
            crashed=session.crashed,
            recovered=tuple(MappingProxyType(msgspec.to_builtins(r)) for r in session.runs.recovered),
        )

    def _error(self, ended: records.Terminal) -> str | None:
        if ended.error is records.NO_TEXT:
            return None
        with self._reader.reading(self._session.checkpoints.places.ended or 0, "how the last run ended"):
            return str(self._reader.thaw.value(ended.error))

    def memory(self, uncertain: Sequence[ToolCall] | None = None) -> SessionMemory:
        """The session's memory; what is new since the last time is read."""
        session = self._session
        if session.recall is None or session.recall.deriver is not self._deriver:
            session.recall = Recall(self._deriver, self._ledger.redaction)
        try:
            session.recall.follow(session, self._reader)
        except BaseException:
            session.recall = None  # it took in a part of a record: the next one begins anew
            raise
        unknown = self.uncertain() if uncertain is None else uncertain
        return self._deriver.memory(session.recall.state, [self._ledger.redaction.call(call) for call in unknown])

    def uncertain(self) -> tuple[ToolCall, ...]:
        """The calls that may have had their effect and that nobody decided upon."""
        return (*self.recorded_uncertain(), *_uncertain(self._unrecorded()))

    def recorded_uncertain(self) -> tuple[ToolCall, ...]:
        """Those of them that a hook recorded; no message is read for them."""
        return _uncertain(map(self._told, self._session.tools.unsettled()))

    def results_of_uncertain(self, ns: str) -> list[tuple[Key, str]]:
        """The uncertain calls of a namespace that its messages hold a result of all the same, and its text."""
        uncertain = {(call.task_id, call.tool_call_id) for call in self.recorded_uncertain() if call.ns == ns}
        found: list[tuple[Key, str]] = []
        for message, call, name, result in with_results(messages_of(self._reader, ns), {}) if uncertain else ():
            same = [each for each in known(self._session.tools, call, name) if each.key in uncertain]
            if result is not None:
                found += [(c.key, str(result.text)) for c in same if not is_of_another(self._reader, c, message)]
        return found

    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Every tool call that the log tells of."""
        return (*(self._told(call) for call in self._session.tools if call.name), *self._unrecorded())

    def _told(self, call: Call) -> ToolCall:
        with self._reader.reading(call.seqs[-1], f"tool call {call.key[1]!r}"):
            return with_values(call, self._reader.thaw, self._ledger.is_alive)

    def decidable(self, tool_call_id: str, task_id: str | None) -> Key:
        """The key of the call with this id that somebody may decide upon.

        One that a human is asked about counts, whatever call with the same tool and arguments the question is about;
        one that was decided upon from outside, if the thread went on without it; and one that is over, also by a
        decision, as long as its run has not gone on: where only a callback records it nobody gives its result, and
        approved it runs again.

        Raises:
            ValueError: There is none, or there are two.
        """
        calls = [c for c in self.tool_calls() if c.tool_call_id == tool_call_id and task_id in (None, c.task_id)]
        tools = self._session.tools
        opened = {call.key for call in tools.with_id(tool_call_id) if call.is_asked_about}
        left = [call for call in tools.decided() if call.name and self._newest(call.ns)[0] > call.decided_at]
        opened.update(call.key for call in left)
        found = [c for c in calls if c.is_uncertain or (c.task_id, tool_call_id) in opened]
        found = found or [c for c in calls if self._runs_again_if_approved(c)][-1:]
        thread_id = self._session.identity.thread_id
        if not found:
            said = ", ".join(f"{c.status} in task {c.task_id!r}" for c in calls) or "not in its log"
            raise ValueError(f"tool call {tool_call_id!r} of thread {thread_id!r} is not uncertain: it is {said}")
        if len(found) > 1:
            tasks = ", ".join(repr(c.task_id) for c in found)
            raise ValueError(
                f"{len(found)} calls {tool_call_id!r} of thread {thread_id!r} are uncertain; give task_id: {tasks}"
            )
        return found[0].task_id, tool_call_id

    def _runs_again_if_approved(self, call: ToolCall) -> bool:
        """Whether a call is over, and a run may yet come to it again."""
        is_over = call.status in ("completed", "resolved") and call.ended == "completed"
        at = call.checkpoint_id
        return is_over and not is_replay_safe(call.effect) and (at is None or self._newest(call.ns)[1] <= at)

    def _newest(self, ns: str) -> tuple[int, str]:
        """A namespace's newest checkpoint: its record, and its id."""
        newest = self._session.checkpoints.get(ns, None)
        name = "" if newest is None else newest.id
        return self._session.checkpoints.seq(ns, name) if name else -1, name

    # --- calls that no hook recorded

    def _unrecorded(self) -> list[ToolCall]:
        found: list[ToolCall] = []
        lineages: dict[str, dict[str, records.Checkpoint]] = {}
        for ns in self._session.checkpoints.namespaces():
            newest = self._session.checkpoints.get(ns, None)
            if newest is None:
                continue
            name = newest.id
            found += unrecorded(
                messages_of(self._reader, ns),
                {m.tool_call_id: m for m in stored_results(self._reader, ns, [name])},
                self._is_recorded,
                ns=ns,
                checkpoint_id=name,
                open_status=partial(self._open_status, ns, Left(self._reader, ns), lineages),
            )
        decided = {call.key[1] for call in self._session.tools if call.verdict is not None and not call.name}
        return [replace(c, status="resolved") if c.tool_call_id in decided and c.result is None else c for c in found]

    def _is_over(
        self, ns: str, newest: records.Checkpoint, lineages: dict[str, dict[str, records.Checkpoint]]
    ) -> bool:
        """Whether the graph around a subgraph has gone on behind its task, as when a tool hands off to another agent.

        It goes on only with what the task came to, so all that the subgraph did has ended.
        """
        fold, writer_of = self._session.checkpoints, self._session.runs.writer_of
        around, name = namespaces.graph_around(ns), newest.id
        with self._reader.reading(fold.seq(ns, name), f"checkpoint {name!r}"):
            before = (self._reader.thaw.value(newest.metadata).get("parents") or {}).get(around)
        if before is None or not namespaces.is_of_task(ns):
            return False
        if around not in lineages:
            last = fold.get(around, None)
            line = [] if last is None else [last, *(record for _, record in fold.ancestors(around, None))]
            lineages[around] = {"" if r.parent is None else r.parent: r for r in line}
        behind = lineages[around]
        if fold.has(around, before):
            return before in behind and behind[before].source == "loop"
        # Under durability="exit" the last one of the same run stands for those between.
        later = [r.id for r in behind.values() if r.source == "loop" and r.id > before]
        return any(writer_of(fold.seq(around, each)) == writer_of(fold.seq(ns, name)) for each in later)

    def _is_recorded(self, message: AIMessage, call: Any, name: str, has_result: bool) -> bool:  # noqa: FBT001
        """Whether a hook recorded a call of a message; of two with one id that have a result, one is enough."""
        same = [each for each in known(self._session.tools, call, name) if each.name]
        return any(has_result or not is_of_another(self._reader, each, message) for each in same)

    def _open_status(
        self, ns: str, left: Left, lineages: dict[str, dict[str, records.Checkpoint]], message: AIMessage
    ) -> Status:
        """The status of a call of a message that has no record and no result, where it was left."""
        session, fold = self._session, self._session.checkpoints
        name = left.at(message)[-1]
        record = fold.get(ns, name)
        if any(w.channel == channels.INTERRUPT for w in fold.writes(ns, name)):
            return "waiting"
        writer = session.runs.writer_of(fold.seq(ns, name))
        # Where a hook was installed, a call without a record never started.
        if record is None or not record.next or session.runs.is_hooked(writer, ns):
            return "pending"
        if self._is_over(ns, record, lineages):
            return "completed"
        if session.writer.is_alive(writer):
            return "running" if fold.ended is None and name == left.lineage[0] else "pending"
        return "pending" if writer in session.runs.paused else "uncertain"


def lend(text: str, channels: dict[str, Any]) -> None:
    """Put a memory at the head of restored messages; whoever stores them leaves it out again."""
    held = channels.get(MESSAGES)
    if isinstance(held, list) and held and all(isinstance(m, BaseMessage) for m in held):
        channels[MESSAGES] = [MemoryMessage(content=text, id=MEMORY_ID), *held]


def _uncertain(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    return tuple(call for call in calls if call.is_uncertain)


def _last(record: records.Checkpoint) -> LastCheckpoint:
    source, created = record.source, record.created
    return LastCheckpoint(
        record.id,
        record.step,
        source,
        created if isinstance(created, (str, dict)) else None,
    )
