"""Lock files: each is locked by one holder on this machine while that lives.

The lock is the kernel's and dies with its process; the file alone means nothing.
"""

from __future__ import annotations

import contextlib
import os
import weakref

from langgraph_jsonl_checkpoint.log import entries, files


class LockFile:
    """A file that one holder at a time has locked.

    Args:
        path: The file.

    Attributes:
        path: As given.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd: int | None = None
        self._identity = (0, 0)

    @property
    def is_held(self) -> bool:
        """Whether it was taken and not given back."""
        return self._fd is not None

    @property
    def is_in_place(self) -> bool:
        """Whether it is held, and others who look at its path find it locked.

        A daemon may close every descriptor, and its number is used again for another file. The root may be removed or
        put back from a copy, and then another file, or none, is at the path.
        """
        if self._fd is None:
            return False
        try:
            return entries.identity(files.fstat(self._fd)) == self._at_path() == self._identity
        except OSError:
            return False

    def take(self) -> bool:
        """Lock the file, unless somebody else has it locked; whether it is locked by us now.

        Raises:
            OSError: It cannot be made or locked.
        """
        while True:
            for each in entries.make_directories(os.path.dirname(self.path)):
                entries.sync_directory(each)  # a log that is created later finds its root made, and does not sync it
            try:
                fd = files.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except FileNotFoundError:
                continue  # somebody has just removed the directory, which was empty
            try:
                is_locked = files.lock_descriptor(fd, blocking=False)
                if is_locked and (identity := entries.identity(files.fstat(fd))) == self._at_path():
                    self.drop()
                    self._fd, self._identity = fd, identity
                    _held.add(self)
                    return True
            except BaseException:  # Ctrl-C, too: a locked descriptor that nobody knows stays locked for good
                files.close(fd)
                raise
            files.close(fd)
            if not is_locked:
                return False
            # Else the holder before us removed the file after we had opened it.

    def _at_path(self) -> tuple[int, int] | None:
        """The identity of the file at the path; None if there is none."""
        try:
            return entries.identity(files.stat(self.path, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def give_back(self) -> None:
        """Let the next one have it, and leave no file."""
        if self.is_in_place:
            with contextlib.suppress(OSError):
                files.unlink(self.path)  # while it is locked: whoever locks it later sees that it is gone
        self.drop()

    def drop(self) -> None:
        """Close the descriptor, and leave the file."""
        if self._fd is not None:
            entries.close_own(self._fd, self._identity)
        self._fd = None


_held: weakref.WeakSet[LockFile] = weakref.WeakSet()  # and some that were given back


def after_fork() -> None:
    """In a forked child: close the inherited descriptors, which would keep the locks when the parent is dead."""
    for file in list(_held):
        file.drop()
