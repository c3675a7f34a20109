"""One session's log, kept open: its bytes, its lock, and what is known to be on the disk."""

from __future__ import annotations

import errno
import logging
import os
import time
import weakref

from langgraph_jsonl_checkpoint.log import entries, files

logger = logging.getLogger(__name__)

_POLL = 0.001  # seconds between two tries for a contended lock
_PATIENCE = 10.0  # seconds of waiting for it after which a warning is due
_lost: dict[tuple[int, int], int] = {}  # by file, after a failed sync: from which offset on it may not be on the disk
_files: weakref.WeakSet[LogFile] = weakref.WeakSet()


class LogFile:
    """One session's log, kept open. Not for several threads at once."""

    _fd = -1  # `__del__` needs it, and Ctrl-C may come before `__init__` has begun

    def __init__(self, path: str, fd: int | None = None) -> None:
        """Open an existing log.

        Args:
            path: The log.
            fd: Its descriptor, if it is open already.

        Raises:
            FileNotFoundError: There is none.
            OSError: It cannot be opened, or something else stands in its place: a symbolic link, say.
        """
        flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a named pipe would wait for its other end
        self._identity = 0, 0
        self._refused: OSError | None = None
        if fd is None:
            entries.check_directory(os.path.dirname(path))
        try:
            self._fd = files.open(path, os.O_RDWR | flags) if fd is None else fd
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            # A log on a read-only medium can still be read.
            self._fd = files.open(path, os.O_RDONLY | flags)
            self._refused = error
        self.path = path
        self._end = 0  # where the file ended when it was written or cut last
        self._synced = 0  # up to where it is known to be on the disk
        try:
            status = files.fstat(self._fd)
            entries.check_file(status, path)
        except BaseException:
            files.close(self._fd)
            self._fd = -1
            raise
        self._identity = entries.identity(status)
        self._is_half_made = fd is None and status.st_nlink > 1  # its second name is there still: see `local.create`
        _files.add(self)

    def size(self) -> int | None:
        """The size in bytes; None if the path no longer leads to this file, or the descriptor is no longer ours.

        Both happen: another process deletes or rewrites the log; and a daemon closes every descriptor that it finds,
        and its number is used again for another file.
        """
        try:
            here, there = files.fstat(self._fd), files.stat(self.path, follow_symlinks=False)
        except OSError as error:
            if error.errno in (errno.EBADF, errno.ENOENT, errno.ENOTDIR):
                return None
            raise
        return here.st_size if entries.identity(here) == entries.identity(there) == self._identity else None

    def lock(self) -> int | None:
        """Wait for the log's lock. It is freed when its process dies, so a dead writer never blocks another one.

        A process that was stopped while it had the lock does block others, until it goes on or is killed: if they
        wrote, they would tear its commit.

        Returns:
            The size, which nobody else changes now; None, and no lock, if this is no longer the log.
        """
        try:
            if not files.lock_descriptor(self._fd, blocking=False):  # nearly always free, and then cheaper to ask for
                self._wait_for_lock()
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno != errno.EBADF:
                raise
            return None  # somebody closed the descriptor
        except BaseException:
            self.unlock()  # Ctrl-C may come when the lock has just been taken
            raise
        try:
            size = self.size()
        except BaseException:
            self.unlock()
            raise
        if size is None:
            self.unlock()
        return size

    def _wait_for_lock(self) -> None:
        told = time.monotonic() + _PATIENCE
        while not files.lock_descriptor(self._fd, blocking=False):
            time.sleep(_POLL)
            if time.monotonic() > told:
                told = float("inf")
                logger.warning(
                    "%s has been locked by another process for %g seconds; waiting until it goes on or ends",
                    self.path,
                    _PATIENCE,
                )

    def unlock(self) -> None:
        """Give the lock back."""
        try:
            files.unlock_descriptor(self._fd)
        except (OSError, ValueError):
            # If the descriptor is closed, the lock is free already; flock refuses -1 with a ValueError. Otherwise the
            # lock is freed by closing it, and the log is opened anew.
            self.close()

    def changed(self) -> int:
        """When it was changed last, in nanoseconds since 1970."""
        return files.fstat(self._fd).st_mtime_ns

    def touch(self, changed: int) -> None:
        """Set when it was changed last."""
        files.utime(self._fd, ns=(changed, changed))

    def read(self, offset: int, end: int) -> bytes:
        """The bytes from `offset` to `end`, or to the file's end if that comes first."""
        parts: list[bytes] = []
        while offset < end:
            part = files.pread(self._fd, min(end - offset, entries.CHUNK), offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def write(self, data: bytes, offset: int) -> None:
        """Write all of `data` at `offset`, which is the end.

        Raises:
            OSError: It cannot be written; PermissionError if the log could only be opened to be read.
        """
        if self._refused is not None:
            raise self._refused
        entries.write_all(self._fd, data, offset)
        self._end = offset + len(data)

    def truncate(self, size: int) -> None:
        """Cut the file. Raises what `write` raises."""
        if self._refused is not None:
            raise self._refused
        files.ftruncate(self._fd, size)
        self._end = size

    def sync(self) -> None:
        """Bring the file's bytes and size to the disk.

        Raises:
            OSError: The disk did not take all of them. They are written once more, now or before the next sync: a
                kernel may give up the pages that it could not write, and the next sync would pass over them.
        """
        if self._is_half_made:
            entries.sync_entries(self.path)
            self._is_half_made = False
        if (lost := _lost.get(self._identity)) is not None:
            self._write_again(lost)
        try:
            files.fdatasync(self._fd)
        except BaseException as error:
            lost = _lost[self._identity] = self._synced if lost is None else min(lost, self._synced)
            try:
                self._write_again(lost)
            except OSError as second:
                error.add_note(f"commits before it may not be on the disk either ({second})")
            raise
        _lost.pop(self._identity, None)
        self._synced = self._end

    def _write_again(self, offset: int) -> None:
        entries.write_all(self._fd, self.read(offset, self._end), offset)

    def set_aside(self, offset: int, end: int, stamp: str) -> str:
        """Copy a torn end to a file beside the log and sync it; the file's name.

        The copy is on the disk before the caller cuts the log, so the bytes are at each moment in one of the two.
        """
        if self._refused is not None:
            raise self._refused  # the log cannot be cut, so each try would only leave another copy
        directory = os.path.dirname(self.path)
        name = f"session.torn-{offset}-{stamp}"
        files.close(entries.write_new(os.path.join(directory, name), self.read(offset, end), sync=True))
        entries.sync_directory(directory)
        return name

    def part_from_parent(self) -> None:
        """In a forked child: open the file anew, to read it, as the inherited descriptor shares the parent's lock.

        A thread of the parent may be appending at the fork. If the parent died then, the lock would live on with us.
        """
        try:
            fd = files.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return  # it was deleted, and nobody waits for its lock
        if entries.identity(files.fstat(fd)) == self._identity:
            self.close()
            self._fd = fd
        else:
            files.close(fd)  # it was replaced: likewise

    def __del__(self) -> None:
        # Not before: a session that was closed, evicted or rewritten may have readers still, who read from this file.
        self.close()

    def close(self) -> None:
        """Close the descriptor, unless its number has come to stand for another file."""
        if self._fd >= 0:
            entries.close_own(self._fd, self._identity)
            self._fd = -1


def after_fork() -> None:
    """In a forked child: keep no lock of the parent's."""
    for file in list(_files):
        file.part_from_parent()
