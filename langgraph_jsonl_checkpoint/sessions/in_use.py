"""A session in the hands of one thread of this process, whatever interrupts that.

Ctrl-C is raised in the main thread between any two calls, so also between taking a lock and the block that gives it
back. A lock that is lost there stops every other thread that wants the session, for good. A `with` over the lock
itself would leave no such gap, but only who holds a session's lock can tell whether it is still the right session. So
taking and giving back are one `try` block each, which lets go whatever happens, and `let_go` itself finds out whether
there is something to let go of. The gap that remains is the moment at which `__exit__` is entered.
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
    """The session of a thread, locked, for a `with`.

    It is no generator, which would cost as much as the lock itself.
    Inside another one for the same session and thread of execution it takes no lock, and gives none back.

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
                # It may have been evicted while we waited for its lock; then another object stands for this thread
                # id.
                if self._sessions.holds(self._thread_id, session):
                    session.owner = me
                    session.changing = False  # Ctrl-C may have left it set
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
                    # Ctrl-C may have come between any two lines: what was left half done is read anew.
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
    """Give a session's lock back, if this thread of execution has it."""
    if session.owner == threading.get_ident():
        session.unlock()
        session.owner = 0
    try:
        session.lock.release()
    except RuntimeError:
        return  # it had not been taken yet, or was given back already
