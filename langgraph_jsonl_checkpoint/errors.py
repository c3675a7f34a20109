"""What can go wrong with a session: what happened, where, and what to do next."""

from __future__ import annotations

import os


class SessionError(Exception):
    """Base of all errors of this package."""


class CorruptSessionError(SessionError):
    """A log is damaged before its end, or says what no log can say.

    A torn end, the normal trace of a killed writer, is not corruption: it is repaired and reported.

    Attributes:
        path: The log file.
        offset: Byte offset of the first frame that cannot be read.
        seq: Sequence number of the first record that cannot be read.
        reason: What is wrong there.
    """

    def __init__(self, path: str | os.PathLike[str], offset: int, seq: int, reason: str) -> None:
        super().__init__(path, offset, seq, reason)
        self.path = os.fspath(path)
        self.offset = offset
        self.seq = seq
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} is damaged at byte {self.offset}, record {self.seq}: {self.reason}. " + (
            f"Everything before it is intact. Nothing was changed; restore the file from a backup, or keep its "
            f"first {self.offset} bytes to go on from record {self.seq - 1}."
            if self.offset
            else "Nothing was changed; restore the file from a backup."
        )


class UnsupportedVersionError(SessionError):
    """A log was written by a version of the format, or with a record type, that this version does not know."""


class ValueEncodingError(SessionError, TypeError):
    """A value cannot be stored. The log is as it was before the call."""


class FailedSessionError(SessionError):
    """An earlier append to this session failed, so later ones are refused.

    What the failed call held is missing; a later commit would build on it. The next read of the thread (each
    run begins with one) opens the log again, checks it and clears the failure.
    """


class DeletedSessionError(SessionError):
    """The log was removed under a writer in the middle of a run."""


class ClosedSaverError(SessionError):
    """The saver was closed before the call."""
