"""Reading a thread back: the newest checkpoint, cold and warm, the last ten, all, and an early one by its id.

*Cold* is a saver that was opened for this read; *new process* one in a process that has read nothing before (its
imports are done). The pages of the files are in the operating system's cache for all savers alike.
"""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import report
import savers
from workload import Chat, config, in_new_process, play, recorded, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LENGTHS = (50, 200, 800, 3000)
# The whole history of a longer thread is minutes for a saver that stores each state whole.
HISTORY_UP_TO = 800
READS = ("newest, cold", "newest, new process", "newest, warm", "list(limit=10)", "whole history", "early id, cold")


def newest_in_this_process(name: str, folder: str) -> float:
    """Called in a process of its own."""
    started = time.perf_counter()
    with savers.STORED[name](Path(folder)) as saver:
        found = saver.get_tuple(config())
        taken = time.perf_counter() - started
    if found is None:
        raise AssertionError(name)
    return taken


class _Thread:
    """A thread of so many supersteps in each saver, and the times of reading it."""

    def __init__(self, length: int, stack: contextlib.ExitStack) -> None:
        supersteps = recorded(length)
        stored = [calls[-1].arguments[0] for calls in supersteps]
        self.newest, self.early = _found(stored[-1]), _found(stored[max(2, length // 20)])
        self.names = [name for name in savers.SYNC if name in savers.STORED or length <= HISTORY_UP_TO]
        self.folders = {name: stack.enter_context(savers.folder()) for name in self.names}
        self.warm: dict[str, Any] = {}
        self.taken: dict[str, dict[str, list[float]]] = {name: {read: [] for read in READS} for name in self.names}
        for name in self.names:
            with contextlib.ExitStack() as closed:
                saver = closed.enter_context(savers.unsynced(name, self.folders[name]))
                play(saver, supersteps)
                if name not in savers.STORED:  # nothing of it would be left
                    stack.push(closed.pop_all())
                    self.warm[name] = saver

    def measure(self, read: str, name: str, work: Callable[[], Any], expected: Any) -> None:
        settle()
        started = time.perf_counter()
        found = work()
        self.taken[name][read].append(time.perf_counter() - started)
        if found != expected:
            raise AssertionError(f"{name}, {read}: {found}, not {expected}")

    def cold(self, read: str, checkpoint_id: str | None, expected: Any, rounds: int) -> None:
        for _ in range(rounds):
            for name in random.sample([name for name in self.names if name in savers.STORED], len(savers.STORED)):
                with contextlib.ExitStack() as opened:

                    def work() -> Any:
                        saver = opened.enter_context(savers.SYNC[name](self.folders[name]))  # noqa: B023
                        return _found(saver.get_tuple(config(checkpoint_id=checkpoint_id)).checkpoint)

                    self.measure(read, name, work, expected)

    def new_process(self, rounds: int) -> None:
        for _ in range(rounds):
            for name in savers.STORED:
                taken = in_new_process(newest_in_this_process, name, str(self.folders[name]))
                self.taken[name]["newest, new process"].append(taken)

    def open_all(self, stack: contextlib.ExitStack) -> None:
        for name in savers.STORED:
            self.warm[name] = stack.enter_context(savers.SYNC[name](self.folders[name]))
            self.warm[name].get_tuple(config())

    def each(self, read: str, work: Callable[[Any], Any], expected: Any, rounds: int) -> None:
        for _ in range(rounds):
            for name in random.sample(self.names, len(self.names)):
                self.measure(read, name, lambda: work(self.warm[name]), expected)  # noqa: B023


def _history(saver: Any) -> int:
    return sum(1 for _ in Chat(saver).graph.get_state_history(config()))


def _newest(saver: Any) -> tuple[str, int]:
    return _found(saver.get_tuple(config()).checkpoint)


def _found(checkpoint: Any) -> tuple[str, int]:
    """What must be the same, whoever read it."""
    return checkpoint["id"], len(checkpoint["channel_values"].get("messages", ()))


def tables(*, quick: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Medians, and ratios to SqliteSaver."""
    rows: dict[str, list[dict[str, Any]]] = {read: [] for read in READS}
    for length in LENGTHS[:-2] if quick else LENGTHS:
        rounds = 3 if quick or length > 800 else 5
        with contextlib.ExitStack() as stack:
            thread = _Thread(length, stack)
            thread.cold("newest, cold", None, thread.newest, rounds)
            thread.cold("early id, cold", thread.early[0], thread.early, rounds)
            thread.new_process(1 if quick else 3)
            thread.open_all(stack)
            thread.each("newest, warm", _newest, thread.newest, rounds)
            thread.each("list(limit=10)", lambda saver: len(list(saver.list(config(), limit=10))), 10, rounds)
            if length <= HISTORY_UP_TO:
                thread.each("whole history", _history, length, 1 if length > 200 else 3)
        for read in READS:
            found = {name: thread.taken[name][read] if name in thread.taken else [] for name in savers.SYNC}
            medians = {name: 1e3 * median(times) if times else None for name, times in found.items()}
            if any(medians.values()):
                ratios = report.ratios(medians, ["SqliteSaver"])
                rows[read].append({"read": read, "supersteps": length, **medians, **ratios})
    yield "Reads of one thread (medians in ms)", [row for read in READS for row in rows[read]]
