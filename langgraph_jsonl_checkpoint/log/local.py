"""Session logs in a directory tree: where each is, and how one is created, replaced and deleted.

A log is `<root>/<workspace>/<thread>/session.jsonl.zst`, and every name is escaped.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import stat
from typing import NamedTuple

from langgraph_jsonl_checkpoint.log import entries, files, names
from langgraph_jsonl_checkpoint.log.logfile import LogFile

logger = logging.getLogger(__name__)

LOG = "session.jsonl.zst"
_ASIDE = ".new-"


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
            except OSError as error:  # another owner's, a link that leads to itself, a bad sector
                logger.warning("%s is left out of the list: %s", os.path.join(folder, name), error)
                continue
            if not stat.S_ISREG(at.st_mode):
                continue  # never ours; to open a named pipe would wait for its other end
            state = at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns
            found.append(Found(at.st_mtime, name, state))
    except OSError as error:
        entries.name_in(error, folder)
        raise
    finally:
        files.close(fd)
    found.sort(reverse=True)
    return found


def changed_at(path: str) -> float:
    """When a log was changed last, in seconds since 1970; infinitely late if it is gone."""
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
    made = entries.make_directories(directory)
    entries.check_directory(directory)
    file, is_linked = _write_aside(directory, data, sync=sync), False
    try:
        files.link(file.path, path)
        is_linked = True
        if sync:
            entries.sync_entries(path, *made)
        # The second name stays until the first is on the disk: if we are killed before, it tells the next writer.
        with contextlib.suppress(OSError):
            files.unlink(file.path)
    except BaseException as error:
        entries.name_in(error, path)
        with contextlib.suppress(OSError):
            if is_linked:
                files.unlink(path)
            files.unlink(file.path)
        file.close()
        raise
    file.path = path
    file.unlock()
    return file


def replace(path: str, data: bytes, *, changed: int | None = None) -> LogFile:
    """Put another file in the place of a log: a crash leaves the old one or the new one, whole.

    Args:
        path: The log.
        data: The bytes of the other file.
        changed: When the thread was changed last, in nanoseconds, if it stays what it was.

    Returns:
        The new log, open and locked. It is locked before it has its name, so nobody appends to it before the caller.
    """
    directory = os.path.dirname(path)
    # A writer that was killed while it created the log left a second name of it. What is removed now must not live on
    # under that name.
    left = [name for name in files.listdir(directory) if name.startswith(_ASIDE)]
    if left:
        entries.sync_entries(path)
    for name in left:
        with contextlib.suppress(FileNotFoundError):
            files.unlink(os.path.join(directory, name))
    second = _aside(directory)
    made = _write_aside(directory, data, sync=True)
    try:
        if changed is not None:
            made.touch(changed)
        # As in `create`: until the rename is on the disk, the second name tells the next writer.
        files.link(made.path, second)
        files.rename(made.path, path)
        made.path = path
        entries.sync_directory(directory)
        with contextlib.suppress(OSError):
            files.unlink(second)
    except BaseException:
        if made.path != path:
            for name in (made.path, second):
                with contextlib.suppress(OSError):
                    files.unlink(name)
        made.close()
        raise
    return made


def _aside(directory: str) -> str:
    return os.path.join(directory, f"{_ASIDE}{secrets.token_hex(8)}")


def _write_aside(directory: str, data: bytes, *, sync: bool) -> LogFile:
    """A new file beside a log, open and locked: others who find it in the log's place wait until it stays there."""
    path = _aside(directory)
    fd = entries.write_new(path, data, sync=sync)
    try:
        file = LogFile(path, fd)
        try:
            file.lock()
        except BaseException:
            file.close()
            raise
    except BaseException as error:
        entries.name_in(error, path)
        with contextlib.suppress(OSError):
            files.unlink(path)
        raise
    return file


def delete(path: str) -> None:
    """Delete a log and all that lies beside it.

    That is done under the log's lock, so another process's rewrite is over, or will find nothing to rewrite.
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
        files.unlink(directory)  # the link alone, and nothing in the directory that it leads to
        return
    try:
        beside = [name for name in files.listdir(directory) if name != LOG]
    except (FileNotFoundError, NotADirectoryError):
        return
    # The log goes first, so that the thread is gone whatever a crash leaves. Of the other files only those go that
    # were there before, because another process may be creating the thread anew.
    for name in (LOG, *beside):
        with contextlib.suppress(FileNotFoundError):
            files.unlink(os.path.join(directory, name))
    try:
        files.rmdir(directory)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise
    entries.sync_directory(os.path.dirname(directory))
