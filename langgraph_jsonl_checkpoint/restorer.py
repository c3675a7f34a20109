"""The part of a saver that tells what a thread is about to go on from, and serves the hooks of a running graph."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import sys
from typing import TYPE_CHECKING, Any, Literal

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_jsonl_checkpoint.errors import NoSessionError
from langgraph_jsonl_checkpoint.log.lines import no_collections
from langgraph_jsonl_checkpoint.restore.open_calls import OpenCalls
from langgraph_jsonl_checkpoint.restore.restored import Restored
from langgraph_jsonl_checkpoint.sessions.reader import Reader
from langgraph_jsonl_checkpoint.tool_calls.decisions import checked
from langgraph_jsonl_checkpoint.tool_calls.ledger import Ledger
from langgraph_jsonl_checkpoint.upkeep import threads
from langgraph_jsonl_checkpoint.upkeep.salvage import Salvage, salvage
from langgraph_jsonl_checkpoint.upkeep.verification import Head, Verification, verify
from langgraph_jsonl_checkpoint.values.seal import Serde
from langgraph_jsonl_checkpoint.values.serializer import TypedSerializer
from langgraph_jsonl_checkpoint.workers import submit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from langchain_core.messages import ToolMessage
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langgraph_jsonl_checkpoint.folds.memory import MemoryDeriver, SessionMemory
    from langgraph_jsonl_checkpoint.folds.resume import ResumeState, ToolCall
    from langgraph_jsonl_checkpoint.log.leases import Lease
    from langgraph_jsonl_checkpoint.restore.open_calls import Asked, OpenCall
    from langgraph_jsonl_checkpoint.sessions.pool import Sessions
    from langgraph_jsonl_checkpoint.sessions.session import Session
    from langgraph_jsonl_checkpoint.tool_calls.redaction import Redaction
    from langgraph_jsonl_checkpoint.upkeep.threads import SessionInfo

RestoreMemory = Literal["crashed", "always", "never"]

logger = logging.getLogger(__name__)


class Restorer:
    """What `JsonlSaver` has beyond LangGraph's interface."""

    serde: SerializerProtocol
    _sessions: Sessions
    _deriver: MemoryDeriver
    _restore_memory: RestoreMemory
    _redaction: Redaction

    def close(self) -> None:
        """Close every log. Later calls raise ClosedSaverError; what was stored is stored already."""
        self._sessions.close(_name(sys.exc_info()[0]))  # handled, or on its way through a `finally`

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not `close`: an exception that is handled around the `with` ends nothing.
        self._sessions.close(_name(kind))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await submit(self._sessions.close, _name(kind))

    def path(self, thread_id: str) -> pathlib.Path:
        """Where a thread's log is, or would be."""
        return pathlib.Path(self._sessions.path(str(thread_id)))

    def sessions(self, *, children: bool = False) -> Iterator[SessionInfo]:
        """Every thread, the last changed first, so that the first one is the latest session.

        Args:
            children: Whether to name those, too, that another thread's agent started
                (`configurable.parent_thread_id`).
        """
        yield from threads.infos(self._sessions, children=children)

    def logs(self) -> Iterator[tuple[pathlib.Path, str | None]]:
        """Every log and its thread, the last changed first; damaged ones, too.

        The thread is None if its id is too long for a directory's name, and the header cannot be read.
        """
        for found in self._sessions.logs():
            yield pathlib.Path(self._sessions.path_of(found)), self._sessions.thread_id(found)

    def pack(self, thread_id: str) -> bool:
        """Put a thread's log into few large frames with an index: smaller, and faster to open. Its lines stay.

        A saver does this itself when it closes a log to which it appended much.

        Returns:
            Whether there was anything to pack.

        Raises:
            CorruptSessionError: The log is damaged.
            OSError: The packed log could not be written; the log is as it was.
        """
        with self._sessions.use(str(thread_id)) as session:
            return session.pack()

    async def apack(self, thread_id: str) -> bool:
        """`pack` in a worker thread."""
        return await submit(self.pack, thread_id)

    def head(self, thread_id: str) -> Head:
        """Where a thread's log ends. Kept in another place, it proves later that nothing before it was cut off.

        Raises:
            NoSessionError: The thread has no log.
            CorruptSessionError: The log is damaged.
        """
        with self._sessions.use(str(thread_id)) as session:
            session.refresh()
            seq, chain = session.end
            if not session.exists:
                raise NoSessionError(f"thread {thread_id!r} has no log at {session.identity.path}")
        return Head(seq - 1, chain)

    async def ahead(self, thread_id: str) -> Head:
        """`head` in a worker thread."""
        return await submit(self.head, thread_id)

    def verify(self, thread_id: str, *, head: tuple[int, str] | None = None) -> Verification:
        """Check all of a thread's log, and change nothing.

        Args:
            thread_id: The thread.
            head: What `head` once said of it: the log must still hold that commit, and so all before it.

        Returns:
            A report, which is `ok` if the log is whole.

        Raises:
            NoSessionError: The thread has no log.
            UnsupportedVersionError: Another version of the package wrote it.
            TypeError: `head` is none.
            OSError: It cannot be read.
        """
        if head is not None and list(map(type, head)) != [int, str]:
            raise TypeError(f"a head is (seq, chain), as saver.head(thread_id) gives it, and not {head!r}")
        thread_id = str(thread_id)
        identity = self._sessions.identity(thread_id)
        return verify(identity, self._serde(thread_id), self._sessions.writer.chain_key, head)

    async def averify(self, thread_id: str, *, head: tuple[int, str] | None = None) -> Verification:
        """`verify` in a worker thread."""
        return await submit(self.verify, thread_id, head=head)

    def salvage(self, thread_id: str, into: str) -> Salvage:
        """Write every record of a damaged log that can be read into a new thread. The damaged one stays as it is.

        Args:
            thread_id: The damaged thread.
            into: The new one.

        Returns:
            What came of it, and what is lost.

        Raises:
            ValueError: The new thread exists, or is the damaged one.
            NoSessionError: The thread has no log.
            CorruptSessionError: Nothing of it can be read.
            OSError: The new log cannot be written.
        """
        return salvage(self._sessions, self._serde, str(thread_id), str(into))

    async def asalvage(self, thread_id: str, into: str) -> Salvage:
        """`salvage` in a worker thread."""
        return await submit(self.salvage, thread_id, into)

    def resume_state(self, thread_id: str) -> ResumeState:
        """What a thread is about to go on from, over all its namespaces. Nothing is run and nothing is written.

        Raises:
            NoSessionError: The thread has no log.
            CorruptSessionError: The log is damaged.
        """
        with self._restored(str(thread_id)) as (_, _, restored), no_collections():
            return restored.state()

    async def aresume_state(self, thread_id: str) -> ResumeState:
        """`resume_state` in a worker thread."""
        return await submit(self.resume_state, thread_id)

    def uncertain(self, thread_id: str) -> tuple[ToolCall, ...]:
        """The tool calls that may have had their effect, and that nobody decided upon."""
        with self._restored(str(thread_id)) as (_, _, restored):
            return restored.uncertain()

    def session_memory(self, thread_id: str) -> SessionMemory:
        """What a session was about; `str` of it is the text for a model."""
        with self._restored(str(thread_id)) as (_, _, restored):
            return restored.memory()

    def accepts(self, thread_id: str, input_id: str) -> bool:
        """Whether an input is new to the thread, so that it is to be applied."""
        with self._restored(str(thread_id)) as (session, _, _):
            return str(input_id) not in session.checkpoints.inputs

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
        with self._begun(thread_id) as (_, _, restored):
            key = restored.decidable(tool_call_id, task_id)
        self.ledger(thread_id).resolve(key, kind, message)

    async def aresolve(
        self, thread_id: str, tool_call_id: str, decision: Mapping[str, str], *, task_id: str | None = None
    ) -> None:
        """`resolve` in a worker thread."""
        await submit(self.resolve, thread_id, tool_call_id, decision, task_id=task_id)

    def _decide_as_updated(self, thread_id: str, ns: str) -> None:
        """Whoever puts the result of an uncertain call into the state by hand has decided about it."""
        with self._restored(thread_id) as (_, _, restored):
            results = restored.results_of_uncertain(ns)
        for key, text in results:
            self.ledger(thread_id).resolve(key, "respond", text, by="update")

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
        with self.ledger(thread_id).followed() as session:
            reader, restored = self._read(session)
            answers = OpenCalls(session, reader, self.ledger(thread_id)).answers(ns, calls) if calls else {}
            if not memory:
                return "", answers
            for known, text in session.texts:
                if run is not None and known is run:
                    return text, answers
            text = str(restored.memory())
            session.texts = [*session.texts[-3:], (run, text)]
            return text, answers

    @contextlib.contextmanager
    def _restored(self, thread_id: str) -> Iterator[tuple[Session, Reader, Restored]]:
        with self._sessions.use(thread_id) as session:
            session.refresh()
            yield session, *self._read(session)

    @contextlib.contextmanager
    def _begun(self, thread_id: str, run: object = None) -> Iterator[tuple[Session, Reader, Restored]]:
        """The same for what a run begins with."""
        with self._sessions.use(thread_id) as session:
            session.begin_run(run)
            yield session, *self._read(session)

    def _read(self, session: Session) -> tuple[Reader, Restored]:
        thread_id = session.identity.thread_id
        reader = Reader(session, self._serde(thread_id))
        return reader, Restored(session, reader, self.ledger(thread_id), self._deriver)

    def _lent(self, session: Session, restored: Restored) -> str | None:
        """The memory's text that is lent to a run that begins now; None if none is."""
        if self._restore_memory == "never" or not session.exists:
            return None
        try:
            return str(restored.memory()) or None if self._lends(session, restored) else None
        except Exception as error:  # noqa: BLE001 - `redact` and the deriver are the user's
            # A checkpoint that can be read does not wait for what is made of other records.
            logger.warning("thread %r is restored without its memory: %s", session.identity.thread_id, error)
            return None

    def _lends(self, session: Session, restored: Restored) -> bool:
        if self._restore_memory == "always" or session.crashed:
            return True
        ended = session.checkpoints.ended
        # A run that ended, or waits for a human, since the call was started has told the model.
        is_open = ended is None or ended.reason == "failed"
        return is_open and bool(restored.recorded_uncertain())

    def _serde(self, thread_id: str) -> Serde:
        return Serde(self.serde, thread_id, seals=self._seals)

    @property
    def _seals(self) -> bool:
        # A subclass of somebody else's may be there to hide what it stores.
        return type(self.serde) not in (JsonPlusSerializer, TypedSerializer)


def _name(kind: type[BaseException] | None) -> str:
    return "" if kind is None else kind.__name__
