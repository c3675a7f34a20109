"""The saver's own time per superstep, as a thread grows.

The exact `put` and `put_writes` calls of a chat are played to all savers at once: each superstep goes to
every one of them, in an order that changes, before the next begins. A disk's sync differs tenfold from one
minute to the next, so only ratios within a run mean anything. SqliteSaver syncs every call, as
`fsync="always"` does.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import figures
import savers
from workload import taken_by

if TYPE_CHECKING:
    from collections.abc import Iterator

# Supersteps: how many threads of that length; a short one alone says little.
LENGTHS = {50: 8, 200: 3, 800: 3}
PEERS = {name: make for name, make in savers.SYNC.items() if name != "JsonlSaver"}
SAVERS = {**savers.POLICIES, **savers.WRITTEN_POLICIES, **PEERS}


def played(supersteps: int) -> dict[str, list[float]]:
    """Seconds of each saver for each superstep."""
    with savers.opened(SAVERS) as stores:
        return taken_by(stores, supersteps)


def tables(*, quick: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Medians, and means, in which rare and slow supersteps show."""
    for length, threads in LENGTHS.items():
        if quick and length > 200:
            return
        runs = [played(length) for _ in range(1 if quick else threads)]
        taken = {name: [time for run in runs for time in run[name]] for name in SAVERS}
        means = {name: 1e3 * sum(times) / len(times) for name, times in taken.items()}
        medians = {name: 1e3 * median(times) for name, times in taken.items()}
        last = {name: 1e3 * median([time for run in runs for time in run[name][-50:]]) for name in SAVERS}
        rows = []
        for name in SAVERS:
            row = {"saver": name, "mean": means[name], "median": medians[name], "median of the last 50": last[name]}
            for other in ("SqliteSaver", "InMemorySaver"):
                row[f"mean / {other}"] = means[name] / means[other]
            row["median / SqliteSaver"] = medians[name] / medians["SqliteSaver"]
            rows.append(row)
        yield f"Saver's own time per superstep in a chat of {length} (ms)", rows
    figures.time(runs)
