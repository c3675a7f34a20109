"""Many threads of ten supersteps in one store: writing them, finding the newest, reading one, disk and memory.

The first nine tenths of them are written without syncs, and not timed.
"""

from __future__ import annotations

import contextlib
import random
from statistics import median
from typing import TYPE_CHECKING, Any

import memory
import report
import savers
from langchain_core.messages import AIMessage
from workload import config, in_new_process, play, seconds, settle, superstep, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THREADS = 10_000
SUPERSTEPS = 10
USERS = 100


def _thread(number: int, source: Iterator[str]) -> list[Any]:
    """Ten supersteps; each adds a message of some hundred characters."""
    messages: list[AIMessage] = []
    calls: list[Any] = []
    parent = None
    for step in range(SUPERSTEPS):
        new = [AIMessage(next(source), id=f"message-{number}-{step}")]
        messages = messages + new
        calls.append(superstep(step, parent, messages, new, user=f"user-{number % USERS}"))
        parent = calls[-1][1].checkpoint_id
    return calls


def _reads(count: int) -> dict[str, tuple[int, Callable[[Any], bool]]]:
    """How often each is measured, and what it is: it says whether it found what it should."""
    picks = random.Random(1)
    wanted = min(10, count // USERS)
    filtered: dict[str, Any] = {"filter": {"user": "user-7", "step": SUPERSTEPS - 1}, "limit": wanted}
    return {
        "list(None, limit=10)": (5, lambda saver: len([*saver.list(None, limit=10)]) == 10),
        "list(None, filter=…, limit=10)": (3, lambda saver: len([*saver.list(None, **filtered)]) == wanted),
        "get_tuple of a random thread": (
            20,
            lambda saver: saver.get_tuple(config(f"thread-{picks.randrange(count)}")) is not None,
        ),
    }


def tables(*, quick: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each measure with its ratio to SqliteSaver."""
    count = THREADS // 25 if quick else THREADS
    found: dict[str, dict[str, list[float]]] = {}
    touched = []

    def note(measure: str, name: str, value: float) -> None:
        found.setdefault(measure, {each: [] for each in savers.SYNC})[name].append(value)

    with contextlib.ExitStack() as stack:
        folders = {name: stack.enter_context(savers.folder()) for name in savers.SYNC}
        source = texts(400)
        stores = {"InMemorySaver": stack.enter_context(savers.SYNC["InMemorySaver"](folders["InMemorySaver"]))}
        with contextlib.ExitStack() as filling:
            unsynced = {name: filling.enter_context(savers.unsynced(name, folders[name])) for name in savers.STORED}
            for number in range(count - count // 10):
                calls = _thread(number, source)
                for saver in (*unsynced.values(), *stores.values()):
                    play(saver, calls, f"thread-{number}")
        stores = {name: stack.enter_context(savers.STORED[name](folders[name])) for name in savers.STORED} | stores
        settle()
        order = list(stores)
        for number in range(count - count // 10, count):
            calls = _thread(number, source)
            random.shuffle(order)
            for name in order:
                taken = seconds(lambda: play(stores[name], calls, f"thread-{number}"))  # noqa: B023 - called at once
                note("a put and its put_writes", name, 1e3 * taken / SUPERSTEPS)
        settle()
        for read, (rounds, work) in _reads(count).items():
            for name, saver in stores.items():
                for _ in range(rounds):
                    note(read, name, _milliseconds(lambda: work(saver)))  # noqa: B023 - called at once
            for name, make in savers.STORED.items():

                def cold() -> bool:
                    with make(folders[name]) as saver:  # noqa: B023 - called at once
                        return work(saver)  # noqa: B023

                for _ in range(min(rounds, 5)):
                    note(f"{read}, cold", name, _milliseconds(cold))
        for name in savers.STORED:
            note("MB on disk (blocks)", name, savers.size(stores[name], folders[name], blocks=True) / 1e6)
            grown = in_new_process(memory.touched, name, str(folders[name]), count)
            touched.append({"saver": name, **{f"{number:,} read": size / 1e6 for number, size in grown.items()}})
    rows: list[dict[str, Any]] = []
    for measure, each in found.items():
        medians = {name: median(values) if values else None for name, values in each.items()}
        rows.append({"": measure, **medians, **report.ratios(medians, ["SqliteSaver"])})
    yield f"{count:,} threads of {SUPERSTEPS} supersteps (medians in ms)", rows
    yield "Memory of a process that reads one thread after the other (MB more than before)", touched


def _milliseconds(work: Callable[[], bool]) -> float:
    right: list[bool] = []
    taken = seconds(lambda: right.append(work()))
    if right != [True]:
        raise AssertionError("not what was stored")
    return 1e3 * taken
