"""One thread's tool calls, for the hooks of a running graph: what may run, and the records that say so.

The order for each call: ask about what is uncertain, decide under the log's lock, put `started` on the disk, run the
tool, record the end. Under the lock the log is read up to its end, so no two processes start one call.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph_jsonl_checkpoint.errors import (
    DeletedSessionError,
    SessionError,
    ToolCallError,
    ToolLogError,
)
from langgraph_jsonl_checkpoint.folds.tool_calls import Decision
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.tool_calls.rules import Rules, is_equal
from langgraph_jsonl_checkpoint.tool_calls.steps import requested, resolved, step
from langgraph_jsonl_checkpoint.upstream import namespaces
from langgraph_jsonl_checkpoint.values.freeze import Freezer
from langgraph_jsonl_checkpoint.values.text import error_text
from langgraph_jsonl_checkpoint.values.thaw import Thawer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langgraph_jsonl_checkpoint.folds.tool_calls import Call, Key
    from langgraph_jsonl_checkpoint.sessions.pool import Sessions
    from langgraph_jsonl_checkpoint.sessions.session import Session
    from langgraph_jsonl_checkpoint.tool_calls.redaction import Redaction
    from langgraph_jsonl_checkpoint.tool_calls.rules import Judgement, OnUncertain, Question, Visit
    from langgraph_jsonl_checkpoint.values.page import Page
    from langgraph_jsonl_checkpoint.values.seal import Serde


class Asked(NamedTuple):
    """What the log says about the answers to one task's calls.

    Attributes:
        questions: What is to be asked.
        spent: How many of the task's answers are used.
        stale: The last answer that was given to a run as a whole, if it came before these calls were started or asked
            about, so that it says nothing about them.
        drew: Of the calls that are not over, and have waited for a human in their tools, the numbers of the answers
            that each waited for.
        calls: What is known of the task's calls.
    """

    questions: list[Question]
    spent: int
    stale: Any
    drew: dict[Key, list[int]]
    calls: list[Call]


class Ledger:
    """The tool calls of one thread.

    Args:
        sessions: The saver's sessions.
        serde: The saver's serde for the thread.
        thread_id: The thread.
        redaction: What may be kept of its calls.

    Attributes:
        thread_id: The thread.
        redaction: As given.
    """

    def __init__(self, sessions: Sessions, serde: Serde, thread_id: str, redaction: Redaction) -> None:
        self._sessions = sessions
        self._serde = serde
        self.thread_id = thread_id
        self.redaction = redaction

    def announce(self, ns: str | None = None) -> None:
        """Say in the log, with the next record, that a hook records the calls of a namespace; of all without one."""
        self._sessions.announce(self.thread_id, ns)

    def holds(self, ns: str, checkpoint_id: str) -> bool:
        """Whether a checkpoint is in the log, or will never come into it.

        Raises:
            ToolLogError: Something of this run could not be stored, so it will not come.
        """
        with self.followed() as session:
            if namespaces.graph_of(ns) in session.left_out:
                return True
            while not session.checkpoints.has(ns, checkpoint_id):
                if not ns:
                    return False
                ns = namespaces.parent(ns)  # a @task's calls come from the checkpoint of its entrypoint
            return True

    def leaves_out(self, ns: str) -> bool:
        """Whether nothing of a subgraph comes into this log; from now on nobody waits for it."""
        with self._sessions.use(self.thread_id) as session:
            if ns in session.checkpoints.namespaces():
                return False
            session.left_out.add(namespaces.graph_of(ns))
            return True

    @contextlib.contextmanager
    def followed(self) -> Iterator[Session]:
        """The session, locked and read up to its end, in the middle of a run.

        Raises:
            ToolLogError: Something of this run could not be stored, or what the log says could not be read.
        """
        with (
            self._told(f"what the log says of thread {self.thread_id!r} could not be read from"),
            self._sessions.use(self.thread_id) as session,
        ):
            session.follow_run()
            yield session

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """An error of the storage, with what it hindered, as one that stops the run, whatever handles errors."""
        try:
            yield
        except ToolCallError:
            raise
        except (SessionError, OSError) as error:
            raise ToolLogError(
                f"{what} {self._sessions.path(self.thread_id)} ({type(error).__name__}: {error}). The run was "
                "stopped; free what is in the way and run the thread again with None as its input."
            ) from error

    def is_running(self, key: Key) -> bool:
        """Whether the call runs in this process at this moment."""
        return (self.thread_id, *key) in self._sessions.running

    def is_guarded(self, key: Key) -> bool:
        """Whether a guard runs the call, or another with its id in its task, at this moment; it tells each end."""
        task, name = key
        running = [call for call, guarded in list(self._sessions.running.items()) if guarded]
        return any(
            call[:2] == (self.thread_id, task) and (call[2] == name or call[2].startswith(f"{name}#"))
            for call in running
        )

    # --- before a call

    def questions(self, visits: Sequence[Visit]) -> Asked:
        """What is to be asked about the calls of one task."""
        with self.followed() as session:
            rules = self._rules(session)
            found = [q for visit in visits if (q := rules.question(visit)) is not None]
            spent = session.tools.spent(visits[0].key[0])
            calls = session.tools.of_task(visits[0].key[0])
            asked = [call.asked_at for call in calls]
            answer = session.checkpoints.answer
            is_stale = answer is not None and answer[0] < max(asked, default=-1)
            thaw = Thawer(session.book, self._serde)
            stale = thaw.value(answer[1]) if answer is not None and is_stale else None
            drew = {call.key: sorted(call.drew) for call in calls if call.drew and not call.is_over}
            return Asked(found, spent, stale, drew, calls)

    def ask(self, questions: Sequence[Question], spent: int) -> None:
        """Record that a human is asked now, when `spent` answers of the task were used."""
        parts = [self._freeze(q.visit.args) for q in questions]

        def make(page: Page, session: Session) -> list[records.Record]:
            made: list[records.Record] = []
            for question, args in zip(questions, parts, strict=True):
                if session.tools.get(question.visit.key) is None:
                    made.append(requested(question.visit, page.text(args), question.orphan))
                made.append(step(question.visit.key, "asked", attempt=question.attempt, spent=spent))
            return made

        self._append(make, sync=True, checkpoint=questions[0].visit.checkpoint)

    def enter(
        self,
        visit: Visit,
        decisions: Mapping[str, tuple[str, str]],
        on_uncertain: OnUncertain | None,
        spent: int,
        *,
        again: bool = False,
    ) -> Judgement:
        """What is to be done with a call; if it runs, `started` is in the log (and on the disk, by its effect).

        Args:
            visit: The call.
            decisions: What a human just said, by tool_call_id: (kind, message).
            on_uncertain: What to do with an uncertain call that nobody decided upon; None if the caller can neither
                ask nor give the tool another result.
            spent: How many answers of the task are used; 0 if the caller takes none.
            again: Whether whatever stands around the tool has seen its result, and wants another attempt.

        Raises:
            ToolLogError: The log cannot be written; the call is not started.
            ToolCallRunningError: A live writer runs it.
            UncertainToolCallError: It is uncertain, and nobody was or can be asked.
        """
        args = self._freeze(visit.args)
        judged: Judgement | None = None

        def make(page: Page, session: Session) -> list[records.Record]:
            nonlocal judged
            judged = self._rules(session).judge(visit, decisions.get(visit.key[1]), on_uncertain, again=again)
            made: list[records.Record] = []
            if judged.is_new:
                made.append(requested(visit, page.text(args), judged.orphan))
            if (verdict := judged.verdict) is not None:
                said = self.redaction.value(visit.name, verdict.message)
                decision = Decision(verdict.kind, judged.attempt, page.text(said), verdict.by)
                made.append(resolved(visit.key, decision))
            if judged.runs:
                writer = session.writer.id
                made.append(step(visit.key, "started", attempt=judged.attempt + 1, by=writer, spent=spent))
            elif not judged.is_recorded:
                kept = self.redaction.value(visit.name, judged.result)
                redacted = not is_equal(kept, judged.result)
                made.append(step(visit.key, "completed", result=page.text(self._freeze(kept)), redacted=redacted))
            return made

        def start() -> None:
            if judged is not None and judged.runs:
                self._sessions.running[(self.thread_id, *visit.key)] = on_uncertain is not None

        self._append(make, sync=visit.effect == "side_effects", checkpoint=visit.checkpoint, then=start)
        assert judged is not None  # noqa: S101 - make has run
        return judged

    def leave(
        self,
        visit: Visit,
        status: str,
        error: BaseException | None = None,
        *,
        result: Any = None,
        sent: Sequence[tuple[str, Any]] = (),
        **more: Any,
    ) -> None:
        """Record how a call ended.

        Args:
            visit: The call.
            status: "completed", "failed", "cancelled", "withdrawn" or "paused".
            error: What it raised.
            result: What the model is told, if anything.
            sent: What the call wrote to the state beside it.
            **more: Fields of the record: the number of the task's answer that it waits for, if it is paused; and
                those that it drew.

        Raises:
            ToolLogError: The log cannot be written. The call is uncertain now.
        """
        try:
            try:
                kept = self.redaction.value(visit.name, result)
                part = None if result is None else self._freeze(kept)
                writes = None if part is None else self.redaction.writes(visit.name, sent)
                frozen = writes and self._freeze(writes)
                said = None
                if error is not None and status in ("failed", "cancelled"):
                    said = self.redaction.value(visit.name, error_text(error))
            except ToolLogError as unfit:
                # The effect is there, its result cannot be kept: on resume somebody has to decide.
                self._end(visit, "failed", None, error_text(unfit), None)
                raise
            redacted = not is_equal(kept, result) or bool(sent) and part is not None and writes is None
            self._end(visit, status, part, said, frozen, redacted=redacted, **more)
        finally:
            self._sessions.running.pop((self.thread_id, *visit.key), None)

    def _end(self, visit: Visit, status: str, result: Any, said: str | None, sent: Any, **more: Any) -> None:
        def make(page: Page, _: Session) -> list[records.Record]:
            return [
                step(
                    visit.key,
                    status,
                    result=records.NO_TEXT if result is None else page.text(result),
                    error=records.NO_TEXT if said is None else page.text(said),
                    sent=records.NO_TEXT if sent is None else page.text(sent),
                    **more,
                )
            ]

        self._append(make, sync=visit.effect == "side_effects", checkpoint=visit.checkpoint)

    def resolve(self, key: Key, kind: str, message: str, by: str = "resolve") -> None:
        """Record a decision about the last attempt of a call, from outside of a run."""

        def make(page: Page, session: Session) -> list[records.Record]:
            call = session.tools.get(key)
            attempt = call.attempt if call is not None else 0
            said = self.redaction.value(call.name if call is not None else "", message)
            return [resolved(key, Decision(kind, attempt, page.text(said), by))]

        self._write(make, sync=True)

    def is_alive(self, call: Call) -> bool:
        """Whether whoever started a call's last attempt lives, and, if it is this saver, still runs it."""
        if not call.end:
            return self._sessions.may_be_running(call.writer, (self.thread_id, *call.key))
        # Whoever goes on with the saver that saw a call raise has seen it, too; anybody else has not.
        return call.writer == self._sessions.writer.id

    def _rules(self, session: Session) -> Rules:
        return Rules(session, Thawer(session.book, self._serde), self.is_alive, self.is_running)

    # --- the log

    def _freeze(self, value: Any) -> Any:
        session = self._sessions.peek(self.thread_id)
        try:
            return Freezer(session.shadows.known, self._serde.tree).freeze(value)[0]
        except Exception as error:
            raise ToolLogError(
                f"a tool call of thread {self.thread_id!r} has a {type(value).__name__} that cannot be stored "
                f"({type(error).__name__}: {error}). Let the tool take and return plain values."
            ) from error

    def _append(
        self,
        make: Callable[[Page, Session], list[records.Record]],
        *,
        sync: bool,
        checkpoint: str | None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        with self._told(f"a tool call of thread {self.thread_id!r} could not be recorded in"):
            self._write(make, sync=sync, checkpoint=checkpoint, then=then)

    def _write(
        self,
        make: Callable[[Page, Session], list[records.Record]],
        *,
        sync: bool,
        checkpoint: str | None = None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        with self._sessions.use(self.thread_id) as session:
            late = checkpoint is not None and self._sessions.is_late(session, checkpoint)
            if late or not session.append(lambda page: make(page, session), self._serde, sync=sync):
                raise DeletedSessionError(f"thread {self.thread_id!r} was deleted during its run")
            then()
