"""The part of a saver that looks after its logs: where they are, packing, checking, salvaging and closing them."""

from __future__ import annotations

import pathlib
import sys
from typing import TYPE_CHECKING

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_jsonl_checkpoint.errors import NoSessionError
from langgraph_jsonl_checkpoint.upkeep import threads
from langgraph_jsonl_checkpoint.upkeep.salvage import Salvage, salvage
from langgraph_jsonl_checkpoint.upkeep.verification import Head, Verification, verify
from langgraph_jsonl_checkpoint.values.seal import Serde
from langgraph_jsonl_checkpoint.values.serializer import TypedSerializer
from langgraph_jsonl_checkpoint.workers import submit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langgraph_jsonl_checkpoint.sessions.pool import Sessions
    from langgraph_jsonl_checkpoint.upkeep.threads import SessionInfo


class Caretaker:
    """What a saver does with its logs, whatever they hold."""

    serde: SerializerProtocol
    _sessions: Sessions

    def close(self) -> None:
        """Close every log. Later calls raise ClosedSaverError; what was stored is stored already."""
        self._sessions.close(_name(sys.exc_info()[0]))  # being handled, or passing through a `finally`

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not `close`: an exception that is being handled around the `with` does not end the saver.
        self._sessions.close(_name(kind))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await submit(self._sessions.close, _name(kind))

    def path(self, thread_id: str) -> pathlib.Path:
        """Where a thread's log is, or would be."""
        return pathlib.Path(self._sessions.path(str(thread_id)))

    def sessions(self, *, children: bool = False) -> Iterator[SessionInfo]:
        """Every thread, the last changed first, so that the first one is the latest session.

        Args:
            children: Whether to name those, too, that another thread's agent started
                (`configurable.parent_thread_id`).
        """
        yield from threads.infos(self._sessions, children=children)

    def logs(self) -> Iterator[tuple[pathlib.Path, str | None]]:
        """Every log and its thread, the last changed first; damaged ones, too.

        The thread is None if its id is too long for a directory's name, and the header cannot be read.
        """
        for found in self._sessions.logs():
            yield pathlib.Path(self._sessions.path_of(found)), self._sessions.thread_id(found)

    def pack(self, thread_id: str) -> bool:
        """Put a thread's log into few large frames with an index: smaller, and faster to open. Its lines stay.

        A saver does this itself when it closes a log to which it appended much.

        Returns:
            Whether there was anything to pack.

        Raises:
            CorruptSessionError: The log is damaged.
            OSError: The packed log could not be written; the log is as it was.
        """
        with self._sessions.use(str(thread_id)) as session:
            return session.pack()

    async def apack(self, thread_id: str) -> bool:
        """`pack` in a worker thread."""
        return await submit(self.pack, thread_id)

    def head(self, thread_id: str) -> Head:
        """Where a thread's log ends. Kept in another place, it proves later that nothing before it was cut off.

        Raises:
            NoSessionError: The thread has no log.
            CorruptSessionError: The log is damaged.
        """
        with self._sessions.use(str(thread_id)) as session:
            session.refresh()
            seq, chain = session.end
            if not session.exists:
                raise NoSessionError.of(thread_id, session.identity.path)
        return Head(seq - 1, chain)

    async def ahead(self, thread_id: str) -> Head:
        """`head` in a worker thread."""
        return await submit(self.head, thread_id)

    def verify(self, thread_id: str, *, head: tuple[int, str] | None = None) -> Verification:
        """Check all of a thread's log, and change nothing.

        Args:
            thread_id: The thread.
            head: What `head` once said of it: the log must still hold that commit, and so all before it.

        Returns:
            A report, which is `ok` if the log is whole.

        Raises:
            NoSessionError: The thread has no log.
            UnsupportedVersionError: Another version of the package wrote it.
            TypeError: `head` is none.
            OSError: It cannot be read.
        """
        if head is not None and list(map(type, head)) != [int, str]:
            raise TypeError(f"a head is (seq, chain), as saver.head(thread_id) gives it, and not {head!r}")
        thread_id = str(thread_id)
        identity = self._sessions.identity(thread_id)
        return verify(identity, self._serde(thread_id), self._sessions.writer.chain_key, head)

    async def averify(self, thread_id: str, *, head: tuple[int, str] | None = None) -> Verification:
        """`verify` in a worker thread."""
        return await submit(self.verify, thread_id, head=head)

    def salvage(self, thread_id: str, into: str) -> Salvage:
        """Write every record of a damaged log that can be read into a new thread. The damaged one stays as it is.

        Args:
            thread_id: The damaged thread.
            into: The new one.

        Returns:
            What came of it, and what is lost.

        Raises:
            ValueError: The new thread exists, or is the damaged one.
            NoSessionError: The thread has no log.
            CorruptSessionError: Nothing of it can be read.
            OSError: The new log cannot be written.
        """
        return salvage(self._sessions, self._serde, str(thread_id), str(into))

    async def asalvage(self, thread_id: str, into: str) -> Salvage:
        """`salvage` in a worker thread."""
        return await submit(self.salvage, thread_id, into)

    def _serde(self, thread_id: str) -> Serde:
        return Serde(self.serde, thread_id, seals=self._seals)

    @property
    def _seals(self) -> bool:
        # A subclass of somebody else's may be there to hide what it stores.
        return type(self.serde) not in (JsonPlusSerializer, TypedSerializer)


def _name(kind: type[BaseException] | None) -> str:
    return "" if kind is None else kind.__name__
