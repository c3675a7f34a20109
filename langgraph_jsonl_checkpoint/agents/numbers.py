"""The numbers that LangGraph gives to what the calls of one execution do: interrupts, subgraphs, `@task` calls.

It numbers the subgraphs and the `@task` calls of a task as they come, and finds by its number what one came to
before. The calls of a task come in any order, and one that is over does not run again and draws no number: none may
get the numbers of another, and with them what its subgraph came to. So the first call counts as LangGraph does, each
other one in a range of its own, and the record of an end says what was drawn.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langgraph_jsonl_checkpoint.folds.tool_calls import Key

Place = tuple[str, "Key"]
"""A thread, and one of its calls."""

_around: ContextVar[tuple[Place, ...]] = ContextVar("around", default=())  # the innermost call last
_NO_CALL = "", ""
_RANGE = 1_000_000  # what one call may draw; the next call's range begins behind it


@contextlib.contextmanager
def inside(place: Place) -> Iterator[None]:
    """A call's tool runs."""
    token = _around.set((*_around.get(), place))
    try:
        yield
    finally:
        _around.reset(token)


def is_inside(place: Place) -> bool:
    """Whether a call's tool runs around here."""
    return place in _around.get()


class Numbers:
    """What counts in the place of one of LangGraph's counters.

    Args:
        count: The counter.
    """

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._own: dict[Key, Callable[[], int]] = {}
        self._calls: set[Key] = set()
        self._lock = threading.Lock()
        self._taken: set[int] = set()
        self._again: dict[Key, list[int]] = {}
        self._drawn: dict[Key, list[int]] = {}

    def __call__(self) -> int:
        """The next number of the call that runs here."""
        around = _around.get()
        key = around[-1][1] if around else _NO_CALL
        with self._lock:
            again = self._again.get(key)
            count = self._own.get(key, self._count)
            number = again.pop(0) if again else count()
            while again is None and number in self._taken:
                number = count()
            self._taken.add(number)
            self._drawn.setdefault(key, []).append(number)
            return number

    def part(self, keys: Sequence[Key]) -> None:
        """Give each call of a task but the first a range of its own, by its place in the AIMessage.

        A process that is killed records no end of its calls, and the next one has them in another order.
        """
        with self._lock:
            if any(key in self._calls for _, key in _around.get()):
                return  # a ToolNode inside of a tool of this task, whose calls have no place among the task's
            self._calls.update(keys)
            for place, key in enumerate(keys[1:], 1):
                self._own.setdefault(key, itertools.count(place * _RANGE).__next__)

    def keep(self, key: Key, numbers: Sequence[int], *, again: bool) -> None:
        """Give the numbers that a call drew in an earlier execution to no other, and to it if it runs again."""
        with self._lock:
            self._taken.update(numbers)
            if again and numbers:
                self._again[key] = list(numbers)

    def begin(self, key: Key) -> None:
        """A call begins anew."""
        with self._lock:
            self._drawn.pop(key, None)

    def drawn(self, key: Key) -> list[int]:
        """What a call drew since it began."""
        with self._lock:
            return list(self._drawn.get(key, ()))
