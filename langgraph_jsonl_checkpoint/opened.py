"""One thread's log, opened in this process and read: what it means, as far as it was read."""

from __future__ import annotations

import contextlib
import gc
import threading
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from langgraph_jsonl_checkpoint.errors import (
    CorruptSessionError,
    DeletedSessionError,
    FailedSessionError,
    UnsupportedVersionError,
)
from langgraph_jsonl_checkpoint.folds.checkpoints import Checkpoints
from langgraph_jsonl_checkpoint.folds.runs import Runs
from langgraph_jsonl_checkpoint.folds.tool_calls import ToolCalls
from langgraph_jsonl_checkpoint.identity import version_of
from langgraph_jsonl_checkpoint.log import journal, local, records
from langgraph_jsonl_checkpoint.values.book import Book
from langgraph_jsonl_checkpoint.values.known import Known

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph_jsonl_checkpoint.identity import Identity
    from langgraph_jsonl_checkpoint.log.writers import Writer
    from langgraph_jsonl_checkpoint.restore import Recall

ATTEMPTS = 100
"""How often a session may be created, replaced or deleted under one call."""


class Shadow(NamedTuple):
    """The parts that a namespace's last checkpoint was written from: the next one is compared with them."""

    channels: Any = None
    versions: Any = None
    seen: Any = None


class OpenedLog:
    """A session as it was read, and the lock under which all but `known` and `shadows` is touched.

    Attributes:
        lock: The lock.
        known: What was frozen lately.
        shadows: By namespace, what the last checkpoint was written from.
        checkpoints: The fold of its checkpoints and pending writes.
        tools: The fold of its tool calls.
        runs: The fold of its writers.
        book: Its numbered messages and values.
        header: Its header; None if it has no log.
        identity: Which session it is.
        writer: This saver as a writer.
        hooked: Whether a hook in this process records the thread's tool calls.
        failure: Why the last append failed; None if it did not, or the log was read since.
        left_out: Subgraphs that store nothing here.
        recall: How far the session's memory has been derived.
        texts: The memory's text that each run was given first.
        parent: The thread whose agent started this one's, for the header of a new log.
    """

    def __init__(self, identity: Identity, writer: Writer) -> None:
        self.lock = threading.RLock()
        self.known = Known()
        self.shadows: dict[str, Shadow] = {}
        self.checkpoints = Checkpoints()
        self.tools = ToolCalls()
        self.runs = Runs()
        self.book = Book()
        self.header: records.Session | None = None
        self.identity = identity
        self.writer = writer
        self.hooked = False
        self.left_out: set[str] = set()
        self.recall: Recall | None = None
        self.texts: list[tuple[object, str]] = []
        self.parent: dict[str, Any] = {}
        self._file: local.LogFile | None = None
        self._position = journal.Position()
        self.failure: Exception | None = None
        self._recovered: records.Recovered | None = None

    def refresh(self, *, begins: bool = True) -> None:
        """Take in what was appended since, by anyone. A session that does not exist is an empty one.

        Args:
            begins: Whether a run may begin with what is read, so that a failed append before it counts no more. In
                the middle of a run what that append held is missing, whoever looks.

        Raises:
            CorruptSessionError: The log is damaged.
            UnsupportedVersionError: Another version wrote it.
        """
        failure = self.failure
        if failure is not None:
            self.forget()
        try:
            self._refresh()
        finally:
            if not begins:
                self.failure = failure

    def follow_run(self) -> None:
        """Take in what was appended since, in the middle of a run.

        Raises:
            FailedSessionError: An append of this run failed.
            DeletedSessionError: The log was deleted during the run.
        """
        existed = self.exists
        if self.failure is None:
            self._refresh()
            if existed and not self.exists:
                self.failure = DeletedSessionError(f"{self.identity.path} was deleted during a run")
        self.check_failure()

    def check_failure(self) -> None:
        """Refuse to go on after an append that failed.

        Raises:
            FailedSessionError: One did, and no run has begun since.
        """
        if self.failure is not None:
            raise FailedSessionError(
                f"an earlier append to {self.identity.path} failed ({self.failure}); what it held is missing. "
                "Free what was in the way and run the thread again: a new run reads the log first."
            ) from self.failure

    def _refresh(self) -> None:
        for _ in range(ATTEMPTS):
            size = self._open()
            if size is None:
                return
            problem = self._follow(size)
            if problem is None or problem.torn:
                return  # a torn end may be a commit that is being written: not ours to repair
            raise self._corrupt(problem.offset, problem.reason)

    def forget(self) -> None:
        """Close the log and drop all that is known of it."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self._position = journal.Position()
        self.failure = None
        self.header = None
        # Parts and numbers of before carry the old book's token, so they count no more.
        self.book = Book()
        self.checkpoints = Checkpoints()
        self.tools = ToolCalls()
        self.runs = Runs()
        self.recall = None
        self.known = Known()
        self.shadows = {}

    @property
    def exists(self) -> bool:
        """Whether the session had a log when it was last looked at."""
        return self._file is not None

    @property
    def is_left(self) -> bool:
        """Whether this saver wrote last, and the run is not over."""
        return self.runs.writer == self.identity.writer and not self.runs.closed and self.checkpoints.is_unfinished

    @property
    def crashed(self) -> bool:
        """Whether the last run neither ended nor paused for a human, and its writer died without closing.

        The run that a new writer makes of it goes on being one that crashed, until it ends.
        """
        if not self.checkpoints.is_unfinished:
            return False
        return self.runs.restored or self.left_by() != ""

    def left_by(self) -> str:
        """The writer that died in a run that is not over; empty if there is none."""
        last = self.runs.writer
        if not last or self.runs.closed or not self.checkpoints.is_unfinished or self.writer.is_alive(last):
            return ""
        return last

    def read_all(self) -> list[list[journal.Line]]:
        """Every commit of the log, the header first. Call `refresh` before."""
        return self.read_from(journal.Position())[0]

    def read_from(self, position: journal.Position) -> tuple[list[list[journal.Line]], journal.Position]:
        """The commits of the log behind a position, and where it ends. Call `refresh` before."""
        if self._file is None or position.offset >= self._position.offset:
            return [], position
        commits, after, _ = journal.follow(self._file.read(position.offset, self._position.offset), position)
        return commits, after

    def _open(self) -> int | None:
        """Open the log if it is not; its size, or None if there is none."""
        for _ in range(ATTEMPTS):
            if self._file is None:
                try:
                    self._file = local.LogFile(self.identity.path)
                except (FileNotFoundError, NotADirectoryError):
                    return None
            size = self._file.size()
            if size is not None and size >= self._position.offset:
                return size
            # Deleted, or replaced by a new generation, or another writer took back a commit that it could not sync.
            self.forget()
        raise DeletedSessionError(f"{self.identity.path} was replaced {ATTEMPTS} times during one call; try again")

    def _follow(self, size: int) -> journal.Problem | None:
        """Read up to `size`; what is wrong behind the last whole commit."""
        if self._file is None or size == self._position.offset and self._position.offset:
            return None
        start = self._position
        data = self._file.read(start.offset, size)
        if not start.offset:
            self._check_version(data)
        with no_collections():
            commits, position, problem = journal.follow(data, start)
        if problem is not None and not problem.torn and start.offset:
            # Before it is called damage, read it from its begin: a writer may have taken back what we had read.
            self._reread(self._file)
            return self._follow(size)
        with no_collections():
            self._apply(commits)
        self._position = position
        return problem

    def _reread(self, file: local.LogFile) -> None:
        """Drop all that is known of the log, but keep it open, locked or not."""
        self._file = None
        self.forget()
        self._file = file

    def _check_version(self, data: bytes) -> None:
        """The version comes before everything else."""
        try:
            found = version_of(data)
        except ValueError as error:
            raise self._corrupt(0, f"it has no header ({error})") from None
        if found != (records.FORMAT, records.VERSION):
            raise UnsupportedVersionError(
                f"{self.identity.path} was written as {found[0]!r} version {found[1]!r}; this is a reader of "
                f"{records.FORMAT!r} version {records.VERSION}. Upgrade the package that reads it."
            )

    def _apply(self, commits: list[list[journal.Line]]) -> None:
        """Let the folds take in what comes next; if they cannot, nothing is known of the log."""
        seq = self._position.seq
        kind, text = "", b""
        try:
            for kind, text in chain.from_iterable(commits):
                self._take(records.parse(kind, text), seq, text)
                seq += 1
        except LookupError:
            self.forget()
            raise UnsupportedVersionError(
                f"{self.identity.path} holds a record of type {kind!r} (seq {seq}) that this version does not know "
                "and must not ignore. Upgrade the package that reads it."
            ) from None
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            reason = f"a record is not what its type says ({error})"
            raise self._corrupt(self._position.offset, reason, seq) from error

    def _take(self, record: records.Record | None, seq: int, text: bytes) -> None:
        if isinstance(record, (records.Message, records.Value)):
            self.book.add(record)
        elif isinstance(record, records.Session):
            self.header = self.identity.checked(record, seq)
        elif record is not None:
            self._fold(record, seq, records.timestamp(text) if type(record) is records.Tool else "")

    def _fold(self, record: records.Record, seq: int, ts: str) -> None:
        self.checkpoints.apply(record, seq)
        self.tools.apply(record, seq, ts)
        self.runs.apply(record, seq)

    def _corrupt(self, offset: int, reason: str, seq: int | None = None) -> CorruptSessionError:
        error = CorruptSessionError(self.identity.path, offset, self._position.seq if seq is None else seq, reason)
        self.forget()
        return error


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Read many records without the garbage collector: none of what is made is garbage.

    In a process with a million objects one full collection takes six times as long as reading 800 supersteps. The
    caller's setting comes back, also if several threads are in here.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
