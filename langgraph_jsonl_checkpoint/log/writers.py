"""Writers: each holds a lock file of its own while it lives, so that others can tell a dead one.

It lies in `<root>/.writers/`, where no workspace's name leads. A saver has none until it starts a run or a tool
call.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from typing import Literal

from langgraph_jsonl_checkpoint.log import files, names
from langgraph_jsonl_checkpoint.log.lockfile import LockFile

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
        self._own = LockFile(self._path(self.id))
        self._taking = threading.Lock()

    def another(self) -> Writer:
        """A new writer of the same logs."""
        return Writer(self.root, self.workspace, self.fsync, self.chain_key or None)

    def live(self) -> None:
        """Take the lock, unless it is held. That comes before a log names this writer.

        Raises:
            OSError: The lock cannot be taken. Then nothing may be written, as nobody could tell that the writer
                lives.
        """
        if self._own.is_in_place:
            return
        with self._taking:
            if not self._own.is_in_place and not self._own.take():
                raise FileExistsError(f"{self._own.path} is locked by another writer; make a new saver")

    def end(self) -> None:
        """Give the lock back, and leave neither its file nor an empty directory."""
        if self._own.is_held:
            self._own.give_back()
            with contextlib.suppress(OSError):
                files.rmdir(os.path.dirname(self._own.path))

    def is_alive(self, writer: str) -> bool:
        """Whether another writer of this directory lives; the file of a dead one is removed.

        If it cannot be told, because the file is another user's, the writer counts as alive.
        """
        if writer == self.id:
            return True
        path = self._path(writer)
        try:
            # For reading, which is enough for a shared lock: the medium may be read-only.
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
