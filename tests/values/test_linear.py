"""A container that gets one more element a step costs what is new, whatever its type."""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from .same import difference
from .thread import Thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = 40


def text(number: int) -> str:
    """A text that is not in the log yet."""
    return f"{number:03}" * 120


def noon(number: int) -> datetime:
    """A time of its own for each number."""
    return datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(hours=number)


GROWN: dict[str, Callable[[Any, int], Any]] = {
    "dicts": lambda v, n: [*(v or ()), {"task": str(n), "result": text(n)}],
    "tuples": lambda v, n: [*(v or ()), (str(n), text(n))],
    "small tuples": lambda v, n: [*(v or ()), (n, "done"), (n, text(n))],
    "tuples with a time": lambda v, n: [*(v or ()), (noon(n), text(n), b"x", None)],
    "tuples in tuples": lambda v, n: [*(v or ()), ((n, (text(n), 1.5)), {"a": (n,)})],
    "dicts of tuples": lambda v, n: [*(v or ()), {"at": (n, n), "result": text(n)}],
    "a tuple": lambda v, n: (*(v or ()), text(n)),
    "a tuple of tuples": lambda v, n: (*(v or ()), (n, text(n))),
    "a deque": lambda v, n: deque([*(v or ()), text(n)], maxlen=1000),
    "text keys": lambda v, n: {**(v or {}), str(n): text(n)},
    "number keys": lambda v, n: {**(v or {}), n: text(n)},
    "tuple keys": lambda v, n: {**(v or {}), (n, "a"): {"result": text(n)}},
    "mixed keys": lambda v, n: {**(v or {}), n: text(n), str(n): [text(n)]},
    "an OrderedDict": lambda v, n: OrderedDict({**(v or {}), str(n): text(n)}),
    "a defaultdict": lambda v, n: defaultdict(list, {**(v or {}), str(n): [text(n)]}),
    "a Counter": lambda v, n: Counter({**(v or {}), text(n): n}),
    "arrays": lambda v, n: [*(v or ()), (n, np.full(90, n))],
}

HANDED: dict[str, Callable[[Thread, Any], Any]] = {
    "the same objects": lambda _, value: value,
    "copies": lambda _, value: copy.deepcopy(value),
    "read again": lambda thread, _: thread.values()["channel"],
}


@pytest.mark.parametrize("handed", HANDED.values(), ids=HANDED)
@pytest.mark.parametrize("grow", GROWN.values(), ids=GROWN)
def test_one_more_element_costs_what_is_new(
    tmp_path: Path, grow: Callable[[Any, int], Any], handed: Callable[[Thread, Any], Any]
) -> None:
    """The second half of the steps writes no more text than the first, but for longer numbers."""
    with Thread(tmp_path, fsync="never") as thread:
        value, states, sizes = None, [], [0]
        for number in range(STEPS):
            value = grow(value, number)
            states.append(copy.deepcopy(value))
            thread.step({"channel": value})
            value = handed(thread, value)
            if number + 1 in (STEPS // 2, STEPS):
                sizes.append(len(thread.text()))
        thread.reopen()
        read = [thread.values(config)["channel"] for config in thread.configs]
    assert difference(read, states) is None
    assert sizes[2] - sizes[1] < 1.15 * sizes[1]


@pytest.mark.parametrize("grow", GROWN.values(), ids=GROWN)
def test_what_is_not_written_again_is_written_into_another_generation(
    tmp_path: Path, grow: Callable[[Any, int], Any]
) -> None:
    """A value that was read from a log, or written to it, outlives that log's being replaced by `prune`."""
    with Thread(tmp_path, fsync="never") as thread:
        value = None
        for number in range(6):
            value = grow(thread.values()["channel"] if number == 3 else value, number)
            thread.step({"channel": value, "other": number})
            if number in (2, 4):
                thread.saver.prune([thread.thread_id])
                thread.read()
        thread.reopen()
        assert difference(thread.values()["channel"], value) is None
        assert thread.saver.verify(thread.thread_id).ok
