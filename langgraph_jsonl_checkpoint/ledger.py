"""One thread's tool calls, for the hooks of a running graph: what may run, and the records that say so.

The order for each call: ask about what is uncertain, decide under the log's lock, put `started` on the disk, run the
tool, record the end. Under the lock the log is read up to its end, so no two processes start one call.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.messages import ToolMessage

from langgraph_jsonl_checkpoint import upstream
from langgraph_jsonl_checkpoint.errors import (
    DeletedSessionError,
    SessionError,
    ToolCallError,
    ToolCallRunningError,
    ToolLogError,
    UncertainToolCallError,
)
from langgraph_jsonl_checkpoint.folds.tool_calls import RUNS_AGAIN, Call, Decision
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.values.freeze import Freezer
from langgraph_jsonl_checkpoint.values.thaw import Thawer
from langgraph_jsonl_checkpoint.values.types import tag_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langgraph_jsonl_checkpoint.folds.tool_calls import Effect, Key
    from langgraph_jsonl_checkpoint.session import Session
    from langgraph_jsonl_checkpoint.sessions import Sessions
    from langgraph_jsonl_checkpoint.values.book import Page
    from langgraph_jsonl_checkpoint.values.seal import Serde

OnUncertain = Literal["interrupt", "report", "replay"]

KINDS = ("approve", "respond", "reject")
"""What a human may decide."""

_ERROR = 2000  # characters of an error's text


@dataclass(frozen=True)
class Visit:
    """A call that is about to run.

    Attributes:
        key: Task and tool_call_id.
        name: The tool.
        args: Its arguments, as they will run.
        effect: What running it does.
        check: Whether its result says if the work is right.
        ns: Namespace of the checkpoint that leads to its task.
        checkpoint: Id of that checkpoint.
    """

    key: Key
    name: str
    args: Any
    effect: Effect
    check: bool
    ns: str
    checkpoint: str | None


class Question(NamedTuple):
    """What a human is asked about one call.

    Attributes:
        visit: The call.
        args: The arguments that it was started with.
        attempt: The attempt that is uncertain; 0 if it is another call's, with the same tool and arguments.
        started_at: When that was started.
        description: What is known of it.
        asked_from: How many of the task's answers were used when this was asked last; None if it was not.
        orphan: The other call, if it is about one.
    """

    visit: Visit
    args: Any
    attempt: int
    started_at: str | None
    description: str
    asked_from: int | None
    orphan: Call | None = None


class Run(NamedTuple):
    """The tool is to run."""

    attempt: int


class Give(NamedTuple):
    """The tool is not to run: this is its result."""

    result: Any


class Ledger:
    """The tool calls of one thread.

    Args:
        sessions: The saver's sessions.
        serde: The saver's serde for the thread.
        thread_id: The thread.
        syncs: Whether what matters is synced; not under `fsync="never"`.

    Attributes:
        thread_id: The thread.
    """

    def __init__(self, sessions: Sessions, serde: Serde, thread_id: str, *, syncs: bool) -> None:
        self._sessions = sessions
        self._serde = serde
        self.thread_id = thread_id
        self._syncs = syncs

    def announce(self) -> None:
        """Say in the log, with the next record, that a hook records the thread's calls."""
        self._sessions.peek(self.thread_id).hooked = True

    def holds(self, ns: str, checkpoint_id: str) -> bool:
        """Whether a checkpoint is in the log.

        Raises:
            ToolLogError: Something of this run could not be stored, so it will not come.
        """
        with self.followed() as session:
            return session.checkpoints.get(ns, checkpoint_id) is not None

    @contextlib.contextmanager
    def followed(self) -> Iterator[Session]:
        """The session, locked and read up to its end, in the middle of a run.

        Raises:
            ToolLogError: Something of this run could not be stored.
        """
        with self._told(), self._sessions.use(self.thread_id) as session:
            session.follow_run()
            yield session

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """An error of the storage as one that stops the run, whatever handles errors around it."""
        try:
            yield
        except ToolCallError:
            raise
        except (SessionError, OSError) as error:
            raise ToolLogError(
                f"a tool call of thread {self.thread_id!r} could not be recorded in "
                f"{self._sessions.path(self.thread_id)} ({type(error).__name__}: {error}). The run was stopped; free "
                "what is in the way and run the thread again with None as its input."
            ) from error

    def is_running(self, key: Key) -> bool:
        """Whether the call runs in this process at this moment."""
        return (self.thread_id, *key) in self._sessions.running

    # --- before a call

    def questions(self, visits: Sequence[Visit]) -> tuple[list[Question], int]:
        """What is to be asked about the calls of one task, and how many of the task's answers were used before."""
        with self.followed() as session:
            found = [q for visit in visits if (q := self._question(session, visit)) is not None]
            return found, session.tools.spent(visits[0].key[0])

    def ask(self, questions: Sequence[Question], spent: int) -> None:
        """Record that a human is asked now, when `spent` answers of the task were used."""
        parts = [self._freeze(q.visit.args) for q in questions]

        def make(page: Page, session: Session) -> list[records.Record]:
            made: list[records.Record] = []
            for question, args in zip(questions, parts, strict=True):
                if session.tools.get(question.visit.key) is None:
                    made.append(_requested(question.visit, page.text(args), question.orphan))
                made.append(_step(question.visit.key, "asked", attempt=question.attempt, spent=spent))
            return made

        self._append(make, sync=True, checkpoint=questions[0].visit.checkpoint)

    def enter(
        self, visit: Visit, decisions: Mapping[str, tuple[str, str]], on_uncertain: OnUncertain | None, spent: int
    ) -> Run | Give:
        """Whether a call is to run; if it is, `started` is in the log, and on the disk if it has side effects.

        Args:
            visit: The call.
            decisions: What a human just said, by tool_call_id: (kind, message).
            on_uncertain: What to do with an uncertain call that nobody decided upon; None if the caller can neither
                ask nor give the tool another result.
            spent: How many answers of the task are used.

        Raises:
            ToolLogError: The log cannot be written; the call is not started.
            ToolCallRunningError: A live writer runs it.
            UncertainToolCallError: It is uncertain, and nobody was or can be asked.
        """
        args = self._freeze(visit.args)
        outcome: Run | Give | None = None

        def make(page: Page, session: Session) -> list[records.Record]:
            nonlocal outcome
            outcome, made = self._judge(session, visit, decisions.get(visit.key[1]), on_uncertain, spent, page, args)
            return made

        self._append(make, sync=visit.effect == "side_effects", checkpoint=visit.checkpoint)
        assert outcome is not None  # noqa: S101 - make has run
        if isinstance(outcome, Run):
            self._sessions.running.add((self.thread_id, *visit.key))
        return outcome

    def leave(self, visit: Visit, status: str, error: BaseException | None = None, *, result: Any = None) -> None:
        """Record how a call ended.

        Args:
            visit: The call.
            status: "completed", "failed", "cancelled" or "paused".
            error: What it raised.
            result: What the model is told, if anything.

        Raises:
            ToolLogError: The log cannot be written. The call is uncertain now.
        """
        try:
            try:
                part = None if result is None else self._freeze(result)
            except ToolLogError as unfit:
                # The effect is there, its result cannot be kept: on resume somebody has to decide.
                self._end(visit, "failed", None, unfit)
                raise
            self._end(visit, status, part, error)
        finally:
            self._sessions.running.discard((self.thread_id, *visit.key))

    def _end(self, visit: Visit, status: str, result: Any, error: BaseException | None) -> None:
        said = None if error is None else f"{type(error).__name__}: {error}"[:_ERROR]

        def make(page: Page, _: Session) -> list[records.Record]:
            return [
                _step(
                    visit.key,
                    status,
                    result=records.NO_TEXT if result is None else page.text(result),
                    error=records.NO_TEXT if said is None else page.text(said),
                )
            ]

        self._append(make, sync=visit.effect == "side_effects", checkpoint=visit.checkpoint)

    def resolve(self, key: Key, kind: str, message: str) -> None:
        """Record a decision about the last attempt of a call, from outside of a run."""

        def make(page: Page, session: Session) -> list[records.Record]:
            call = session.tools.get(key)
            attempt = call.attempt if call is not None else 0
            return [_resolved(key, Decision(kind, attempt, page.text(message), "resolve"))]

        self._write(make, sync=True)

    # --- the rules

    def _judge(
        self,
        session: Session,
        visit: Visit,
        said: tuple[str, str] | None,
        on_uncertain: OnUncertain | None,
        spent: int,
        page: Page,
        args: Any,
    ) -> tuple[Run | Give, list[records.Record]]:
        """What is to be done with a call, and what the log has to say first."""
        if self.is_running(visit.key):
            raise ToolCallRunningError(f"{_named(visit)} runs in this process at this moment")
        thaw = Thawer(session.book, self._serde)
        call = session.tools.get(visit.key) or Call(visit.key)
        if call.has_result and (on_uncertain is not None or visit.effect == "side_effects"):
            return Give(thaw.value(call.result)), []
        status = "uncertain" if self._is_unrecorded(session, visit) else call.status(self.is_alive)
        if status == "running":
            raise ToolCallRunningError(
                f"{_named(visit)} is run by the live writer {call.writer!r} since {call.started_at}"
            )
        made: list[records.Record] = []
        verdict = call.verdict
        orphan = self._orphan(session, visit, thaw) if not call.attempt and verdict is None else None
        if not call.name or thaw.value(call.args) != visit.args or orphan is not None:
            made.append(_requested(visit, page.text(args), orphan))
        if verdict is None and (status == "uncertain" or orphan is not None):
            verdict = self._verdict(session, call, orphan, said, on_uncertain, visit, page)
            made.append(_resolved(visit.key, verdict))
        if verdict is not None and verdict.kind not in RUNS_AGAIN:
            result = _told(verdict.kind, thaw.value(verdict.message), visit, orphan or call, thaw)
            made.append(_step(visit.key, "completed", result=page.text(self._freeze(result))))
            return Give(result), made
        attempt = call.attempt + 1
        started = _step(visit.key, "started", attempt=attempt, by=session.identity.writer, spent=spent)
        return Run(attempt), [*made, started]

    def _verdict(
        self,
        session: Session,
        call: Call,
        orphan: Call | None,
        said: tuple[str, str] | None,
        on_uncertain: OnUncertain | None,
        visit: Visit,
        page: Page,
    ) -> Decision:
        """What is decided about an uncertain call: by a human now, from outside before, or by the policy."""
        if said is not None:
            return Decision(said[0], call.attempt, page.text(said[1]), "answer")
        if orphan is not None and orphan.verdict is not None:
            return orphan.verdict._replace(attempt=call.attempt)
        outside = session.tools.get(("", visit.key[1]))
        if not call.name and outside is not None and outside.verdict is not None:
            return outside.verdict
        if on_uncertain in ("report", "replay"):
            return Decision(on_uncertain, call.attempt, page.text(""), "policy")
        about = orphan or call
        raise UncertainToolCallError(
            f"{_named(visit)} may have had its effect already: it was started at "
            f"{about.started_at or 'a time unknown'} and {_how(about)}. Decide with "
            f"saver.resolve({self.thread_id!r}, {about.key[1]!r}, …), then run the thread again with None as its "
            "input."
        )

    def _orphan(self, session: Session, visit: Visit, thaw: Thawer) -> Call | None:
        """An uncertain call of another checkpoint with this tool and these arguments: its AIMessage was lost.

        One that was decided upon from outside, and has not been told the decision, counts too; and one that ended,
        but whose result died with its process.
        """
        tools = session.tools
        if visit.effect != "side_effects":
            return None
        for call in (*tools.unsettled(), *tools.decided(), *tools.undelivered()):
            if call.heir is not None and call.heir != visit.key or call.replay_safe or call.name != visit.name:
                continue
            same_place = (call.ns, call.checkpoint) == (visit.ns, visit.checkpoint)
            if call.key == visit.key or same_place or not _equal(thaw.value(call.args), visit.args):
                continue
            lost = call.has_result and not self.is_alive(call)
            if lost or call.verdict is not None or call.status(self.is_alive) == "uncertain":
                return call
        return None

    def _question(self, session: Session, visit: Visit) -> Question | None:
        call = session.tools.get(visit.key) or Call(visit.key)
        if call.has_result or call.verdict is not None or self.is_running(visit.key):
            return None
        thaw = Thawer(session.book, self._serde)
        asked = call.asked[1] if call.asked is not None and call.asked[0] == call.attempt else None
        if self._is_unrecorded(session, visit):
            outside = session.tools.get(("", visit.key[1]))
            if outside is not None and outside.verdict is not None:
                return None
            text = f"{visit.name} may have been started by a run whose tool calls nobody recorded."
            return Question(visit, visit.args, 0, None, text, asked)
        if call.status(self.is_alive) == "uncertain":
            said = thaw.value(call.error) if call.error is not records.NO_TEXT else ""
            text = (
                f"{call.name} was started and {_how(call)}{f' ({said})' if said else ''}: it may have had its effect."
            )
            return Question(visit, thaw.value(call.args), call.attempt, call.started_at, text, asked)
        if call.attempt or (orphan := self._orphan(session, visit, thaw)) is None or orphan.verdict is not None:
            return None
        text = (
            f"{orphan.name} was started before with the same arguments and {_how(orphan)}: it may have had its "
            "effect, and now it is asked for again."
        )
        return Question(visit, visit.args, 0, orphan.started_at, text, asked, orphan)

    def _is_unrecorded(self, session: Session, visit: Visit) -> bool:
        """Whether a call has no record because nobody recorded it, and not because it never started.

        So it is if its checkpoint was written without a hook by a writer that is dead, neither closed the session in
        good order nor left the task waiting for a human.
        """
        known = session.tools.get(visit.key)
        fold, runs = session.checkpoints, session.runs
        if (
            visit.effect != "side_effects"
            or visit.checkpoint is None
            or known is not None
            and known.verdict is not None
        ):
            return False
        if known is not None and known.attempt or fold.get(visit.ns, visit.checkpoint) is None:
            return False
        writer = runs.writer_of(fold.seq(visit.ns, visit.checkpoint))
        if runs.hooks.get(writer, True) or writer in runs.ended or session.writer.is_alive(writer):
            return False
        writes = fold.writes(visit.ns, visit.checkpoint)
        return not any(w.task == visit.key[0] and w.channel == upstream.INTERRUPT for w in writes)

    def is_alive(self, call: Call) -> bool:
        """Whether whoever started a call's last attempt lives, and, if it is this saver, still runs it."""
        writer = self._sessions.writer
        if call.writer == writer.id and not call.end:
            return self.is_running(call.key)
        return writer.is_alive(call.writer)

    # --- the log

    def _freeze(self, value: Any) -> Any:
        session = self._sessions.peek(self.thread_id)
        try:
            return Freezer(session.known, self._serde.tree).freeze(value)[0]
        except Exception as error:
            raise ToolLogError(
                f"a tool call of thread {self.thread_id!r} has a {type(value).__name__} that cannot be stored "
                f"({type(error).__name__}: {error}). Let the tool take and return plain values."
            ) from error

    def _append(
        self, make: Callable[[Page, Session], list[records.Record]], *, sync: bool, checkpoint: str | None = None
    ) -> None:
        with self._told():
            self._write(make, sync=sync, checkpoint=checkpoint)

    def _write(
        self, make: Callable[[Page, Session], list[records.Record]], *, sync: bool, checkpoint: str | None = None
    ) -> None:
        with self._sessions.use(self.thread_id) as session:
            late = checkpoint is not None and self._sessions.is_late(self.thread_id, checkpoint)
            seal = self._serde.seal if self._serde.seals else None
            wanted = sync if self._syncs else None
            if late or not session.append(lambda page: make(page, session), seal, sync=wanted):
                raise DeletedSessionError(f"thread {self.thread_id!r} was deleted during its run")


def _step(key: Key, status: str, **more: Any) -> records.Tool:
    return records.Tool(task=tag_text(key[0]), call=tag_text(key[1]), status=status, **more)


def _requested(visit: Visit, args: Any, orphan: Call | None) -> records.Tool:
    return _step(
        visit.key,
        "requested",
        ns=tag_text(visit.ns),
        checkpoint=None if visit.checkpoint is None else tag_text(visit.checkpoint),
        name=tag_text(visit.name),
        args=args,
        effect=visit.effect,
        check=visit.check,
        orphan=None if orphan is None else [tag_text(orphan.key[0]), tag_text(orphan.key[1])],
    )


def _resolved(key: Key, verdict: Decision) -> records.Tool:
    return _step(
        key, "resolved", attempt=verdict.attempt, decision=verdict.kind, message=verdict.message, by=verdict.by
    )


def _told(kind: str, said: str, visit: Visit, about: Call, thaw: Thawer) -> ToolMessage:
    """The result of a call that is not run: what the model is told."""
    name, tool_call_id = visit.name, visit.key[1]
    if kind == "respond":
        return ToolMessage(said, name=name, tool_call_id=tool_call_id)
    if about.has_result and isinstance(result := thaw.value(about.result), ToolMessage):
        return result.model_copy(update={"tool_call_id": tool_call_id})
    text = outcome_unknown(about, thaw)
    if kind == "reject":
        text += " It was not run again." + (f" A human says: {said}" if said else "")
    else:
        text += " It was not run again. Check what happened before you call it again."
    return ToolMessage(text, name=name, tool_call_id=tool_call_id, status="error")


def outcome_unknown(call: Call, thaw: Thawer) -> str:
    """What a model is told of an uncertain call."""
    said = f" ({thaw.value(call.error)})" if call.error is not records.NO_TEXT else ""
    return f"Outcome unknown: {call.name} was started and {_how(call)}{said}. It may or may not have had its effect."


def _how(call: Call) -> str:
    if call.has_result:
        return "ended, but its result was lost with its process"
    if call.end == "failed":
        return "raised an error"
    return "was stopped while it ran" if call.end == "cancelled" else "its end was not recorded"


def _named(visit: Visit) -> str:
    return f"tool call {visit.key[1]!r} ({visit.name}) of task {visit.key[0]!r}"


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - arrays, and whatever compares as it likes
        return repr(one) == repr(other)


def checked(decision: Any) -> tuple[str, str]:
    """A decision as (kind, message).

    Raises:
        ValueError: It is none.
    """
    if not isinstance(decision, dict) or decision.get("type") not in KINDS:
        raise ValueError(f'a decision is {{"type": {" | ".join(KINDS)}, "message": str}}, not {decision!r}')
    message = decision.get("message") or ""
    if not isinstance(message, str):
        raise ValueError(f"a decision's message is a string, not {message!r}")  # noqa: TRY004
    return decision["type"], message
