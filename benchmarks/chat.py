"""A whole chat of an agent: what a user waits for, with LangGraph's own time in it.

Each saver runs the same chat from its first turn, in an order that turns from round to round. `nothing stored` is
what the graph takes under a saver that keeps the last checkpoint's objects and does nothing else, `only written`
under one that also writes what is new. Under `ainvoke`, SqliteSaver and PostgresSaver are their async twins.
"""

from __future__ import annotations

import asyncio
from statistics import median
from typing import TYPE_CHECKING, Any

import report
import savers
from workload import SUPERSTEPS_OF_A_TURN, Chat, seconds, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = {200: 5, 800: 3}
# A saver that has taken so many seconds is not run once more: it is far from the others, and from their noise.
PATIENCE = 10


def _sync(make: savers.Open, turns: int, durability: str) -> float:
    with savers.folder() as folder, make(folder) as saver:
        chat = Chat(saver, durability)
        settle()
        return seconds(lambda: chat.say(turns))


def _async(make: savers.AsyncOpen, turns: int, durability: str) -> float:
    async def run() -> float:
        with savers.folder() as folder:
            async with make(folder) as saver:
                chat = Chat(saver, durability)
                settle()
                started = asyncio.get_running_loop().time()
                await chat.asay(turns)
                return asyncio.get_running_loop().time() - started

    return asyncio.run(run())


def tables(*, quick: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Wall time, and its ratios to the floor and to the peers."""
    for supersteps, rounds in ROUNDS.items():
        if quick and supersteps > 200:
            return
        turns = round(supersteps / SUPERSTEPS_OF_A_TURN)
        rows: list[dict[str, Any]] = []
        for graph, run, compared in (
            ("invoke", _sync, {**savers.NOTHING, **savers.WRITTEN, **savers.SYNC}),
            ("ainvoke", _async, {**savers.NOTHING_ASYNC, **savers.WRITTEN, **savers.ASYNC}),
        ):
            for durability in ("sync", "async"):
                taken: dict[str, list[float]] = {name: [] for name in compared}
                order = list(compared)
                for _ in range(2 if quick else rounds):
                    for name in order:
                        if sum(taken[name]) < PATIENCE:
                            taken[name].append(run(compared[name], turns, durability))
                    order = [*order[1:], order[0]]
                medians = {name: median(times) for name, times in taken.items()}
                ratios = report.ratios(medians, ("nothing stored", "only written", "InMemorySaver", "SqliteSaver"))
                rows.append({"graph": graph, "durability": durability, **medians, **ratios})
        yield f"A chat of {supersteps} supersteps, wall time (medians in s)", rows
