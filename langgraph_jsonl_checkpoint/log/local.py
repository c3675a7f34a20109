"""Session logs in a directory tree: files, locks, fsync.

`<root>/<workspace>/<thread>/session.jsonl.zst`, every name escaped. All that touches the disk is here; each function
is one step whose place in the order matters to its caller.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import stat
import time
import weakref
from typing import NamedTuple

from langgraph_jsonl_checkpoint.log import files, names

logger = logging.getLogger(__name__)

LOG = "session.jsonl.zst"
_ASIDE = ".new-"
_POLL = 0.001  # seconds between two tries for a contended lock
_PATIENCE = 10.0  # seconds after which waiting for it is worth a word
_CHUNK = 1 << 30  # Linux moves at most 2 GiB a call
_entered: set[str] = set()  # workspaces' folders whose own entries this process has synced
_lost: dict[tuple[int, int], int] = {}  # files that a sync failed for, and from where on they may not be on the disk
_files: weakref.WeakSet[LogFile] = weakref.WeakSet()


class LogFile:
    """One session's log, kept open. Not for several threads at once."""

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
        self._fd = -1
        self._identity = 0, 0
        self._refused: OSError | None = None
        if fd is None:
            _check_directory(os.path.dirname(path))
        try:
            self._fd = files.open(path, os.O_RDWR | flags) if fd is None else fd
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            # A log on a read-only medium can still be read.
            self._fd = files.open(path, os.O_RDONLY | flags)
            self._refused = error
        self.path = path
        self._end = 0  # of what was written or cut last, and how far that is known to be on the disk
        self._synced = 0
        try:
            status = files.fstat(self._fd)
            _check_file(status, path)
        except BaseException:
            files.close(self._fd)
            self._fd = -1
            raise
        self._identity = status.st_dev, status.st_ino
        self._is_half_made = fd is None and status.st_nlink > 1  # see `create`
        _files.add(self)

    def size(self) -> int | None:
        """The size in bytes; None if the path no longer leads to this file, or the descriptor is no longer ours.

        Both happen: another process deletes or rewrites the session, and a daemon closes every descriptor it finds,
        whose number then belongs to another file.
        """
        try:
            here, there = files.fstat(self._fd), files.stat(self.path, follow_symlinks=False)
        except OSError as error:
            if error.errno in (errno.EBADF, errno.ENOENT, errno.ENOTDIR):
                return None
            raise
        if (here.st_dev, here.st_ino) != self._identity or (there.st_dev, there.st_ino) != self._identity:
            return None
        return here.st_size

    def lock(self) -> int | None:
        """Wait for the session's lock, which dies with its process, so that a dead writer never blocks.

        A process that is stopped with the lock blocks until it goes on or is killed: to write past it would tear its
        commit.

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
            # A closed descriptor has given it back already; flock refuses -1 with a ValueError. Any other gives it
            # back when it is closed, and the log is opened anew.
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
            part = files.pread(self._fd, min(end - offset, _CHUNK), offset)
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
        _write_all(self._fd, data, offset)
        self._end = offset + len(data)

    def truncate(self, size: int) -> None:
        """Cut the file."""
        files.ftruncate(self._fd, size)
        self._end = size

    def sync(self) -> None:
        """Bring the file's bytes and size to the disk.

        Raises:
            OSError: It did not take all of them. They are written once more, or before the next sync: a kernel may
                give up the pages that it could not write, and that sync would pass over them.
        """
        if self._is_half_made:
            _sync_entries(self.path)
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
        _write_all(self._fd, self.read(offset, self._end), offset)

    def set_aside(self, offset: int, end: int, stamp: str) -> str:
        """Copy a torn end to a file beside the log and sync it; the file's name.

        The copy is on disk before the caller cuts the log: the evidence is never in neither place.
        """
        directory = os.path.dirname(self.path)
        name = f"session.torn-{offset}-{stamp}"
        files.close(_write_new(os.path.join(directory, name), self.read(offset, end), sync=True))
        sync_directory(directory)
        return name

    def part_from_parent(self) -> None:
        """In a forked child: take a descriptor of its own, to read. The inherited one keeps the parent's lock.

        A thread of the parent may be appending at the fork. If the parent dies in that, its lock would live with us.
        """
        try:
            fd = files.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return  # deleted since; nobody waits for it
        status = files.fstat(fd)
        if (status.st_dev, status.st_ino) == self._identity:
            self.close()
            self._fd = fd
        else:
            files.close(fd)  # replaced since, likewise

    def __del__(self) -> None:
        # Whoever still reads the lines of a session that was closed, evicted or rewritten reads them from here.
        self.close()

    def close(self) -> None:
        """Close the descriptor, unless its number has come to stand for another file."""
        if self._fd >= 0:
            close_own(self._fd, self._identity)
            self._fd = -1


def _status_of_file(fd: int, path: str) -> os.stat_result:
    status = files.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "no file, but something else, stands in the place of a log", path)
    return status


def close_own(fd: int, identity: tuple[int, int]) -> None:
    """Close a descriptor, unless its number has come to stand for another file than the one with this identity."""
    try:
        status = files.fstat(fd)
    except OSError as error:
        if error.errno == errno.EBADF:
            return
    else:
        if (status.st_dev, status.st_ino) != identity:
            return
    with contextlib.suppress(OSError):  # it is closed all the same
        files.close(fd)


def after_fork() -> None:
    """In a forked child: keep no lock of the parent's."""
    for file in list(_files):
        file.part_from_parent()


def workspace_path(root: str, workspace: str) -> str:
    """Where the threads of a workspace are, or would be."""
    return os.path.join(root, names.escape(workspace))


def log_path(folder: str, thread_id: str) -> str:
    """Where a thread's log is, or would be, in its workspace's folder."""
    return f"{folder}{os.sep}{names.escape(thread_id)}{os.sep}{LOG}"


class Found(NamedTuple):
    """A log in a workspace's folder.

    Attributes:
        changed: Time of the last change in seconds.
        name: The name of its directory.
        state: Differs whenever the log's bytes may: device, inode, size, times in nanoseconds.
    """

    changed: float
    name: str
    state: tuple[int, ...]


def logs(folder: str) -> list[Found]:
    """The logs of a workspace, the last changed first."""
    found: list[Found] = []
    try:
        fd = files.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return found
    try:
        for name in files.listdir(fd):
            try:
                at = files.stat(f"{name}{os.sep}{LOG}", dir_fd=fd, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                continue  # a thread that is just being created or deleted has a directory and no log
            except PermissionError as error:
                logger.warning("%s is left out of the list: %s", os.path.join(folder, name), error)
                continue
            if not stat.S_ISREG(at.st_mode):
                continue  # never ours; to open a named pipe would wait for its other end
            state = at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns
            found.append(Found(at.st_mtime, name, state))
    finally:
        files.close(fd)
    found.sort(reverse=True)
    return found


def changed_at(path: str) -> float:
    """When a log was changed last, in seconds since 1970; after all time if it is gone."""
    try:
        return files.stat(path, follow_symlinks=False).st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return float("inf")


def create(path: str, data: bytes, *, sync: bool) -> LogFile:
    """Create a log that holds `data`, never in the place of another.

    The file is written aside and linked to its name, so no reader, and no crash, ever sees a part of it.

    Returns:
        The log, open.

    Raises:
        FileExistsError: Another writer was faster; nothing was changed.
    """
    directory = os.path.dirname(path)
    made = make_directories(directory)
    _check_directory(directory)
    file, is_linked = _write_aside(directory, data, sync=sync), False
    try:
        files.link(file.path, path)
        is_linked = True
        if sync:
            _sync_entries(path, *made)
    except BaseException:
        with contextlib.suppress(OSError):
            if is_linked:
                files.unlink(path)
            files.unlink(file.path)
        file.close()
        raise
    # The second name stays until the first is on the disk: it tells the next writer if we are killed before.
    with contextlib.suppress(OSError):
        files.unlink(file.path)
    file.path = path
    file.unlock()
    return file


def replace(path: str, data: bytes, *, changed: int | None = None) -> LogFile:
    """Put another file in the place of a log: a crash leaves the old one or the new one, whole.

    Args:
        path: The log.
        data: What stands in it now.
        changed: When the thread was changed last, in nanoseconds, if this is no change of it.

    Returns:
        The new log, open and locked: it is locked before it has its name, so nobody comes between.
    """
    directory = os.path.dirname(path)
    # A writer that was killed while it created the log left a second name of it: removed data must not stay there.
    left = [name for name in files.listdir(directory) if name.startswith(_ASIDE)]
    if left:
        _sync_entries(path)
    for name in left:
        with contextlib.suppress(FileNotFoundError):
            files.unlink(os.path.join(directory, name))
    second = _aside(directory)
    made = _write_aside(directory, data, sync=True)
    try:
        if changed is not None:
            made.touch(changed)
        files.link(made.path, second)  # as in `create`: it tells the next writer if the rename is not on the disk yet
        files.rename(made.path, path)
        made.path = path
        sync_directory(directory)
    except BaseException:
        if made.path != path:
            for name in (made.path, second):
                with contextlib.suppress(OSError):
                    files.unlink(name)
        made.close()
        raise
    with contextlib.suppress(OSError):
        files.unlink(second)
    return made


def _aside(directory: str) -> str:
    return os.path.join(directory, f"{_ASIDE}{secrets.token_hex(8)}")


def _write_aside(directory: str, data: bytes, *, sync: bool) -> LogFile:
    """A new file beside a log, open and locked: whoever finds it in the log's place waits until that is settled."""
    path = _aside(directory)
    fd = _write_new(path, data, sync=sync)
    try:
        file = LogFile(path, fd)
        try:
            file.lock()
        except BaseException:
            file.close()
            raise
    except BaseException:
        with contextlib.suppress(OSError):
            files.unlink(path)
        raise
    return file


def delete(path: str) -> None:
    """Delete a log and all that lies beside it.

    Under the log's lock: a rewrite by another process is over then, or finds nothing to rewrite.
    """
    while True:
        try:
            file = LogFile(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL):
                raise
            _delete(path)  # what a killed delete left, or what somebody else put there
            return
        try:
            if file.lock() is not None:
                _delete(path)
                return
        finally:
            file.unlock()
            file.close()


def _delete(path: str) -> None:
    directory = os.path.dirname(path)
    if os.path.islink(directory):
        files.unlink(directory)  # and nothing of where it leads
        return
    try:
        beside = [name for name in files.listdir(directory) if name != LOG]
    except (FileNotFoundError, NotADirectoryError):
        return
    # The log first: whatever a crash leaves behind, the thread is gone. Then only what was there before: another
    # process may be creating the thread anew.
    for name in (LOG, *beside):
        with contextlib.suppress(FileNotFoundError):
            files.unlink(os.path.join(directory, name))
    try:
        files.rmdir(directory)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise
    sync_directory(os.path.dirname(directory))


def _check_file(status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "no file, but something else, stands in the place of a log", path)


def _check_directory(path: str) -> None:
    """Refuse a thread's directory that somebody else put there as a link: what is written would be elsewhere.

    Raises:
        OSError: It is one.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISLNK(files.stat(path, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, "a symbolic link stands in the place of a thread's directory", path)


def _sync_entries(path: str, *more: str) -> None:
    """Bring a log's entry in its directory to the disk, those of the directories above it, and more.

    Not only what is new: whoever made a directory that was there may have been killed before it synced.
    """
    directory = os.path.dirname(path)
    folder = os.path.dirname(directory)
    root = os.path.dirname(folder)
    above = (folder,) if folder in _entered else (folder, root)
    for each in dict.fromkeys((directory, *above, *more)):
        sync_directory(each)
    if folder not in _entered:
        with contextlib.suppress(PermissionError):  # what is above the root may be somebody else's
            sync_directory(os.path.dirname(root))
    _entered.add(folder)


def sync_directory(path: str) -> None:
    """Bring a directory's entries to the disk: a created or renamed file is only then there after a power cut."""
    fd = files.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        files.fsync(fd)
    finally:
        files.close(fd)


def make_directories(path: str) -> list[str]:
    """Make a directory and its parents, 0700; the directories whose entries are new."""
    parent = os.path.dirname(path) or os.curdir
    try:
        files.mkdir(path, 0o700)  # nearly always all that is missing
    except FileExistsError:
        return []
    except FileNotFoundError:
        above = make_directories(parent) or [os.path.dirname(parent) or os.curdir]  # somebody was faster just now
        with contextlib.suppress(FileExistsError):
            files.mkdir(path, 0o700)
        return [parent, *above]
    return [parent]


def _write_new(path: str, data: bytes, *, sync: bool) -> int:
    """Create a file, 0600, that holds `data`; its descriptor."""
    fd = files.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _write_all(fd, data, 0)
        if sync:
            files.fdatasync(fd)
    except BaseException:
        files.close(fd)
        files.unlink(path)
        raise
    return fd


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        done = files.pwrite(fd, view[:_CHUNK], offset)
        if not done:
            raise OSError(errno.EIO, "a write wrote nothing")
        view, offset = view[done:], offset + done
