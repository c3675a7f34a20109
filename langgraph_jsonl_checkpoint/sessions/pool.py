"""The sessions that a saver, and its clones, have open: bounded in number, one per thread id."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import os
import sys
import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base.id import uuid6

from langgraph_jsonl_checkpoint.errors import ClosedSaverError, SessionError
from langgraph_jsonl_checkpoint.log import files, leases, local, lockfile, logfile, names
from langgraph_jsonl_checkpoint.sessions.identity import Identity, header_of
from langgraph_jsonl_checkpoint.sessions.in_use import InUse, let_go
from langgraph_jsonl_checkpoint.sessions.session import Session
from langgraph_jsonl_checkpoint.sessions.skipping import SkipIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph_jsonl_checkpoint.log.writers import Writer

logger = logging.getLogger(__name__)

_UUID = 36
_REMEMBERED = 1024  # so many deleted threads have late writes kept out, and so many evicted ones their failures known


class Sessions:
    """Sessions by thread id, the least recently used closed when there are too many.

    Args:
        writer: The writer that appends to them.
        max_open: How many sessions stay open, each with a descriptor.
        cache_size: How many bytes they keep in memory, about, beside the one that is in use.

    Raises:
        NotImplementedError: The platform's files cannot do what a log asks of them.

    Attributes:
        writer: The writer; in a forked child another one of the same logs.
        running: (thread, task, tool_call_id) of the tool calls that run in this process.
        skips: Which logs a filtered list may pass over.
    """

    def __init__(self, writer: Writer, max_open: int, cache_size: int) -> None:
        files.check_platform()
        self._max_open = min(max_open, max(1, files.most_open() // 2))  # the rest is the program's
        self._cache_size = cache_size
        self._folder = local.workspace_path(writer.root, writer.workspace)
        self._start(writer)
        self._closed = False
        _all.add(self)

    def _start(self, writer: Writer) -> None:
        self.writer = writer
        _mine.add(writer.id)
        self._lock, self._adding = threading.Lock(), threading.Lock()
        self._open: OrderedDict[str, Session] = OrderedDict()  # the least recently used first
        self._held = 0  # bytes that the open sessions keep in memory, about
        self._versions = itertools.count()
        self._hooks: dict[str, set[str | None]] = {}  # by thread: those that its log does not tell of yet
        self._deleted: dict[str, tuple[str, frozenset[str]]] = {}  # by thread: when, and the checkpoints that it had
        self._failures: dict[str, Exception] = {}  # of sessions that were evicted with one
        self.running: dict[tuple[str, str, str], bool] = {}  # thread, task and call; whether a guard has it
        self.skips = SkipIndex()
        self._end = weakref.finalize(self, _abandon, self.writer)
        self._end.atexit = False

    def path(self, thread_id: str) -> str:
        """The thread's log file."""
        return local.log_path(self._folder, thread_id)

    def identity(self, thread_id: str) -> Identity:
        """The identity of a thread's session."""
        return Identity(self.path(thread_id), thread_id, self.writer.workspace)

    def lease(self, thread_id: str) -> leases.Lease:
        """A turn with a thread, which is not taken yet."""
        return leases.Lease(self.writer.root, self.writer.workspace, thread_id)

    def version(self) -> str:
        """A string that no other call, in this process or another, gets."""
        return f"{self.writer.id}-{next(self._versions):x}"

    def peek(self, thread_id: str) -> Session:
        """The session object of a thread, without lock or disk: for its `shadows` only."""
        self._check_open()
        session = self._open.get(thread_id)
        if session is None:
            made = Session(self.identity(thread_id), self.writer)
            made.failure = self._failures.get(thread_id)
            session = self._open.setdefault(thread_id, made)
            session.hooks |= self._hooks.get(thread_id, set())
        with contextlib.suppress(KeyError):  # another thread has just evicted it; `use` looks again
            self._open.move_to_end(thread_id)
        return session

    def announce(self, thread_id: str, ns: str | None) -> None:
        """Say in the thread's log, with the next record, that a hook records the calls of a namespace, or of all."""
        self._hooks.setdefault(thread_id, set()).add(ns)  # for a session that is evicted before that
        self.peek(thread_id).hooks.add(ns)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedSaverError("the saver is closed; make a new JsonlSaver on the same directory")

    def use(self, thread_id: str) -> InUse:
        """The session of a thread, locked, for a `with`."""
        return InUse(self, thread_id)

    def holds(self, thread_id: str, session: Session) -> bool:
        """Whether a session object stands for a thread."""
        return self._open.get(thread_id) is session

    def settle(self, thread_id: str, session: Session) -> None:
        """Take in what became of a session that was used, before its lock is given back."""
        if session.hooks and not session.runs.untold(self.writer.id, session.hooks):
            self._hooks.pop(thread_id, None)
        if session.failure is None:
            self._failures.pop(thread_id, None)
        if session.is_left:
            self.writer.left.add(thread_id)
        elif session.exists:
            self.writer.left.discard(thread_id)
        self._account(session, session.held if self.holds(thread_id, session) else 0)

    def _account(self, session: Session, held: int) -> None:
        with self._adding:  # threads with other sessions add, too
            self._held += held - session.counted
            session.counted = held

    @contextlib.contextmanager
    def glance(self, thread_id: str) -> Iterator[Session]:
        """The session of a thread, to be read once; if it was not open, it is closed again, and evicts no other."""
        if thread_id in self._open:
            with self.use(thread_id) as session:
                yield session
            return
        self._check_open()
        session = Session(self.identity(thread_id), self.writer)
        try:
            yield session
        finally:
            session.forget()

    def may_be_running(self, writer: str, call: tuple[str, str, str]) -> bool:
        """Whether a writer lives and may be running a tool call; of one in this process it is known if it is."""
        if writer in _mine:
            return any(call in sessions.running for sessions in _all if sessions.writer.id == writer)
        return self.writer.is_alive(writer)

    def logs(self) -> list[local.Found]:
        """Every log, the last changed first."""
        self._check_open()
        return local.logs(self._folder)

    def path_of(self, found: local.Found) -> str:
        """Where a log is."""
        return os.path.join(self._folder, found.name, local.LOG)

    def thread_id(self, found: local.Found) -> str | None:
        """The thread of a log; None if it is no thread's."""
        thread_id = names.unescape(found.name)
        if thread_id is None:  # too long for a file name: the header knows
            head = header_of(self.path_of(found))
            thread_id = None if head is None else head.thread_id
            return thread_id if thread_id is not None and names.escape(thread_id) == found.name else None
        return thread_id

    def threads(self) -> Iterator[tuple[float, str]]:
        """(time of last change, thread id) of every thread that has a log, the last changed first."""
        for found in self.logs():
            if (thread_id := self.thread_id(found)) is not None:
                yield found.changed, thread_id

    def begin_as_child(self, session: Session, parent: str) -> None:
        """Have the header of a session that has no log yet say which thread's agent started it."""
        if session.exists or session.parent or parent == session.identity.thread_id:
            return
        head = header_of(self.path(parent))
        depth = 1 if head is None else head.delegation_depth + 1
        session.parent = {"parent": parent, "delegation_depth": depth}

    def delete(self, thread_id: str) -> None:
        """Delete a thread's log; remember which writes come too late for it."""
        with self.use(thread_id) as session:
            with contextlib.suppress(SessionError, OSError):  # what cannot be read can be deleted
                session.refresh()
            ids = {name for name, _ in session.checkpoints.newest_first()}
            session.forget()
            self.writer.left.discard(thread_id)
            local.delete(session.identity.path)
            _remember(self._deleted, thread_id, (str(uuid6()), frozenset(ids)))
            self._failures.pop(thread_id, None)
            self._open.pop(thread_id, None)
            self._account(session, 0)
        self.lease(thread_id).clear()

    def is_late(self, session: Session, checkpoint_id: str) -> bool:
        """Whether a write is about a checkpoint that was stored, or being made, when its thread was deleted.

        It is not late if the checkpoint is there again, from a copy or another saver.
        """
        thread_id = session.identity.thread_id
        if thread_id not in self._deleted:
            return False
        moment, ids = self._deleted[thread_id]
        if checkpoint_id not in ids and not (_is_time_ordered(checkpoint_id) and checkpoint_id < moment):
            return False
        session.refresh()
        return not any(session.checkpoints.has(ns, checkpoint_id) for ns in session.checkpoints.namespaces())

    def close(self, error: str) -> None:
        """Close every session; later calls raise. `error` is the exception that ends the saver, if one does."""
        if self._closed:
            return
        for thread_id in list(self.writer.left):
            try:
                with self.use(thread_id) as session:
                    session.finish(error)
            except (SessionError, OSError) as unsaid:
                # Nothing that was stored is lost; the log just does not say that the run was left in good order.
                logger.warning("thread %r could not be closed: %s", thread_id, unsaid)
        self._closed = True
        while self._open:
            _, session = self._open.popitem()
            with session.lock:
                if not session.changing:  # else we are in a signal handler, inside a call that needs the session
                    session.leave()
        self.writer.left.clear()
        self.writer.end()
        self._end.detach()  # nothing is left to do for a saver that is closed

    def _is_over(self) -> bool:
        return len(self._open) > self._max_open or self._held > self._cache_size and len(self._open) > 1

    def make_room(self) -> None:
        """Close the sessions that nobody has used for longest, if there are too many."""
        if not self._is_over():
            return
        with self._lock:
            for _ in range(len(self._open)):
                if not self._is_over():
                    return
                try:
                    thread_id, session = next(iter(self._open.items()))
                except (StopIteration, RuntimeError):
                    continue  # other threads insert and move without this lock
                if not self._evict(thread_id, session):
                    with contextlib.suppress(KeyError):
                        self._open.move_to_end(thread_id)

    def _evict(self, thread_id: str, session: Session) -> bool:
        """Close a session, unless it is in use."""
        if session.owner == threading.get_ident():
            return False
        try:
            is_free = session.lock.acquire(blocking=False)
            if is_free and self.holds(thread_id, session):  # and nobody else removes it: we have its lock
                del self._open[thread_id]
                self._account(session, 0)
                if session.failure is not None:
                    _remember(self._failures, thread_id, session.failure)
                session.leave()
            if is_free:
                session.lock.release()
        except BaseException:
            let_go(session)
            raise
        return is_free

    def after_fork(self) -> None:
        """In a forked child: start anew.

        The parent's locks may be held by threads that the child does not have. The lock of an inherited descriptor is
        the parent's, and closing the child's copy does not release it.
        """
        inherited = self._open
        self._end.detach()  # else it would say that the parent has left its runs
        self._start(self.writer.another())
        for session in inherited.values():
            session.forget()


_all: weakref.WeakSet[Sessions] = weakref.WeakSet()
_mine: set[str] = set()  # writers of this process
_abandoned: list[Writer] = []


def _abandon(writer: Writer) -> None:
    """A saver that nobody closed is gone. This may run inside any call of any thread, so nothing is appended here."""
    if writer.left:
        _abandoned.append(writer)
    else:
        writer.end()


def _at_exit() -> None:
    """Close what nobody closed: the process ends, and did not die."""
    error = getattr(sys, "last_type", None)  # what ended its main thread, if anything did
    for sessions in [*_all, *(Sessions(writer, max_open=1, cache_size=0) for writer in _abandoned)]:
        sessions.close("" if error is None else error.__name__)


def _after_fork() -> None:
    lockfile.after_fork()
    _abandoned.clear()
    _mine.clear()
    for sessions in _all:
        sessions.after_fork()
    logfile.after_fork()  # what is still open: half-read lists, and what the threads of the parent were in


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _remember(held: dict[str, Any], thread_id: str, what: Any) -> None:
    if len(held) >= _REMEMBERED:
        held.pop(next(iter(held)))
    held[thread_id] = what


def _is_time_ordered(checkpoint_id: str) -> bool:
    return len(checkpoint_id) == _UUID and checkpoint_id[14] == "6"
