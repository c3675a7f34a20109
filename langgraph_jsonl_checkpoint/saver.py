"""JsonlSaver: LangGraph's checkpointer interface, sync and async, over one log per thread."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import pathlib
from os import getcwd  # bound here: a saver may be made in an event loop that is watched for calls like abspath
from typing import TYPE_CHECKING, Any, Literal, get_args

from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_jsonl_checkpoint import threads
from langgraph_jsonl_checkpoint.calls import PutCall, WritesCall
from langgraph_jsonl_checkpoint.errors import CorruptSessionError, DeletedSessionError
from langgraph_jsonl_checkpoint.folds.memory import Deriver
from langgraph_jsonl_checkpoint.ledger import Ledger, checked
from langgraph_jsonl_checkpoint.reader import Reader
from langgraph_jsonl_checkpoint.restore import Restored, lend
from langgraph_jsonl_checkpoint.session import no_collections
from langgraph_jsonl_checkpoint.sessions import Sessions
from langgraph_jsonl_checkpoint.values.seal import Serde
from langgraph_jsonl_checkpoint.values.serializer import TypedSerializer
from langgraph_jsonl_checkpoint.versions import next_version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import DeltaChannelHistory
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langgraph_jsonl_checkpoint.folds.memory import MemoryDeriver, SessionMemory
    from langgraph_jsonl_checkpoint.folds.resume import ResumeState, ToolCall
    from langgraph_jsonl_checkpoint.session import Session
    from langgraph_jsonl_checkpoint.threads import SessionInfo

logger = logging.getLogger(__name__)

Fsync = Literal["checkpoint", "always", "never"]
RestoreMemory = Literal["crashed", "always", "never"]


class JsonlSaver(BaseCheckpointSaver[Any]):
    """Stores each thread in one append-only log, `<root>/<workspace>/<thread>/session.jsonl.zst`.

    One object serves sync and async graphs, any number of threads and processes, and any number of thread ids.
    FORMAT.md describes the log.

    Args:
        root: The directory; it is made when the first thread is stored.
        workspace: Groups the threads of one project; "default" without it.
        fsync: When the disk is synced. "checkpoint": at each checkpoint, at an interrupt and at an error; a killed
            process loses nothing, a power cut at most the writes since the last checkpoint. "always": at each
            call, as SqliteSaver does. "never": when the operating system decides.
        serde: Stores what the codec does not know. If it is not LangGraph's JsonPlusSerializer, such as an
            EncryptedSerializer, everything goes through it and nothing of the state is readable on disk.
        max_open: How many threads stay open, each with a descriptor and its records in memory.
        restore_memory: When the restored `messages` of a thread begin with its session memory. "crashed": if its
            last run neither ended nor waits for a human, and its writer died or a tool call is uncertain, until the
            next run ends. "always", or "never". It is lent to the run and never stored.
        memory: Derives the session memory; without it a deriver that needs no model.

    Example:
        >>> from langgraph_jsonl_checkpoint import JsonlSaver
        >>> saver = JsonlSaver("sessions")
        >>> agent = builder.compile(checkpointer=saver)  # doctest: +SKIP
        >>> agent.invoke(inputs, {"configurable": {"thread_id": "42"}})  # doctest: +SKIP
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        workspace: str | None = None,
        fsync: Fsync = "checkpoint",
        serde: SerializerProtocol | None = None,
        max_open: int = 128,
        restore_memory: RestoreMemory = "crashed",
        memory: MemoryDeriver | None = None,
    ) -> None:
        super().__init__(serde=TypedSerializer() if serde is None else serde)
        if fsync not in get_args(Fsync):
            raise ValueError(f"fsync is one of {', '.join(map(repr, get_args(Fsync)))}, not {fsync!r}")
        if restore_memory not in get_args(RestoreMemory):
            said = ", ".join(map(repr, get_args(RestoreMemory)))
            raise ValueError(f"restore_memory is one of {said}, not {restore_memory!r}")
        if max_open < 1:
            raise ValueError(f"max_open is at least 1, not {max_open!r}")
        self._fsync = fsync
        self._restore_memory = restore_memory
        self._deriver: MemoryDeriver = memory or Deriver()
        # A clone that with_allowlist makes shares the sessions, and has a serde of its own.
        where = os.path.normpath(os.path.join(getcwd(), root))
        self._sessions = Sessions(where, "default" if workspace is None else workspace, max_open)

    @classmethod
    def from_conn_string(cls, conn_string: str | os.PathLike[str], **options: Any) -> Self:
        """A saver for a directory's path; it is its own context manager, sync and async.

        Args:
            conn_string: The directory.
            **options: As for the class.

        Raises:
            ValueError: It is an address of something else than a directory.
        """
        text = os.fspath(conn_string)
        if "://" in text:
            raise ValueError(f"only directories hold sessions so far, and {text!r} is an address; give a path")
        return cls(text, **options)

    def path(self, thread_id: str) -> pathlib.Path:
        """Where a thread's log is, or would be."""
        return pathlib.Path(self._sessions.path(str(thread_id)))

    def close(self) -> None:
        """Close every log. Later calls raise ClosedSaverError; what was stored is stored already."""
        self._sessions.close()

    # --- storing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint.

        Raises:
            ValueEncodingError: A value cannot be stored.
            OSError: The log cannot be written.
            FailedSessionError: An earlier call could not be stored, and the thread was not read since.
            DeletedSessionError: The thread was deleted during the run.
            CorruptSessionError: The log is damaged.
        """
        return self._put(config, self._put_call(config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """`put`: the values are taken before this waits for anything, the disk is a worker thread's."""
        call = self._put_call(config, checkpoint, metadata, new_versions)
        return await asyncio.to_thread(self._put, config, call)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes. Raises what `put` raises."""
        self._put_writes(config, self._writes_call(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes`, as `aput` is `put`."""
        call = self._writes_call(config, writes, task_id, task_path)
        await asyncio.to_thread(self._put_writes, config, call)

    def _put_call(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, versions: ChannelVersions
    ) -> PutCall:
        thread_id = _thread_id(config)
        session = self._sessions.peek(thread_id)
        return PutCall(session, self._serde(thread_id), config, checkpoint, metadata, list(versions))

    def _put(self, config: RunnableConfig, call: PutCall) -> RunnableConfig:
        thread_id = _thread_id(config)
        with self._sessions.use(thread_id) as session:
            self._begin(session, config)
            stored = session.append(call.records, self._seal(thread_id), sync=self._synced(ends_step=True))
            if not stored:
                raise DeletedSessionError(
                    f"thread {thread_id!r} was deleted during its run ({session.identity.path}); checkpoint "
                    f"{call.id!r} was not stored. Run the thread again to start it anew."
                )
            call.done(session)
        return {
            "configurable": {
                "thread_id": config["configurable"]["thread_id"],
                "checkpoint_ns": call.ns,
                "checkpoint_id": call.id,
            }
        }

    def _writes_call(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> WritesCall:
        thread_id = _thread_id(config)
        session = self._sessions.peek(thread_id)
        return WritesCall(session, self._serde(thread_id), config, writes, task_id, task_path)

    def _put_writes(self, config: RunnableConfig, call: WritesCall) -> None:
        thread_id = _thread_id(config)
        with self._sessions.use(thread_id) as session:
            known = session.checkpoints.get(call.ns, call.checkpoint_id) is not None
            if not known and self._sessions.is_late(thread_id, call.checkpoint_id):
                return  # and so does not bring a deleted thread back
            session.append(
                lambda page: [] if call.is_stored(session) else call.records(page, session.checkpoints.ended),
                self._seal(thread_id),
                sync=self._synced(ends_step=call.ends_run),
            )

    # --- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint by its id, or a namespace's newest; None if there is none.

        Raises:
            CorruptSessionError: The log is damaged.
            UnsupportedVersionError: Another version of the package wrote it.
        """
        ns, name = _ns(config), get_checkpoint_id(config)
        with self._restored(_thread_id(config), begins=True) as (session, reader, restored):
            self._begin(session, config)
            lent = self._lent(session, restored) if not ns and not name else None
        found = reader.get(ns, name)
        if lent is not None and found is not None:
            lend(lent, found.checkpoint["channel_values"])
        return found

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple` in a worker thread."""
        return await asyncio.to_thread(self.get_tuple, config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints descending by id: of a namespace, of a thread, or, without a config, of all threads.

        Args:
            config: The thread, and maybe a namespace and an id.
            filter: Metadata that must be equal, whole values; a missing key is None.
            before: Only ids less than this one's.
            limit: How many at most.
        """
        bound = get_checkpoint_id(before) if before else None
        if config is None:
            found = threads.list_all(self._sessions, self._serde, bound, filter)
        else:
            rows = self._reader(config).list(
                config["configurable"].get("checkpoint_ns"), get_checkpoint_id(config), bound, filter
            )
            found = (row for _, row in rows)
        # No lock is held here: LangGraph takes one item and goes on, and may put before it takes the next.
        yield from itertools.islice(found, None if limit is None else max(limit, 0))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list`, each step in a worker thread."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (item := await asyncio.to_thread(next, found, None)) is not None:
            yield item

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What the DeltaChannels of a checkpoint are rebuilt from, in one walk over its ancestors."""
        return self._reader(config).delta_history(_ns(config), get_checkpoint_id(config), channels)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """`get_delta_channel_history` in a worker thread."""
        return await asyncio.to_thread(self.get_delta_channel_history, config=config, channels=channels)

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002 - LangGraph's signature
        """A version after `current`; a new string unless the thread already counts in numbers."""
        return next_version(current, self._sessions.version())

    # --- restoring

    def sessions(self, *, children: bool = False) -> Iterator[SessionInfo]:
        """Every thread, the last changed first, so that the first one is the latest session.

        Args:
            children: Whether to name those, too, that another thread's agent started
                (`configurable.parent_thread_id`).
        """
        yield from threads.infos(self._sessions, children=children)

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
        return await asyncio.to_thread(self.resume_state, thread_id)

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

    def resolve(
        self, thread_id: str, tool_call_id: str, decision: Mapping[str, str], *, task_id: str | None = None
    ) -> None:
        """Decide about an uncertain tool call before its run goes on; nobody is asked about it then.

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
        with self._restored(thread_id, begins=True) as (_, _, restored):
            key = restored.decidable(tool_call_id, task_id)
        self.ledger(thread_id).resolve(key, kind, message)

    async def aresolve(
        self, thread_id: str, tool_call_id: str, decision: Mapping[str, str], *, task_id: str | None = None
    ) -> None:
        """`resolve` in a worker thread."""
        await asyncio.to_thread(self.resolve, thread_id, tool_call_id, decision, task_id=task_id)

    def ledger(self, thread_id: str) -> Ledger:
        """A thread's tool calls, for a hook that guards them."""
        return Ledger(self._sessions, self._serde(thread_id), thread_id, syncs=self._fsync != "never")

    def announce(self) -> None:
        """Say that a hook records the tool calls of all threads that this saver writes from now on."""
        self._sessions.writer.hooked = True

    def shares(self, other: Any, thread_id: str) -> bool:
        """Whether another checkpointer keeps this thread in the same log."""
        return isinstance(other, JsonlSaver) and other.path(thread_id) == self.path(thread_id)

    def context(
        self, thread_id: str, ns: str, run: object, calls: Sequence[Any], *, memory: bool
    ) -> tuple[str, dict[str, ToolMessage]]:
        """What a model is to be told beside its messages.

        Args:
            thread_id: The thread.
            ns: The namespace whose messages they are.
            run: Stands for the run: within one the memory's text stays what it was first, so that prompt caches hold.
            calls: The tool calls among the messages that have no result.
            memory: Whether the memory is wanted.

        Returns:
            The memory's text, and by tool_call_id what is known of those calls.
        """
        with self.ledger(thread_id).followed() as session:
            _, restored = self._read(session)
            answers = restored.answers(ns, calls) if calls else {}
            if not memory:
                return "", answers
            for known, text in session.texts:
                if run is not None and known is run:
                    return text, answers
            text = str(restored.memory())
            session.texts = [*session.texts[-3:], (run, text)]
            return text, answers

    @contextlib.contextmanager
    def _restored(self, thread_id: str, *, begins: bool = False) -> Iterator[tuple[Session, Reader, Restored]]:
        with self._sessions.use(thread_id) as session:
            session.refresh(begins=begins)
            yield session, *self._read(session)

    def _read(self, session: Session) -> tuple[Reader, Restored]:
        thread_id = session.identity.thread_id
        reader = Reader(session, self._serde(thread_id))
        return reader, Restored(session, reader, self.ledger(thread_id), self._deriver)

    def _begin(self, session: Session, config: RunnableConfig) -> None:
        parent = config["configurable"].get("parent_thread_id")
        if parent is not None:
            self._sessions.begin_as_child(session, str(parent))

    def _lent(self, session: Session, restored: Restored) -> str | None:
        """The memory's text that is lent to a run that begins now; None if none is."""
        if self._restore_memory == "never" or not session.exists:
            return None
        ended = session.checkpoints.ended
        # A run that ended, or waits for a human, since the call was started has told the model.
        is_open = ended is None or ended.reason in ("failed", "cancelled")
        if self._restore_memory == "always" or session.crashed or is_open and restored.recorded_uncertain():
            try:
                return str(restored.memory()) or None
            except CorruptSessionError as error:
                # A checkpoint that can be read does not wait for a record that cannot.
                logger.warning("thread %r is restored without its memory: %s", session.identity.thread_id, error)
        return None

    # --- removing and copying

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread: no file of it is left, and writes that come late do not bring it back."""
        self._sessions.delete(str(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread` in a worker thread."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints, and their writes, of these runs, in every thread.

        A checkpoint stays if another run's DeltaChannels are rebuilt from it.
        """
        if wanted := set(_several(run_ids, "run_ids")):
            threads.delete_for_runs(self._sessions, self._serde, wanted)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """`delete_for_runs` in a worker thread."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all of a thread under another id.

        Raises:
            ValueError: The target exists.
        """
        threads.copy(self._sessions, self._serde, str(source_thread_id), str(target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """`copy_thread` in a worker thread."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Give disk space back.

        Args:
            thread_ids: The threads.
            strategy: "keep_latest" keeps the newest checkpoint of each namespace, with its writes, and what its
                DeltaChannels are rebuilt from; "delete" deletes the threads.

        Raises:
            ValueError: The strategy is another.
            TypeError: `thread_ids` is a string.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"the strategy is 'keep_latest' or 'delete', not {strategy!r}")
        for thread_id in _several(thread_ids, "thread_ids"):
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                threads.prune(self._sessions, self._serde, str(thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """`prune` in a worker thread."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    # --- a context manager

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _reader(self, config: RunnableConfig) -> Reader:
        thread_id = _thread_id(config)
        with self._sessions.use(thread_id) as session:
            session.refresh()
            return Reader(session, self._serde(thread_id))

    def _serde(self, thread_id: str) -> Serde:
        return Serde(self.serde, thread_id, seals=self._seals)

    @property
    def _seals(self) -> bool:
        # A subclass of somebody else's may be there to hide what it stores.
        return type(self.serde) not in (JsonPlusSerializer, TypedSerializer)

    def _seal(self, thread_id: str) -> Any:
        return self._serde(thread_id).seal if self._seals else None

    def _synced(self, *, ends_step: bool) -> bool | None:
        return None if self._fsync == "never" else self._fsync == "always" or ends_step


def _thread_id(config: RunnableConfig) -> str:
    # LangGraph lets a thread id be a number; 7 and "7" are one thread.
    return str(config["configurable"]["thread_id"])


def _ns(config: RunnableConfig) -> str:
    ns: str = config["configurable"].get("checkpoint_ns", "")
    return ns


def _several(names: Sequence[str], what: str) -> list[str]:
    if isinstance(names, str):
        raise TypeError(f"{what} is a sequence of ids, not the string {names!r}")
    return list(names)
