"""Supersteps a second when several write at once, each its own thread of 50 supersteps, to one store.

Eight threads and eight asyncio tasks share a saver; four processes have one each. Nothing may be lost.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import report
import savers
from workload import aplay, config, play, recorded, seconds, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SUPERSTEPS = 50


def _threads(count: int, name: str) -> float:
    calls = recorded(SUPERSTEPS)
    with (
        savers.folder() as folder,
        savers.SYNC[name](folder) as saver,
        ThreadPoolExecutor(count) as pool,
    ):
        settle()
        taken = seconds(lambda: [*pool.map(lambda number: play(saver, calls, f"thread-{number}"), range(count))])
        _complete(saver, count)
    return count * SUPERSTEPS / taken


def _tasks(count: int, name: str) -> float:
    calls = recorded(SUPERSTEPS)

    async def run() -> float:
        with savers.folder() as folder:
            async with savers.ASYNC[name](folder) as saver:
                settle()
                started = time.perf_counter()
                await asyncio.gather(*(aplay(saver, calls, f"thread-{number}") for number in range(count)))
                taken = time.perf_counter() - started
                for number in range(count):
                    found = [found async for found in saver.alist(config(f"thread-{number}"))]
                    if len(found) != SUPERSTEPS:
                        raise AssertionError(f"{name} lost supersteps: {len(found)} are left")
        return count * SUPERSTEPS / taken

    return asyncio.run(run())


def writer(name: str, folder: str, number: int, ready: Any, results: Any) -> None:
    """A process: waits for the others, writes its thread, and says when it began and ended."""
    calls = recorded(SUPERSTEPS)
    try:
        with savers.STORED[name](Path(folder)) as saver:
            ready.wait()
            started = time.monotonic()
            play(saver, calls, f"thread-{number}")
            results.put((started, time.monotonic()))
    except Exception as error:  # noqa: BLE001 - a saver that fails here is a result, too
        ready.abort()
        results.put(f"{type(error).__name__}: {error}")


def _processes(count: int, name: str) -> float | str:
    spawn = multiprocessing.get_context("spawn")
    ready, results = spawn.Barrier(count), spawn.Queue()
    with savers.folder() as folder:
        with savers.STORED[name](folder):  # makes the store
            pass
        arguments = [(name, str(folder), number, ready, results) for number in range(count)]
        processes = [spawn.Process(target=writer, args=each) for each in arguments]
        for process in processes:
            process.start()
        found = [results.get(timeout=300) for _ in processes]
        for process in processes:
            process.join()
        if errors := [result for result in found if isinstance(result, str)]:
            return errors[0]
        with savers.STORED[name](folder) as saver:
            _complete(saver, count)
    return count * SUPERSTEPS / (max(end for _, end in found) - min(begin for begin, _ in found))


def _complete(saver: Any, count: int) -> None:
    for number in range(count):
        found = sum(1 for _ in saver.list(config(f"thread-{number}")))
        if found != SUPERSTEPS:
            raise AssertionError(f"{type(saver).__name__} lost supersteps: {found} are left")


def tables(*, quick: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Medians, and ratios to SqliteSaver; the tasks have the async twins of it and of PostgresSaver."""
    cases: list[tuple[str, int, Callable[[int, str], Any], Any]] = [
        ("1 thread", 1, _threads, savers.SYNC),
        ("8 threads", 8, _threads, savers.SYNC),
        ("8 tasks", 8, _tasks, savers.ASYNC),
        ("4 processes", 4, _processes, savers.STORED),
    ]
    rows: list[dict[str, Any]] = []
    for case, count, run, compared in cases:
        found: dict[str, list[Any]] = {name: [] for name in savers.SYNC}
        order = list(compared)
        for _ in range(1 if quick else 5):
            for name in order:
                found[name].append(run(count, name))
            order = [*order[1:], order[0]]
        failed = {name: error for name, each in found.items() for error in each if isinstance(error, str)}
        medians = {
            name: median(each) if name in compared and name not in failed else None for name, each in found.items()
        }
        rows.append({"writers": case, **medians, **failed, **report.ratios(medians, ["SqliteSaver"])})
    yield "Several writers (medians in supersteps a second)", rows
