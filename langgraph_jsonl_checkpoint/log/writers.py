"""Writers: each holds the lock of a file of its own while it lives, so that others can tell a dead one.

The lock is the kernel's and dies with its process; the file alone means nothing. It lies in `<root>/.writers/`, where
no workspace's name leads. A saver that starts no run and no tool call needs none.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from typing import Literal

from langgraph_jsonl_checkpoint.log import entries, files, names

Fsync = Literal["checkpoint", "always", "never"]

_FOLDER = ".writers"
_LONGEST_KEY = 64  # BLAKE2b takes no longer one


class Writer:
    """One saver as a writer of logs. It lives until it ends in good order, or its process dies.

    Args:
        root: The saver's directory.
        workspace: The group of threads that it writes to.
        fsync: When it has the disk synced.
        chain_key: The key of its logs' chains; None for none.

    Raises:
        ValueError: The key is too long, or empty.

    Attributes:
        root: As given.
        workspace: As given.
        fsync: As given.
        chain_key: As given; empty for none.
        id: Its id; no other writer ever has it.
        left: The threads whose runs it wrote last, and that are not over.
    """

    def __init__(self, root: str, workspace: str, fsync: Fsync, chain_key: bytes | None) -> None:
        if chain_key is not None and not (isinstance(chain_key, bytes) and 0 < len(chain_key) <= _LONGEST_KEY):
            raise ValueError(f"chain_key is 1 to {_LONGEST_KEY} bytes, as secrets.token_bytes(32) makes them")
        self.root = root
        self.workspace = workspace
        self.fsync: Fsync = fsync
        self.chain_key = chain_key or b""
        self.id = secrets.token_hex(4)
        self.left: set[str] = set()
        self._own = self._path(self.id)
        self._fd: int | None = None
        self._file = (0, 0)
        self._lock = threading.Lock()

    def another(self) -> Writer:
        """A new writer of the same logs."""
        return Writer(self.root, self.workspace, self.fsync, self.chain_key or None)

    def live(self) -> None:
        """Take the lock, unless it is held: before a log names this writer.

        Raises:
            OSError: The lock cannot be taken. Then nothing may be written, as nobody could tell that the writer
                lives.
        """
        if self._holds():
            return
        with self._lock:
            if not self._holds():
                self._take()

    def _take(self) -> None:
        while True:
            for each in entries.make_directories(os.path.dirname(self._own)):
                entries.sync_directory(each)  # the log that comes next finds its root made, and so does not
            try:
                fd = files.open(self._own, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except FileNotFoundError:
                continue  # the last writer before us removed the directory
            try:
                if not files.lock_descriptor(fd, blocking=False):
                    raise FileExistsError(f"{self._own} is locked by another writer; make a new saver")  # noqa: TRY301
                status = files.fstat(fd)
                self.drop()
                self._fd, self._file = fd, (status.st_dev, status.st_ino)
            except BaseException:  # Ctrl-C, too: what is locked and lost is locked for ever
                files.close(fd)
                raise
            return

    def _holds(self) -> bool:
        """Whether the descriptor is still ours, and others find its file.

        A daemon closes all descriptors, and numbers are used again. The root is removed or put back from a copy, and
        the logs that come then stand beside no lock.
        """
        if self._fd is None:
            return False
        try:
            here, there = files.fstat(self._fd), files.stat(self._own, follow_symlinks=False)
        except OSError:
            return False
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) == self._file

    def end(self) -> None:
        """Give the lock back and leave no file."""
        if self._holds():
            with contextlib.suppress(OSError):
                files.unlink(self._own)
            with contextlib.suppress(OSError):
                files.rmdir(os.path.dirname(self._own))
        self.drop()

    def drop(self) -> None:
        """Close the descriptor alone: in a forked child, whose copy would keep the lock when the parent is dead."""
        if self._fd is not None:
            entries.close_own(self._fd, self._file)
        self._fd = None

    def is_alive(self, writer: str) -> bool:
        """Whether another writer of this directory lives; the file of a dead one is removed.

        One whose file is another user's, so that nobody can ask, is not taken for dead.
        """
        if writer == self.id:
            return True
        path = self._path(writer)
        try:
            # To be read, which a shared lock is content with: the medium may be read-only.
            fd = files.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except PermissionError:
            return True
        try:
            # Shared, so that others who ask at this moment do not seem to be the writer.
            files.flock(fd, files.LOCK_SH | files.LOCK_NB)
        except (BlockingIOError, PermissionError):  # EACCES, say some file systems
            return True
        else:
            with contextlib.suppress(OSError):
                files.unlink(path)
            return False
        finally:
            files.close(fd)

    def _path(self, writer: str) -> str:
        # A forged log may name anything as a writer.
        return os.path.join(self.root, _FOLDER, names.escape(writer))
