"""Which session a log is, as its header says, and how a writer introduces itself in it."""

from __future__ import annotations

import contextlib
import os
import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import msgspec

from langgraph_jsonl_checkpoint.errors import UnsupportedVersionError, ValueEncodingError
from langgraph_jsonl_checkpoint.log import frames, records

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_HEADER = 1 << 22
"""Bytes of a header's text: each listing reads all of them."""

_BEGIN = 1 << 16  # bytes of a log that are read first: a header, and nearly always an index if there is one
_ROOM = 1 << 16  # more than a header has beside its names, and a frame beside its text


@dataclass(frozen=True)
class Identity:
    """Which session it is.

    Attributes:
        path: The log file.
        thread_id: The thread.
        workspace: The group of threads that it belongs to.
    """

    path: str
    thread_id: str
    workspace: str

    def header(self, **more: Any) -> records.Session:
        """The header of a new log; `more` are fields that are not at their default.

        Raises:
            ValueEncodingError: It is longer than readers take.
        """
        header = records.Session(
            format=records.FORMAT,
            version=records.VERSION,
            thread_id=self.thread_id,
            workspace=self.workspace,
            **more,
        )
        if len(records.line(0, "", header)) > MAX_HEADER - _ROOM:
            raise ValueEncodingError(
                f"the ids of thread {self.thread_id:.50}… are longer than a log's header may be; nothing was stored"
            )
        return header

    def checked(self, header: records.Session, seq: int) -> records.Session:
        """A header that was read from the log, if it is this session's.

        Raises:
            ValueError: It is another session's, or the log's second.
        """
        if seq:
            raise ValueError("a second header")
        names = header.thread_id, header.workspace
        if names != (self.thread_id, self.workspace):
            raise ValueError(
                f"the log is of thread {names[0]!r} in workspace {names[1]!r}, and lies where "
                f"{self.thread_id!r} in {self.workspace!r} belongs"
            )
        return header


def begin_of(read: Callable[[int, int], bytes], size: int) -> bytes:
    """A log's first bytes, with all of its header.

    Args:
        read: Gives the log's bytes from one offset to another.
        size: The log's size.
    """
    begin = read(0, min(size, _BEGIN))
    try:
        frames.size(memoryview(begin), 0)
    except frames.BadFrameError as error:
        if str(error) == frames.CUT_SHORT and size > _BEGIN:
            return read(0, min(size, MAX_HEADER + _ROOM))
    return begin


def header_text(path: str, data: bytes) -> bytes:
    """The text of a log's first frame; of the header in it only the format and the version are looked at.

    Args:
        path: The log, for the error.
        data: Its first bytes.

    Raises:
        ValueError: There is no header.
        UnsupportedVersionError: Another version wrote it.
    """
    try:
        text, _ = frames.read(memoryview(data), 0, MAX_HEADER)
        head = msgspec.json.decode(text.split(b"\n", 1)[0])
        found = head["format"], head["version"]
    except (frames.BadFrameError, msgspec.DecodeError, LookupError, TypeError) as error:
        raise ValueError(str(error)) from None
    if found != (records.FORMAT, records.VERSION):
        raise UnsupportedVersionError(
            f"{path} was written as {found[0]!r} version {found[1]!r}; this is a reader of {records.FORMAT!r} "
            f"version {records.VERSION}. Upgrade the package that reads it."
        )
    return text


def introduction() -> dict[str, Any]:
    """What a writer's first `open` record in a log tells of its process."""
    return {"pid": os.getpid(), "host": platform.node(), "versions": _versions()}


@cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("langgraph", "langgraph-checkpoint", "langchain-core", "langgraph-jsonl-checkpoint"):
        with contextlib.suppress(PackageNotFoundError):  # a frozen program may bring a package without its metadata
            found[name] = version(name)
    return found


def header_of(path: str) -> records.Session | None:
    """A log's header, without the rest of the log; None if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            fd = file.fileno()
            begin = begin_of(lambda start, end: os.pread(fd, end - start, start), os.fstat(fd).st_size)
        text, _ = frames.read(memoryview(begin), 0, MAX_HEADER)
        return records.parse_as(records.Session, text.split(b"\n", 1)[0])
    except (OSError, frames.BadFrameError, msgspec.DecodeError):
        return None
