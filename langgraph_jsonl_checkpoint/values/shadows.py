"""The parts of a thread's last checkpoints, written or read: its next ones are compared with them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph_jsonl_checkpoint.values.known import Known
from langgraph_jsonl_checkpoint.values.parts import release

if TYPE_CHECKING:
    from langgraph_jsonl_checkpoint.values.adopt import Handed

_MOST = 64  # namespaces whose last checkpoint is remembered: each call of a subgraph has one of its own


class Shadow(NamedTuple):
    """The parts that a namespace's last checkpoint was written from."""

    channels: Any = None
    versions: Any = None
    seen: Any = None


NOTHING = Shadow()


class Shadows:
    """The shadows of one thread. They take no lock and touch no disk: an event loop's thread may use them.

    Attributes:
        known: What was frozen lately.
    """

    def __init__(self) -> None:
        self.known = Known()
        self._cast: dict[str, Shadow] = {}
        self._handed: dict[str, Handed] = {}

    def of(self, ns: str) -> Shadow:
        """What a namespace's next checkpoint is compared with."""
        handed = self._handed.pop(ns, None)
        if handed is not None:
            self.cast(ns, handed.adopted(self._cast.get(ns, NOTHING), self.known))
        return self._cast.get(ns, NOTHING)

    def hand(self, ns: str, handed: Handed) -> None:
        """A namespace's checkpoint was handed out: the run that begins there puts its state again, and more."""
        self._handed[ns] = handed

    def cast(self, ns: str, shadow: Shadow) -> None:
        """A namespace's checkpoint was written from `shadow`."""
        self._cast.pop(ns, None)
        self._cast[ns] = shadow
        if len(self._cast) > _MOST:
            # Other threads may do the same at this moment.
            with contextlib.suppress(StopIteration, RuntimeError):
                self._cast.pop(next(name for name in self._cast if name), None)

    def adopt(self) -> None:
        """Read what was handed out once more, now, while its lines are in memory."""
        for ns in list(self._handed):
            self.of(ns)

    def release(self) -> None:
        """Let go of the live objects of a run that is over; what they are compared with stays."""
        self.known = Known()
        for shadow in list(self._cast.values()):
            release(shadow.channels)
