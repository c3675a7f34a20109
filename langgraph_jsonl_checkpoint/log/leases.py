"""Leases: those who take turns with a thread hold a lock file while it is their turn.

It lies in `<root>/.leases/<workspace>/`, where no workspace's name leads.
"""

from __future__ import annotations

import os

from langgraph_jsonl_checkpoint.log import files, names
from langgraph_jsonl_checkpoint.log.lockfile import LockFile

_FOLDER = ".leases"


class Lease(LockFile):
    """A turn with a thread, for one holder at a time, on this machine.

    Args:
        root: The saver's directory.
        workspace: The group of threads.
        thread_id: The thread.
    """

    def __init__(self, root: str, workspace: str, thread_id: str) -> None:
        super().__init__(os.path.join(root, _FOLDER, names.escape(workspace), names.escape(thread_id)))

    def is_of(self, other: Lease) -> bool:
        """Whether it is a turn with the same thread."""
        return other.path == self.path

    def clear(self) -> None:
        """Remove the file that a killed holder left."""
        try:
            files.stat(self.path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return
        if self.take():
            self.give_back()
