"""One thread's log, opened in this process and read: what it means, as far as it was read."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import msgspec

from langgraph_jsonl_checkpoint.errors import (
    ChainKeyError,
    CorruptSessionError,
    DeletedSessionError,
    FailedSessionError,
    UnsupportedVersionError,
)
from langgraph_jsonl_checkpoint.folds.contents import Contents, Stored
from langgraph_jsonl_checkpoint.log import journal, logfile, packing, records
from langgraph_jsonl_checkpoint.log.garbage import no_collections
from langgraph_jsonl_checkpoint.log.lines import Lines
from langgraph_jsonl_checkpoint.sessions.alone import alone
from langgraph_jsonl_checkpoint.sessions.identity import begin_of, header_text
from langgraph_jsonl_checkpoint.values.book import Book
from langgraph_jsonl_checkpoint.values.shadows import Shadows

if TYPE_CHECKING:
    from langgraph_jsonl_checkpoint.folds.checkpoints import Checkpoints
    from langgraph_jsonl_checkpoint.folds.runs import Runs
    from langgraph_jsonl_checkpoint.folds.tool_calls import ToolCalls
    from langgraph_jsonl_checkpoint.log.writers import Writer
    from langgraph_jsonl_checkpoint.restore.restored import Recall
    from langgraph_jsonl_checkpoint.sessions.identity import Identity

_BASE = 16 * 1024  # bytes of memory that a session without any line takes
ATTEMPTS = 100  # how often others may create, replace or delete a log during one call


class OpenedLog:
    """A session as far as it was read, with the lock that guards all of it but `shadows`.

    Attributes:
        identity: Which session it is.
        writer: This saver as a writer.
        lock: The lock.
        owner: The thread of this process that has the lock; 0 if none has.
        changing: Whether that thread is at a place where nothing else may use the session, not even itself.
        counted: How many bytes the saver has counted for it.
        hooks: The namespaces whose tool calls a hook in this process records; None stands for all.
        left_out: Subgraphs that store nothing here.
        texts: The text of the memory that each of the last runs was given first.
        parent: Fields for the header of a new log: which thread's agent started this one's.
        run: Stands for the run that began last; None if that is not known.
        failure: Why the last append failed; None if it did not, or a run has begun since.
        header: Its header; None if it has no log.
        lines: The lines of its records.
        book: Its numbered messages and values.
        recall: The session memory, as far as it has been derived.
        shadows: What its next checkpoints are compared with.
    """

    def __init__(self, identity: Identity, writer: Writer) -> None:
        self.identity = identity
        self.writer = writer
        self.lock = threading.RLock()
        self.owner = 0
        self.changing = False
        self.counted = 0
        self.hooks: set[str | None] = set()
        self.left_out: set[str] = set()
        self.texts: list[tuple[object, str]] = []
        self.parent: dict[str, Any] = {}
        self.run: object = None
        self.failure: Exception | None = None
        self._key = writer.chain_key
        self._holding: list[logfile.LogFile] = []  # the files that may have the log's lock
        self._recovered: records.Recovered | None = None  # of a torn end that the log does not tell of yet
        self.forget()

    def refresh(self) -> None:
        """Take in what anyone has appended since. A session without a log is an empty one.

        After a failed append all of the log is read anew; the run that made it still cannot go on.

        Raises:
            CorruptSessionError: The log is damaged.
            UnsupportedVersionError: Another version wrote it.
        """
        if self.failure is not None:
            self.forget()
        self._refresh()

    def begin_run(self, run: object = None) -> None:
        """Take in what was appended since, at the begin of a run: it does not matter any more that an append failed.

        Raises what `refresh` raises.

        Args:
            run: Stands for the run, if that is known. It tells a subgraph, which reads its state in the middle of the
                run, from the begin of another run.
        """
        self.refresh()
        if run is None or run is not self.run:
            self.failure = None
            self.run = run

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
                self.failure = DeletedSessionError.during_a_run(self.identity.path)
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

    @alone
    def _refresh(self) -> None:
        for _ in range(ATTEMPTS):
            size = self._open()
            if size is None:
                return
            problem = self._follow(size)
            if problem is None or problem.torn:
                return  # it may be a commit that is just being written; only who has the lock can tell
            raise self._corrupt(problem.offset, problem.reason)

    def forget(self) -> None:
        """Close the log and drop all that is known of it."""
        self._file: logfile.LogFile | None = None  # which is closed with the last reader of its lines
        self._position = journal.Position()
        self._packed_end = 0
        self.header: records.Session | None = None
        self._start(Lines(self.identity.path))
        self.recall: Recall | None = None
        self.shadows = Shadows()

    def _start(self, lines: Lines, stored: Stored | None = None) -> None:
        """Begin to fold a generation of the log. Numbers that parts have from another one's book count no more."""
        self.lines = lines
        self._contents = Contents(lines, stored)
        self.book = Book(lines, self._contents.stored.numbers)

    @property
    def checkpoints(self) -> Checkpoints:
        """The fold of its checkpoints and pending writes."""
        return self._contents.checkpoints

    @property
    def runs(self) -> Runs:
        """The fold of its writers."""
        return self._contents.runs

    @property
    def tools(self) -> ToolCalls:
        """The fold of its tool calls."""
        return self._contents.tools

    @property
    def held(self) -> int:
        """How many bytes of memory it takes, about: its lines, what is made of them, and copies to compare with."""
        return _BASE + 3 * self.lines.held

    @property
    def exists(self) -> bool:
        """Whether the session had a log when it was last looked at."""
        return self._file is not None

    @property
    def end(self) -> tuple[int, str]:
        """The seq of the next record, and the digest of the last commit, in hexadecimal."""
        return self._position.seq, self._position.chain.hex()

    @property
    def is_left(self) -> bool:
        """Whether this saver wrote last, and the run is not over."""
        return self.runs.writer == self.writer.id and not self.runs.closed and self.checkpoints.is_unfinished

    @property
    def crashed(self) -> bool:
        """Whether the last run neither ended nor paused for a human, and its writer died without closing.

        When a new writer goes on with the run it still counts as crashed, until it ends.
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

    def _open(self) -> int | None:
        """Open the log if it is not; its size, or None if there is none."""
        for _ in range(ATTEMPTS):
            if self._file is None:
                try:
                    self._file = logfile.LogFile(self.identity.path)
                except (FileNotFoundError, NotADirectoryError):
                    return None
            size = self._file.size()
            if size is not None and size >= self._position.offset:
                return size
            # Deleted, or replaced by a new generation, or another writer took back a commit that it could not sync.
            self.forget()
        raise DeletedSessionError.over_and_over(self.identity.path, ATTEMPTS)

    def _follow(self, size: int) -> journal.Problem | None:
        """Read the log up to `size`; tells what is wrong behind the last whole commit, if anything is."""
        file = self._file
        if file is None or size == self._position.offset and self._position.offset:
            return None
        start, data = self._position, b""
        if not start.offset:
            begin = begin_of(file.read, size)
            self._check_begin(begin)
            start = self._take_index(file, begin, size)
            data = begin[start.offset :]
        data += file.read(start.offset + len(data), size)
        with no_collections():
            found = journal.follow(data, start, self._key)
        if found.problem is not None and not found.problem.torn and self._position.offset:
            # Before we call it damage we read the log from its begin: a writer may have taken back what we had read.
            self._reread(file)
            return self._follow(size)
        with no_collections():
            self._apply(found)
        return found.problem

    def _take_index(self, file: logfile.LogFile, data: bytes, size: int) -> journal.Position:
        """Take in the index of a packed log, if it has a good one; the position to read on from."""
        index = self._index(file, data, size)
        if index is None:
            return journal.Position()
        found, stored = index
        self._start(self._lines_of(file, found), stored)
        self._packed_end = found.position.offset
        try:
            self._take_header(found.header, 0)
        except ValueError as error:
            raise self._corrupt(0, str(error), 0) from None
        return found.position

    def _index(self, file: logfile.LogFile, data: bytes, size: int) -> tuple[packing.PackedLog, Stored] | None:
        """A log's index and what the folds come to behind it; None if the lines are to be read instead."""
        end = packing.index_end(data)
        if len(data) < end <= size:
            data = file.read(0, end)
        found = packing.find(data) if end else None
        if found is None:
            return None
        if found.position.offset > size:
            cut = next(frame for frame in found.frames if frame.end > size)
            reason = f"the file ends at byte {size}, and its index says that this frame goes on to byte {cut.end}"
            raise self._corrupt(min(cut.offset, size), reason, cut.seq)
        try:
            stored = msgspec.json.decode(found.contents, type=Stored)
        except msgspec.DecodeError:
            return None
        return (found, stored) if stored.fits(found.position.seq) else None

    def _lines_of(self, file: logfile.LogFile, found: packing.PackedLog) -> Lines:
        return Lines(self.identity.path, file, found.header, found.frames, found.position, self._key)

    @property
    def _unpacked(self) -> int:
        """How many bytes of frames stand behind the packed ones."""
        return self._position.offset - self._packed_end

    def _move(self, file: logfile.LogFile, found: packing.PackedLog) -> None:
        """Go on with the file in which the lines are packed now; their numbers and seqs are what they were."""
        self.shadows.adopt()
        self._file, self._position, self._packed_end = file, found.position, found.position.offset
        self.lines = self._lines_of(file, found)
        self._contents.moved(self.lines)
        self.book.lines = self.lines

    def _reread(self, file: logfile.LogFile) -> None:
        """Drop all that is known of the log, but keep it open, locked or not."""
        self._file = None
        self.forget()
        self._file = file

    def _check_begin(self, data: bytes) -> None:
        """Look at the version, and whether the chain begins with our key, before anything else is believed."""
        try:
            header = header_text(self.identity.path, data)
        except ValueError as error:
            raise self._corrupt(0, f"it has no header ({error})") from None
        if not journal.is_begun_with(header, self._key):
            raise ChainKeyError(self.identity.path, ChainKeyError.other_than(self._key))

    def _apply(self, found: journal.Followed) -> None:
        """Let the folds take in what comes next. If they cannot, all that is known of the log is dropped."""
        seq = self.lines.next
        self.lines.add(found.lines, found.frames)
        try:
            for kind, text in found.lines:
                if kind == "session":
                    self._take_header(text, seq)
                else:
                    self._contents.apply(kind, text, seq)
                seq += 1
        except LookupError:
            self.forget()
            raise UnsupportedVersionError.of_record(self.identity.path, kind, seq) from None
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
            reason = f"a record is not what its type says ({error})"
            raise self._corrupt(self.lines.offset(seq), reason, seq) from error
        self._position = found.position

    def _take_header(self, text: bytes, seq: int) -> None:
        self.header = self.identity.checked(records.parse_as(records.Session, text), seq)

    def _corrupt(self, offset: int, reason: str, seq: int | None = None) -> CorruptSessionError:
        error = CorruptSessionError(self.identity.path, offset, self._position.seq if seq is None else seq, reason)
        self.forget()
        return error
