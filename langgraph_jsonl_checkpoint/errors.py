"""What can go wrong with a session: what happened, where, and what to do next."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from langgraph.errors import GraphBubbleUp

if TYPE_CHECKING:
    from typing import Self


class SessionError(Exception):
    """Base of all errors of this package."""


class CorruptSessionError(SessionError):
    """A log is damaged before its end, or says what no log can say.

    A torn end, which a killed writer normally leaves, is not corruption: it is repaired and reported.

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
        intact = "Everything before it is intact, nothing was changed." if self.offset else "Nothing was changed."
        return (
            f"{self.path} is damaged at byte {self.offset}, record {self.seq}: {self.reason}. {intact} Restore the "
            "file from a backup, or write what can be read into a new thread: "
            "saver.salvage(thread_id, into=new_thread_id); saver.verify(thread_id) tells what that is."
        )


class WrongSerdeError(CorruptSessionError):
    """A log holds a text that this saver's serde cannot open.

    It was written with another serde or another key, or somebody changed it. The attributes are those of a
    `CorruptSessionError`.
    """

    def __str__(self) -> str:
        return (
            f"{self.path} holds what this saver's serde cannot open, in record {self.seq} at byte {self.offset}: "
            f"{self.reason}. Nothing was changed. Give the saver the serde, with the key, that the log was written "
            "with; if it has them, the record was changed, and saver.verify(thread_id) tells which others were."
        )


class UnsupportedVersionError(SessionError):
    """A log was written by a version of the format, or with a record type, that this version does not know."""

    @classmethod
    def of_record(cls, path: str, kind: str, seq: int) -> Self:
        """A record of the log is of an unknown type, and does not say that readers may ignore it."""
        return cls(
            f"{path} holds a record of type {kind!r} (seq {seq}) that this version does not know and must not "
            "ignore. Upgrade the package that reads it."
        )


class ChainKeyError(SessionError):
    """A log's chain was not made with this saver's `chain_key`, so it is neither believed nor continued.

    Attributes:
        path: The log file.
        made_with: What it was made with.
    """

    def __init__(self, path: str | os.PathLike[str], made_with: str) -> None:
        super().__init__(path, made_with)
        self.path = os.fspath(path)
        self.made_with = made_with

    @staticmethod
    def other_than(key: bytes) -> str:
        """What a log was made with that does not fit a saver's key, which is empty if it has none."""
        return "another chain_key than this saver's, or none" if key else "a chain_key, and this saver has none"

    def __str__(self) -> str:
        return (
            f"{self.path} was made with {self.made_with}; or its header was changed. Nothing was appended. Give the "
            "saver the key that the log was made with; a new key needs a new root or workspace."
        )


class ValueEncodingError(SessionError, TypeError):
    """A value cannot be stored. The log is as it was before the call."""


class FailedSessionError(SessionError):
    """An earlier append to this session failed, so later ones are refused.

    What the failed call held is missing, and a later commit would build on it. The next run begins with `get_tuple`,
    which opens the log again, checks it and clears the failure. No other look at the thread clears it.
    """


class DeletedSessionError(SessionError):
    """The log was removed under a writer in the middle of a run."""

    @classmethod
    def during_a_run(cls, path: str) -> Self:
        """The log is gone, and with it what the run had stored so far."""
        return cls(f"{path} was deleted during a run")

    @classmethod
    def over_and_over(cls, path: str, times: int) -> Self:
        """At each of so many attempts of one call the log was another one."""
        return cls(f"{path} was replaced {times} times during one call; try again")


class ClosedSaverError(SessionError):
    """The saver was closed before the call."""


class NoSessionError(SessionError, LookupError):
    """A thread has no log."""

    @classmethod
    def of(cls, thread_id: str, path: str) -> Self:
        """Nothing is at the path where the thread's log would be."""
        return cls(
            f"thread {thread_id!r} has no log at {path}; check its id, and the saver's directory and workspace"
        )


class ToolCallError(SessionError, GraphBubbleUp):
    """A tool call was not started, or its end was not recorded.

    As a `GraphBubbleUp` it stops the run in every shape of a graph: no error handler turns it into text for the
    model, nothing retries it, and the task stays as it is for the next run.
    """


class ToolLogError(ToolCallError):
    """A hook could not read the log, or not write into it that a tool call starts, or that it ended.

    A call whose start is not in the log was not started. The storage error is this one's cause. Remove what is in the
    way and run the thread again with None as its input: then a call that was not started runs, and one whose end is
    missing is asked about.
    """


class ToolCallRunningError(ToolCallError):
    """A live writer is running this tool call at this moment. Wait for it, or end its process."""


class UncertainToolCallError(ToolCallError):
    """A tool call may have had its effect, nobody has decided what to do, and here nobody can be asked.

    Decide with `saver.resolve(thread_id, tool_call_id, {"type": …})`, and run the thread again.
    """
