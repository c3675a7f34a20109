"""One thread open in this process, to be written.

An append takes these steps under the log's lock: read what others appended, number the new values, write one frame,
sync it if that is asked for, and only then let the folds take it in. A failed append is cut off again, and the
session refuses further ones until a run begins, which reads the log anew.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from langgraph_jsonl_checkpoint.errors import DeletedSessionError, SessionError, ValueEncodingError
from langgraph_jsonl_checkpoint.log import frames, journal, local, logfile, packing, records
from langgraph_jsonl_checkpoint.sessions.alone import alone
from langgraph_jsonl_checkpoint.sessions.identity import introduction
from langgraph_jsonl_checkpoint.sessions.opened import ATTEMPTS, OpenedLog
from langgraph_jsonl_checkpoint.values.page import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from langgraph_jsonl_checkpoint.values.seal import Serde

logger = logging.getLogger(__name__)

_LOOSE = 1 << 15  # a log with so many bytes behind its packed frames is packed when it is closed
_LONGEST = 1 << 22  # and with so many at once
_LOOSEST = 1 << 28  # and with so many bytes of text there, too


class _Commit(NamedTuple):
    """A commit that can be written: what it holds, and the positions that it begins and ends at."""

    page: Page
    lines: list[journal.Line]
    frame: bytes
    begin: journal.Position
    end: journal.Position


class Session(OpenedLog):
    """A session that can be written."""

    _wrote = False
    _longest = _LONGEST
    _loosest = _LOOSEST

    @alone
    def append(self, make: Callable[[Page], list[records.Record]], serde: Serde | None, *, sync: bool) -> bool:
        """Append one commit.

        Args:
            make: Makes the records, given the page that numbers their values. It is called again if the log turns out
                to have been replaced. An empty list appends nothing.
            serde: Seals each text, if it is one that seals; None for records without values.
            sync: Whether the commit is to be on the disk when this returns, if the saver's `fsync` is "checkpoint":
                "always" has each one there, "never" none, and not even a new file.

        Returns:
            False if the log was deleted during the run; then nothing was written.

        Raises:
            FailedSessionError: An append failed before this one, and no run has begun since.
            OSError: The commit could not be written. The log is as it was before.
        """
        self.check_failure()
        try:
            fsync = self.writer.fsync
            return self._append_once(make, serde, sync=fsync == "always" or sync and fsync == "checkpoint")
        except OSError as error:
            self.failure = error  # wherever it came from, what the call held is missing
            raise

    def _append_once(self, make: Callable[[Page], list[records.Record]], serde: Serde | None, *, sync: bool) -> bool:
        for _ in range(ATTEMPTS):
            existed = self.exists
            try:
                file = self._locked()
                if file is not None:
                    self._append(file, make, serde, sync=sync)
            finally:
                self.unlock()
            if file is not None:
                self._pack_if_long()
                return True
            if existed:
                self.failure = DeletedSessionError.during_a_run(self.identity.path)
                return False
            if self._create(make, serde):
                return True
        raise DeletedSessionError.over_and_over(self.identity.path, ATTEMPTS)

    def _append(
        self, file: logfile.LogFile, make: Callable[[Page], list[records.Record]], serde: Serde | None, *, sync: bool
    ) -> None:
        commit = self._compose(self._position, make, serde)
        if commit is None:
            return
        try:
            file.write(commit.frame, commit.begin.offset)
            if sync:
                file.sync()
        except BaseException as error:
            # Cut off what may have been written, while the lock still keeps others from appending behind it. If that
            # fails too, the next writer finds a torn end and moves it aside.
            self._fail(error, commit.page)
            try:
                file.truncate(commit.begin.offset)
            except OSError as second:
                if second is not error:  # it is the same one if the log could only be opened for reading
                    error.add_note(f"the part that was written could not be cut off either ({second})")
            raise
        self._believe(commit)

    def _create(self, make: Callable[[Page], list[records.Record]], serde: Serde | None) -> bool:
        """Create the log with its first commit; False if another writer was faster."""
        header = self.identity.header(**self.parent)
        begin = _lines(0, records.now(), [header])
        frame, position = journal.commit(journal.Position(), [line.text for line in begin], self._key)
        commit = self._compose(position, make, serde)
        if commit is None:
            return True
        try:
            self._file = local.create(self.identity.path, frame + commit.frame, sync=self.writer.fsync != "never")
        except (FileExistsError, FileNotFoundError):
            # Another writer was faster, or another process deleted the thread while we were creating its directory.
            commit.page.drop()
            return False
        except BaseException as error:
            self._fail(error, commit.page)
            raise
        self.header = header
        self.lines.add(begin, [(0, 0)])
        self._believe(commit)
        return True

    def _compose(
        self, begin: journal.Position, make: Callable[[Page], list[records.Record]], serde: Serde | None
    ) -> _Commit | None:
        """The commit that follows a position; None if it is empty."""
        page = Page(self.book, serde)
        try:
            made = make(page)
            if not made and self._recovered is None:
                return None
            lines = _lines(begin.seq, records.now(), [*self._opening(made), *page.records, *made])
            frame, end = journal.commit(begin, [line.text for line in lines], self._key)
        except BaseException as error:
            page.drop()
            if isinstance(error, OverflowError):
                raise ValueEncodingError(f"{error}; nothing was stored. Store large values outside.") from None
            raise
        return _Commit(page, lines, frame, begin, end)

    def _opening(self, made: list[records.Record]) -> list[records.Record]:
        """The `open` record that a commit begins with, if it is a writer's first, or its first after another's run.

        Raises:
            OSError: The commit is part of a run, and the writer's lock cannot be taken.
        """
        me, runs = self.writer.id, self.runs
        in_run = any(map(self._is_of_run, made))
        if in_run:
            self.writer.live()
        known, untold = me in runs.hooks, runs.untold(me, self.hooks)
        if known and not untold and self._recovered is None and (runs.writer == me or not in_run):
            return []
        died = "" if runs.writer == me else self.left_by()
        within = sorted(ns for ns in untold if ns is not None)
        who = {} if known else introduction()
        opening = records.Open(
            writer=me, **who, hook=bool(untold), within=within, died=died, recovered=self._recovered
        )
        return [opening]

    def _is_of_run(self, record: records.Record) -> bool:
        """Whether the run goes on behind this record, so that somebody may ask whether its writer still lives.

        Behind an answer, the writes of one task or the end of a subgraph, the run's next task may take an hour.
        """
        if type(record) is records.Checkpoint or type(record) is records.Writes:
            return self.checkpoints.leads_on or type(record) is records.Checkpoint and bool(record.next)
        return type(record) is records.Tool

    def _fail(self, error: BaseException, page: Page) -> None:
        self.failure = error if isinstance(error, Exception) else RuntimeError("the append was interrupted")
        page.drop()

    def _believe(self, commit: _Commit) -> None:
        self._wrote = True
        self._recovered = None
        commit.page.keep(commit.end.seq)
        self._apply(journal.Followed(commit.end, commit.lines, [(commit.begin.seq, commit.begin.offset)]))

    def _locked(self) -> logfile.LogFile | None:
        """The log, locked until `unlock`, and read up to its end; None if there is none."""
        for _ in range(ATTEMPTS):
            if self._file is None and self._open() is None:
                return None
            file = self._file
            assert file is not None  # noqa: S101 - _open has just said so
            self._holding.append(file)  # before it is locked: Ctrl-C may come right behind that
            size = file.lock()
            if size is None:
                self._holding.pop()
                self.forget()
                continue
            self._catch_up(file, size)
            return file
        raise DeletedSessionError.over_and_over(self.identity.path, ATTEMPTS)

    def _catch_up(self, file: logfile.LogFile, size: int) -> None:
        """Read what others appended. A torn end is moved aside: its writer is dead, or it would have the lock."""
        if size < self._position.offset:
            self._reread(file)
        problem = self._follow(size)
        if problem is not None and not problem.torn:
            raise self._corrupt(problem.offset, problem.reason)
        self.lines.check_end()  # before anything is cut off or appended: so far the index alone says where that is
        if problem is not None:
            self._repair(file, problem.offset, size)

    def _repair(self, file: logfile.LogFile, offset: int, size: int) -> None:
        """Move a torn end aside: it is copied, the copy is synced, and only then the end is cut off."""
        name = file.set_aside(offset, size, datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f"))
        file.truncate(offset)
        self._recovered = records.Recovered(offset=offset, bytes=size - offset, file=name)
        file.sync()

    def unlock(self) -> None:
        """Give the log's lock back, if this session has it."""
        while self._holding:
            self._holding[-1].unlock()
            self._holding.pop()

    def finish(self, error: str) -> None:
        """If the last run is not over, record that this writer ends, so that nobody believes that it died in the run.

        `error` is the type of the exception that ends it, or empty.
        """
        error = error or ("" if self.failure is None else type(self.failure).__name__)
        self.begin_run()  # nothing more comes of the run that failed
        if self.is_left:
            self.append(lambda _: [records.Close(writer=self.writer.id, error=error)], None, sync=False)

    def leave(self) -> None:
        """Close the log, and pack it before if this saver appended enough to make that worth the time."""
        if self._wrote and self._unpacked >= max(_LOOSE, self._packed_end // 8):
            try:
                self.pack()
            except (SessionError, OSError) as error:
                logger.warning("%s was closed and not packed: %s", self.identity.path, error)
        self.forget()

    def _pack_if_long(self) -> None:
        """Pack in the middle of a run: what stands behind the packed frames is read at once and kept in memory."""
        if self._unpacked < self._longest and self.lines.loose < self._loosest:
            return
        try:
            packed = self.pack()
        except (SessionError, OSError) as error:  # a full disk, perhaps; what was appended is stored
            logger.warning("%s could not be packed: %s", self.identity.path, error)
            packed = False
        self._longest = _LONGEST if packed else 2 * self._unpacked
        self._loosest = _LOOSEST if packed else 2 * self.lines.loose

    @alone
    def pack(self) -> bool:
        """Put the log's commits into few large frames with an index in front; the lines stay what they are.

        The packed log takes the place of the other one under its lock. A crash leaves one of the two; a writer waits
        and then appends to the new one; a reader that has the old one open goes on reading it.

        Returns:
            Whether there was anything to pack.

        Raises:
            CorruptSessionError: The log is damaged.
            OSError: The packed log could not be written; the log is as it was.
        """
        try:
            file = self._settled()
            packed = self._packed(file) if file is not None and self._unpacked else None
            if file is None or packed is None:
                return False
            data, found = packed
            moved = local.replace(self.identity.path, data, changed=file.changed())
            self._holding.append(moved)
            self._move(moved, found)
        finally:
            self.unlock()
        return True

    def _packed(self, file: logfile.LogFile) -> tuple[bytes, packing.PackedLog] | None:
        """The log in its packed form, and its index as a reader finds it; None if no reader would take the index."""
        try:
            contents = msgspec.json.encode(self._contents.stored)
        except UnicodeEncodeError:
            return None  # a name holds a lone surrogate, for which an index has no place
        try:
            data = packing.pack(file.read(0, self._position.offset), contents)
        except frames.BadFrameError as error:
            raise self._corrupt(0, f"a frame cannot be packed: {error}") from None
        found = packing.find(data)
        return None if found is None else (data, found)  # the names may be longer than readers let an index be

    @alone
    def rewrite(self, plan: Callable[[list[journal.Line]], tuple[records.Prune, Iterable[bytes]] | None]) -> bool:
        """Put a new generation in the log's place, under its lock: a writer waits and then appends to the new one.

        Args:
            plan: Is given the lines of the log as it is now. It returns the record that says what is left out, and
                the lines that stay; or None if nothing is to change.

        Returns:
            Whether anything changed.

        Raises:
            CorruptSessionError: The log is damaged.
            OSError: The new generation could not be written; the old one is as it was.
        """
        try:
            planned = None if self._settled() is None else plan(list(self.lines.since(0)))
            if planned is None or self.header is None:
                return False
            prune, lines = planned
            ts = records.now()
            head = records.line(0, ts, msgspec.structs.replace(self.header, generation=self.header.generation + 1))
            log = packing.compose(head, [records.line(0, ts, prune), *lines], self._key)
            local.replace(self.identity.path, log).unlock()
        finally:
            self.unlock()
        self.forget()
        return True

    def _settled(self) -> logfile.LogFile | None:
        """The log, locked, before another file takes its place: if a torn end was moved aside, it says so first."""
        file = self._locked()
        if file is not None and self._recovered is not None:
            self._append(file, lambda _: [], None, sync=True)
        return file


def _lines(seq: int, ts: str, everything: list[records.Record]) -> list[journal.Line]:
    return [journal.Line(records.type_of(r), records.line(i, ts, r)) for i, r in enumerate(everything, seq)]
