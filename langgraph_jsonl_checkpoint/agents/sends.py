"""What a tool writes to its graph's state beside its result: a deep agent's files, or what `push_message` sends.

It is part of what the call came to. LangGraph stores it with the task's writes when all calls of the task are over; a
call whose result is given from the log, since its process died before that, must send it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph_jsonl_checkpoint.agents.numbers import is_inside
from langgraph_jsonl_checkpoint.upstream import channels, tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langgraph_jsonl_checkpoint.agents.numbers import Place

    Write = tuple[str, Any]
    """A channel, and what is written to it."""


class Sends:
    """What stands in the place of the function that sends a task's writes, for one call.

    Args:
        place: The call.
        send: The function.

    Attributes:
        sent: What the call sent.
    """

    def __init__(self, place: Place, send: Callable[[Sequence[Write]], None] | None) -> None:
        self._place = place
        # A call that comes to the guard again brings what stood there the first time.
        self._send: Any = send._send if isinstance(send, Sends) and send._place == place else send  # noqa: SLF001
        self.sent: list[Write] = []

    def __call__(self, writes: Sequence[Write]) -> None:
        """Send, and remember what the call, or anything in it, sends."""
        self._send(writes)
        if is_inside(self._place):
            self.sent += [write for write in writes if channels.is_of_state(write[0])]

    def repeat(self, writes: Iterable[Write]) -> None:
        """Send what the call sent before, but for what its task still holds: a retried node has dropped it."""
        missing = [write for write in writes if not self.holds(write)]
        if missing and self._send is not None:
            self._send(missing)

    def holds(self, write: Write) -> bool:
        """Whether the task holds this very write."""
        if isinstance(self._send, Sends):
            return self._send.holds(write)
        return any(each is write for each in tasks.held_by(self._send))
