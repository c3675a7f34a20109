"""JsonlSaver: LangGraph's checkpointer interface, sync and async, over one log per thread."""

from __future__ import annotations

import itertools
import math
import os
import sys
from os import getcwd  # bound here: a saver may be made in an event loop that is watched for calls like abspath
from typing import TYPE_CHECKING, Any, get_args
from uuid import UUID

from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
)

from langgraph_jsonl_checkpoint.errors import DeletedSessionError
from langgraph_jsonl_checkpoint.folds.memory import Deriver
from langgraph_jsonl_checkpoint.in_worker_threads import InWorkerThreads
from langgraph_jsonl_checkpoint.log.writers import Fsync, Writer
from langgraph_jsonl_checkpoint.restore.restored import lend
from langgraph_jsonl_checkpoint.restorer import RestoreMemory, Restorer
from langgraph_jsonl_checkpoint.sessions import listing
from langgraph_jsonl_checkpoint.sessions.pool import Sessions
from langgraph_jsonl_checkpoint.sessions.storing import PutCall, WritesCall
from langgraph_jsonl_checkpoint.tool_calls.redaction import Redaction
from langgraph_jsonl_checkpoint.upkeep import threads
from langgraph_jsonl_checkpoint.upstream import tasks
from langgraph_jsonl_checkpoint.values.serializer import TypedSerializer
from langgraph_jsonl_checkpoint.versions import next_version
from langgraph_jsonl_checkpoint.workers import submit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import DeltaChannelHistory
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langgraph_jsonl_checkpoint.folds.memory import MemoryDeriver
    from langgraph_jsonl_checkpoint.sessions.reader import Reader
    from langgraph_jsonl_checkpoint.sessions.session import Session
    from langgraph_jsonl_checkpoint.tool_calls.redaction import Redact


class JsonlSaver(Restorer, InWorkerThreads):
    """Stores each thread in one append-only log, `<root>/<workspace>/<thread>/session.jsonl.zst` (see FORMAT.md).

    One object serves sync and async graphs, any number of threads and processes, and any number of thread ids.

    Args:
        root: The directory; it is made when the first thread is stored.
        workspace: Groups the threads of one project; "default" without it.
        fsync: When the disk is synced. "checkpoint": at each checkpoint, at an interrupt and at an error; a killed
            process loses nothing, a power cut at most the writes since the last checkpoint. "always": at each
            call, as SqliteSaver does. "never": when the operating system decides.
        serde: Stores what the codec does not know. If it is another one than LangGraph's JsonPlusSerializer, say an
            EncryptedSerializer, everything goes through it and nothing of the state is readable on disk.
        max_open: How many threads stay open, each with a descriptor; at most half of what the process may have.
        cache_size: How many bytes of memory they take, about; the least recently used are closed first.
        restore_memory: When the restored `messages` of a thread begin with its session memory. "crashed": if its
            last run neither ended nor waits for a human, and its writer died or a tool call is uncertain, until the
            next run ends. "always", or "never". It is lent to the run and never stored.
        memory: Derives the session memory. The default one needs no model.
        redact: Called with a tool's name and a copy of its arguments, of its result (a ToolMessage's content), of the
            text of its error, or of what a human said of it; gives what `tool` records and the session memory keep of
            it. If it raises, the tool does not start. The state is the graph's own, and stored as it is.
        chain_key: Up to 64 bytes, a secret that each commit's digest is keyed with: then nobody without it can change
            a log and make a chain that fits. It belongs to a workspace's logs from their begin.

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
        cache_size: int = 256 << 20,
        restore_memory: RestoreMemory = "crashed",
        memory: MemoryDeriver | None = None,
        redact: Redact | None = None,
        chain_key: bytes | None = None,
    ) -> None:
        super().__init__(serde=TypedSerializer() if serde is None else serde)
        _check("fsync", fsync, get_args(Fsync))
        _check("restore_memory", restore_memory, get_args(RestoreMemory))
        if max_open < 1 or cache_size < 0:
            raise ValueError(f"max_open is at least 1 and cache_size at least 0, not {max_open!r} and {cache_size!r}")
        self._restore_memory = restore_memory
        self._deriver: MemoryDeriver = memory or Deriver()
        self._redaction = Redaction(redact)
        # `with_allowlist` makes a clone that shares the sessions and has a serde of its own.
        where = os.path.normpath(os.path.join(getcwd(), root))
        writer = Writer(where, "default" if workspace is None else workspace, fsync, chain_key)
        self._sessions = Sessions(writer, max_open, cache_size)

    @classmethod
    def from_conn_string(cls, conn_string: str | os.PathLike[str], **options: Any) -> Self:
        """A saver for the path of a directory. It is its own context manager, sync and async.

        Args:
            conn_string: The directory.
            **options: As for the class.

        Raises:
            ValueError: It is the address of something else than a directory.
        """
        text = os.fspath(conn_string)
        if "://" in text:
            raise ValueError(f"only directories hold sessions so far, and {text!r} is an address; give a path")
        return cls(text, **options)

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
            FailedSessionError: An earlier call could not be stored, and no run has begun since.
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
        """`put`: the values are taken before this waits for anything; a worker thread touches the disk."""
        call = self._put_call(config, checkpoint, metadata, new_versions)
        return await submit(self._put, config, call)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes. Raises what `put` raises."""
        self._put_writes(config, self._writes_call(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes` in the way of `aput`."""
        call = self._writes_call(config, writes, task_id, task_path)
        await submit(self._put_writes, config, call)

    def _put_call(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, versions: ChannelVersions
    ) -> PutCall:
        thread_id = _thread_id(config)
        session = self._sessions.peek(thread_id)
        return PutCall(session, self._serde(thread_id), config, checkpoint, metadata, list(versions))

    def _put(self, config: RunnableConfig, call: PutCall) -> RunnableConfig:
        thread_id = _thread_id(config)
        with self._sessions.use(thread_id) as session:
            self._name_parent(session, config)
            stored = session.append(call.records, call.serde, sync=True)
            if not stored:
                raise DeletedSessionError(
                    f"thread {thread_id!r} was deleted during its run ({session.identity.path}); checkpoint "
                    f"{call.id!r} was not stored. Run the thread again to start it anew."
                )
            call.done(session)
        if call.is_update:
            self._decide_as_updated(thread_id, call.ns)
        as_given = config["configurable"]["thread_id"]
        return {"configurable": {"thread_id": as_given, "checkpoint_ns": call.ns, "checkpoint_id": call.id}}

    def _writes_call(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> WritesCall:
        thread_id = _thread_id(config)
        session = self._sessions.peek(thread_id)
        return WritesCall(session, self._serde(thread_id), config, writes, task_id, task_path)

    def _put_writes(self, config: RunnableConfig, call: WritesCall) -> None:
        thread_id = _thread_id(config)
        with self._sessions.use(thread_id) as session:
            if self._sessions.is_late(session, call.checkpoint_id):
                return  # it would bring a deleted thread back
            session.append(
                lambda page: [] if call.is_stored(session) else call.records(page, session.checkpoints.ended),
                call.serde,
                sync=call.ends_run,
            )
            if call.ends_run:
                session.shadows.release()

    # --- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint by its id, or a namespace's newest; None if there is none.

        Raises:
            CorruptSessionError: The log is damaged.
            UnsupportedVersionError: Another version of the package wrote it.
        """
        thread_id, ns, name = _thread_id(config), _ns(config), _checkpoint_id(config)
        run = tasks.run_of(config["configurable"])
        with self._sessions.use(thread_id) as session:
            session.begin_run(run)
            self._name_parent(session, config)
            reader = self._reader(session)
            lent = self._lent(session, reader) if not ns and not name else None
        found = reader.get(ns, name)
        if lent is not None and found is not None:
            lend(lent, found.checkpoint["channel_values"])
        return found

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
            filter: Metadata that must be equal, as whole values; a missing key counts as None.
            before: Only ids less than this one's.
            limit: How many at most.
        """
        bound = _checkpoint_id(before) if before else None
        if config is None:
            found = listing.list_all(self._sessions, self._serde, bound, filter)
        else:
            rows = self._reader_of(config).list(
                config["configurable"].get("checkpoint_ns"), _checkpoint_id(config), bound, filter
            )
            found = (row for _, row in rows)
        # No lock is held here: LangGraph may take one item, and put something before it takes the next.
        yield from itertools.islice(found, None if limit is None else math.ceil(min(max(limit, 0), sys.maxsize)))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What the DeltaChannels of a checkpoint are rebuilt from, in one walk over its ancestors."""
        return self._reader_of(config).delta_history(_ns(config), _checkpoint_id(config), channels)

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002 - LangGraph's signature
        """A version after `current`; a new string unless the thread already counts in numbers."""
        return next_version(current, self._sessions.version())

    # --- removing and copying

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread: no file of it is left, and writes that come late do not bring it back."""
        self._sessions.delete(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints, and their writes, of these runs, in every thread.

        A checkpoint stays if another run's DeltaChannels are rebuilt from it. Ids are compared as strings.
        """
        if wanted := set(map(str, _several(run_ids, "run_ids"))):
            threads.delete_for_runs(self._sessions, self._serde, wanted)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all of a thread under another id.

        Raises:
            ValueError: The target exists.
        """
        threads.copy(self._sessions, self._serde, str(source_thread_id), str(target_thread_id))

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

    def _name_parent(self, session: Session, config: RunnableConfig) -> None:
        parent = config["configurable"].get("parent_thread_id")
        if parent is not None:
            self._sessions.begin_as_child(session, str(parent))

    def _reader_of(self, config: RunnableConfig) -> Reader:
        with self._sessions.use(_thread_id(config)) as session:
            session.refresh()
            return self._reader(session)


def _check(name: str, given: str, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise ValueError(f"{name} is one of {', '.join(map(repr, choices))}, not {given!r}")


def _thread_id(config: RunnableConfig) -> str:
    # LangGraph lets a thread id be a number; 7 and "7" are one thread.
    try:
        return str(config["configurable"]["thread_id"])
    except KeyError:
        raise KeyError('the config names no thread; give {"configurable": {"thread_id": …}}') from None


def _ns(config: RunnableConfig) -> str:
    ns: str = config["configurable"].get("checkpoint_ns", "")
    return ns


def _checkpoint_id(config: RunnableConfig) -> str | None:
    name = get_checkpoint_id(config)
    return str(name) if isinstance(name, UUID) else name


def _several(names: Sequence[str], what: str) -> list[str]:
    if isinstance(names, str):
        raise TypeError(f"{what} is a sequence of ids, not the string {names!r}")
    return list(names)
