"""Files and directories that are made, and how they and their names come to the disk."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from langgraph_jsonl_checkpoint.log import files

CHUNK = 1 << 30
"""How many bytes are moved by one call; Linux moves at most 2 GiB."""

_entered: set[str] = set()  # workspaces' folders whose own entries this process has synced


def sync_entries(path: str, *more: str) -> None:
    """Sync a log's directory, those above it, and `more`, so that the log is found after a power cut.

    Directories that were there already are synced, too: whoever made them may have been killed before it did that.
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
    """Bring a directory's entries to the disk: without it, a new or renamed file may be gone after a power cut."""
    fd = files.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        files.fsync(fd)
    finally:
        files.close(fd)


def make_directories(path: str) -> list[str]:
    """Make a directory and its parents, 0700; the directories that have a new entry now."""
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


def write_new(path: str, data: bytes, *, sync: bool) -> int:
    """Create a file, 0600, that holds `data`; its descriptor."""
    fd = files.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        write_all(fd, data, 0)
        if sync:
            files.fdatasync(fd)
    except BaseException as error:
        name_in(error, path)
        files.close(fd)
        files.unlink(path)
        raise
    return fd


def name_in(error: BaseException | None, path: str) -> None:
    """Add to an error of the system's which file it is about; a call with a descriptor does not know the name."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = path


def write_all(fd: int, data: bytes, offset: int) -> None:
    """Write all of `data` at `offset`."""
    view = memoryview(data)
    while view:
        done = files.pwrite(fd, view[:CHUNK], offset)
        if not done:
            raise OSError(errno.EIO, "a write wrote nothing")
        view, offset = view[done:], offset + done


def check_directory(path: str) -> None:
    """Refuse a symbolic link in the place of a thread's directory: what is written would be somewhere else.

    Raises:
        OSError: It is one.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISLNK(files.stat(path, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, "a symbolic link stands in the place of a thread's directory", path)


def check_file(status: os.stat_result, path: str) -> None:
    """Refuse a pipe or a directory in the place of a log.

    Raises:
        OSError: It is no file.
    """
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "no file, but something else, stands in the place of a log", path)


def identity(status: os.stat_result) -> tuple[int, int]:
    """What tells a file from all others, by whichever name or descriptor it is looked at."""
    return status.st_dev, status.st_ino


def close_own(fd: int, own: tuple[int, int]) -> None:
    """Close a descriptor, unless its number has come to stand for another file than the one with this identity."""
    try:
        status = files.fstat(fd)
    except OSError as error:
        if error.errno == errno.EBADF:
            return
    else:
        if identity(status) != own:
            return
    with contextlib.suppress(OSError):  # it is closed all the same
        files.close(fd)
