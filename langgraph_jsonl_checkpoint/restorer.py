"""The part of a saver that tells what a thread is about to go on from, and serves the hooks of a running graph."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, Literal

from langgraph_jsonl_checkpoint.caretaker import Caretaker
from langgraph_jsonl_checkpoint.log.garbage import no_collections
from langgraph_jsonl_checkpoint.restore.open_calls import OpenCalls
from langgraph_jsonl_checkpoint.restore.restored import Restored
from langgraph_jsonl_checkpoint.sessions.reader import Reader
from langgraph_jsonl_checkpoint.tool_calls.decisions import checked
from langgraph_jsonl_checkpoint.tool_calls.ledger import Ledger
from langgraph_jsonl_checkpoint.workers import submit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.messages import ToolMessage

    from langgraph_jsonl_checkpoint.folds.memory import MemoryDeriver, SessionMemory
    from langgraph_jsonl_checkpoint.folds.resume import ResumeState, ToolCall
    from langgraph_jsonl_checkpoint.log.leases import Lease
    from langgraph_jsonl_checkpoint.restore.open_calls import Asked, OpenCall
    from langgraph_jsonl_checkpoint.sessions.session import Session
    from langgraph_jsonl_checkpoint.tool_calls.redaction import Redaction

RestoreMemory = Literal["crashed", "always", "never"]

logger = logging.getLogger(__name__)


class Restorer(Caretaker):
    """What a saver tells of a thread that somebody goes on with, and what it does for hooks."""

    _deriver: MemoryDeriver
    _restore_memory: RestoreMemory
    _redaction: Redaction

    def resume_state(self, thread_id: str) -> ResumeState:
        """What a thread is about to go on from, over all its namespaces. Nothing is run and nothing is written.

        Raises:
            NoSessionError: The thread has no log.
            CorruptSessionError: The log is damaged.
        """
        with self._restored(str(thread_id)) as restored, no_collections():
            return restored.state()

    async def aresume_state(self, thread_id: str) -> ResumeState:
        """`resume_state` in a worker thread."""
        return await submit(self.resume_state, thread_id)

    def uncertain(self, thread_id: str) -> tuple[ToolCall, ...]:
        """The tool calls that may have had their effect, and that nobody decided upon."""
        with self._restored(str(thread_id)) as restored:
            return restored.uncertain()

    async def auncertain(self, thread_id: str) -> tuple[ToolCall, ...]:
        """`uncertain` in a worker thread."""
        return await submit(self.uncertain, thread_id)

    def session_memory(self, thread_id: str) -> SessionMemory:
        """What a session was about; `str` of it is the text for a model."""
        with self._restored(str(thread_id)) as restored:
            return restored.memory()

    async def asession_memory(self, thread_id: str) -> SessionMemory:
        """`session_memory` in a worker thread."""
        return await submit(self.session_memory, thread_id)

    def accepts(self, thread_id: str, input_id: str) -> bool:
        """Whether an input is new to the thread, so that it is to be applied."""
        with self._sessions.use(str(thread_id)) as session:
            session.refresh()
            return str(input_id) not in session.checkpoints.inputs

    async def aaccepts(self, thread_id: str, input_id: str) -> bool:
        """`accepts` in a worker thread."""
        return await submit(self.accepts, thread_id, input_id)

    def lease(self, thread_id: str) -> Lease:
        """A turn with a thread, for those who take turns: `resume_or_invoke` does."""
        return self._sessions.lease(str(thread_id))

    def resolve(
        self, thread_id: str, tool_call_id: str, decision: Mapping[str, str], *, task_id: str | None = None
    ) -> None:
        """Decide about an uncertain tool call before its run goes on; nobody is asked about it then.

        Where only a `SessionRecorder` records the call nobody can give it a result: there "approve" lets it run, also
        after another decision, and the others stop the run.

        Args:
            thread_id: The thread.
            tool_call_id: The call, in any namespace.
            decision: {"type": "approve"}: it may run again. {"type": "respond", "message": …}: this is its result.
                {"type": "reject", "message": …}: it is not run again, and the model learns that its outcome is
                unknown.
            task_id: Its task, if two calls with this id are uncertain.

        Raises:
            ValueError: The decision is none, no such call is uncertain, or two are.
            OSError: The log cannot be written.
        """
        kind, message = checked(decision)
        thread_id = str(thread_id)
        with self._sessions.use(thread_id) as session:
            session.begin_run()
            key = self._restored_from(session, self._reader(session)).decidable(tool_call_id, task_id)
        self.ledger(thread_id).resolve(key, kind, message)

    async def aresolve(
        self, thread_id: str, tool_call_id: str, decision: Mapping[str, str], *, task_id: str | None = None
    ) -> None:
        """`resolve` in a worker thread."""
        await submit(self.resolve, thread_id, tool_call_id, decision, task_id=task_id)

    def _decide_as_updated(self, thread_id: str, ns: str) -> None:
        """Whoever puts the result of an uncertain call into the state by hand has decided about it."""
        with self._restored(thread_id) as restored:
            results = restored.results_of_uncertain(ns)
        for key, text in results:
            self.ledger(thread_id).resolve(key, "respond", text, by="update")

    # --- for the hooks of a running graph

    def ledger(self, thread_id: str) -> Ledger:
        """A thread's tool calls, for a hook that guards them."""
        return Ledger(self._sessions, self._serde(thread_id), thread_id, self._redaction)

    def shares(self, other: Any, thread_id: str) -> bool:
        """Whether another checkpointer keeps this thread in the same log."""
        return isinstance(other, Restorer) and other.path(thread_id) == self.path(thread_id)

    def context(
        self, thread_id: str, ns: str, run: object, calls: Sequence[OpenCall], *, memory: bool
    ) -> tuple[str, dict[Asked, ToolMessage]]:
        """What a model is to be told beside its messages.

        Args:
            thread_id: The thread.
            ns: The namespace whose messages they are.
            run: Stands for the run: within one the memory's text stays what it was first, so that prompt caches hold.
            calls: The tool calls among the messages that have no result.
            memory: Whether the memory is wanted.

        Returns:
            The memory's text, and what is known of those calls.
        """
        ledger = self.ledger(thread_id)
        with ledger.followed() as session:
            reader = self._reader(session)
            answers = OpenCalls(session, reader, ledger).answers(ns, calls) if calls else {}
            if not memory:
                return "", answers
            for known, text in session.texts:
                if run is not None and known is run:
                    return text, answers
            text = str(self._restored_from(session, reader).memory())
            session.texts = [*session.texts[-3:], (run, text)]
            return text, answers

    # --- a thread, read from its log

    @contextlib.contextmanager
    def _restored(self, thread_id: str) -> Iterator[Restored]:
        with self._sessions.use(thread_id) as session:
            session.refresh()
            yield self._restored_from(session, self._reader(session))

    def _restored_from(self, session: Session, reader: Reader) -> Restored:
        return Restored(session, reader, self.ledger(session.identity.thread_id), self._deriver)

    def _reader(self, session: Session) -> Reader:
        return Reader(session, self._serde(session.identity.thread_id))

    def _lent(self, session: Session, reader: Reader) -> str | None:
        """The text of the session memory, if a run that begins now is to find it among its messages."""
        if self._restore_memory == "never" or not session.exists:
            return None
        try:
            restored = self._restored_from(session, reader)
            return str(restored.memory()) or None if self._lends(session, restored) else None
        except Exception as error:  # noqa: BLE001 - `redact` and the deriver are the user's
            # The checkpoint can be read, so it is given out, even if what the memory is made of cannot.
            logger.warning("thread %r is restored without its memory: %s", session.identity.thread_id, error)
            return None

    def _lends(self, session: Session, restored: Restored) -> bool:
        if self._restore_memory == "always" or session.crashed:
            return True
        ended = session.checkpoints.ended
        # If a run has ended, or waits for a human, since the call was started, then the model was told of it.
        is_open = ended is None or ended.reason == "failed"
        return is_open and bool(restored.recorded_uncertain())
