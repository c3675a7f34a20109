"""A session in the hands of one thread of this process, whatever interrupts it.

Ctrl-C is raised in the main thread behind any call, so also between the taking of a lock and the block that gives it
back; a lock that is lost there stops every other thread that comes for the session, for good. Only a `with` over the
lock itself leaves no such place, and a session is known to be the right one when its lock is held. So what takes and
gives back is one block each that lets go in any case, and letting go says by itself whether there was something to
let go of. What is left is the moment at which `__exit__` is entered.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from langgraph_jsonl_checkpoint.errors import SessionError
from langgraph_jsonl_checkpoint.log import entries

if TYPE_CHECKING:
    from types import TracebackType

    from langgraph_jsonl_checkpoint.sessions.pool import Sessions
    from langgraph_jsonl_checkpoint.sessions.session import Session

_CHANGING = (
    "thread {!r} cannot be used here: a signal handler, a finalizer or a serde runs inside a call of the saver that "
    "reads or writes it. Set a flag there, and use the saver when the call is over."
)


class InUse:
    """The session of a thread, locked, for a `with`; a generator would cost as much as the lock itself.

    Within another one of the same thread of this process it takes no lock, so that it has none to give back.

    Args:
        sessions: The sessions.
        thread_id: The thread.
    """

    __slots__ = ("_is_inner", "_session", "_sessions", "_thread_id")

    def __init__(self, sessions: Sessions, thread_id: str) -> None:
        self._sessions = sessions
        self._thread_id = thread_id

    def __enter__(self) -> Session:
        me = threading.get_ident()
        while True:
            session = self._session = self._sessions.peek(self._thread_id)
            self._is_inner = session.owner == me
            if self._is_inner:
                if session.changing:
                    raise SessionError(_CHANGING.format(self._thread_id))
                return session
            try:
                session.lock.acquire()
                # It may have been evicted while we waited for its lock; then another object stands for the thread.
                if self._sessions.holds(self._thread_id, session):
                    session.owner = me
                    session.changing = False  # whatever Ctrl-C left
                    return session
                session.lock.release()
            except BaseException:
                let_go(session)
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._is_inner:
                if kind is not None and not issubclass(kind, Exception):
                    # Ctrl-C may have come between any two lines: what they left half done is read anew.
                    self._session.unlock()
                    self._session.forget()
                self._sessions.settle(self._thread_id, self._session)
                self._session.owner = 0
                self._session.lock.release()
        except BaseException:
            if not self._is_inner:
                let_go(self._session)
            raise
        entries.name_in(error, self._session.identity.path)
        self._sessions.make_room()


def let_go(session: Session) -> None:
    """Give a session's lock back, if this thread of the process has it."""
    if session.owner == threading.get_ident():
        session.unlock()
        session.owner = 0
    try:
        session.lock.release()
    except RuntimeError:
        return  # it had not been taken, or was given back already
