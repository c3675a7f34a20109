"""The saver's own time per superstep, as a thread grows.

The exact `put` and `put_writes` calls of a chat are played to all savers at once: each superstep goes to
every one of them, in an order that changes, before the next begins. A disk's sync differs tenfold from one
minute to the next, so only ratios within a run mean anything. SqliteSaver syncs every call, as
`fsync="always"` does.
"""

from __future__ import annotations

import contextlib
import gc
import random
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LENGTHS = (50, 200, 800)
SAVERS: dict[str, Callable[[Path], Any]] = {
    "JsonlSaver always": workload.jsonl("always"),
    "JsonlSaver checkpoint": workload.jsonl("checkpoint"),
    "JsonlSaver never": workload.jsonl("never"),
    "SqliteSaver": workload.sqlite,
    "InMemorySaver": workload.memory,
}


def played(supersteps: int) -> dict[str, list[float]]:
    """Seconds of each saver for each superstep of one thread."""
    calls = workload.recorded(supersteps)
    taken: dict[str, list[float]] = {name: [] for name in SAVERS}
    order = list(SAVERS)
    shuffle = random.Random(supersteps).shuffle
    with contextlib.ExitStack() as stack:
        savers = {}
        for name, make in SAVERS.items():
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            savers[name] = stack.enter_context(make(Path(folder)))
        # The recording is many objects; a collection in the middle would be charged to whoever runs then.
        gc.collect()
        gc.freeze()
        for superstep in calls:
            shuffle(order)
            for name in order:
                taken[name].append(workload.seconds(savers[name], superstep))
        gc.unfreeze()
    return taken


def tables() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Medians, and ratios of those of a thread's last 50 supersteps: there a cost that grows would show."""
    for length in LENGTHS:
        taken = played(length)
        last = {name: median(times[-50:]) for name, times in taken.items()}
        yield (
            f"Saver's own time per superstep in a chat of {length} (medians in ms)",
            [
                {
                    "saver": name,
                    "median": 1e3 * median(times),
                    "first 50": 1e3 * median(times[:50]),
                    "last 50": 1e3 * last[name],
                    "all, s": sum(times),
                    "last 50 / SqliteSaver": last[name] / last["SqliteSaver"],
                    "last 50 / InMemorySaver": last[name] / last["InMemorySaver"],
                }
                for name, times in taken.items()
            ],
        )
