"""Leases: of those who take turns with a thread, each holds the lock of a file while it has its turn.

The lock is the kernel's and dies with its process; the file alone means nothing. It lies in
`<root>/.leases/<workspace>/`, where no workspace's name leads.
"""

from __future__ import annotations

import contextlib
import os
import weakref

from langgraph_jsonl_checkpoint.log import entries, files, names

_FOLDER = ".leases"


class Lease:
    """A turn with a thread, for one holder at a time, on this machine.

    Args:
        root: The saver's directory.
        workspace: The group of threads.
        thread_id: The thread.
    """

    def __init__(self, root: str, workspace: str, thread_id: str) -> None:
        self._path = os.path.join(root, _FOLDER, names.escape(workspace), names.escape(thread_id))
        self._fd: int | None = None
        self._file = (0, 0)

    def is_of(self, other: Lease) -> bool:
        """Whether it is a turn with the same thread."""
        return other._path == self._path

    @property
    def is_held(self) -> bool:
        """Whether it was taken and not given back."""
        return self._fd is not None

    def take(self) -> bool:
        """Take it, if nobody holds it; whether it is held now.

        Raises:
            OSError: Its file cannot be made or locked.
        """
        entries.make_directories(os.path.dirname(self._path))
        while True:
            fd = files.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                if not files.lock_descriptor(fd, blocking=False):
                    files.close(fd)
                    return False
                status = files.fstat(fd)
            except BaseException:
                files.close(fd)
                raise
            if self._leads_to(status):
                self._fd, self._file = fd, (status.st_dev, status.st_ino)
                _held.add(self)
                return True
            files.close(fd)  # who held it before us has removed the file that we opened

    def _leads_to(self, status: os.stat_result) -> bool:
        try:
            found = files.stat(self._path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino)

    def give_back(self) -> None:
        """Let the next one have it, and leave no file."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                files.unlink(self._path)  # while it is locked: whoever locks it later sees that it is gone
        self.drop()

    def clear(self) -> None:
        """Remove the file that a holder left who was killed."""
        try:
            files.stat(self._path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return
        if self.take():
            self.give_back()

    def drop(self) -> None:
        """Close the descriptor alone."""
        if self._fd is not None:
            entries.close_own(self._fd, self._file)
        self._fd = None
        _held.discard(self)


_held: weakref.WeakSet[Lease] = weakref.WeakSet()


def after_fork() -> None:
    """In a forked child: keep no lock of the parent's."""
    for lease in list(_held):
        lease.drop()
