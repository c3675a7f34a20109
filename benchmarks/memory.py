"""What an open session holds: the memory of a process before and after, each measure in a process of its own.

*Resident* is what the process has grown by, with what its allocator has not given back; *Python objects* is what
`tracemalloc` still finds of it in a second process. A process that writes is measured after its last turn, when
nothing is alive but the saver.
"""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import savers
from workload import SUPERSTEPS_OF_A_TURN, Chat, config, in_new_process, text

if TYPE_CHECKING:
    from collections.abc import Iterator

# SqliteSaver and InMemorySaver would take minutes and gigabytes for the longer one.
LENGTHS = {800: ("JsonlSaver", "SqliteSaver", "InMemorySaver"), 3000: ("JsonlSaver",)}


def _held() -> int:
    gc.collect()
    if tracemalloc.is_tracing():
        return tracemalloc.get_traced_memory()[0]
    return int(psutil.Process().memory_info().rss)


def written(name: str, folder: str, supersteps: int, *, traced: bool) -> dict[str, int]:
    """Bytes by which this process grows when it writes a chat."""
    with savers.unsynced(name, Path(folder)) as saver:
        Chat(saver).say(3, "before")
        if traced:
            tracemalloc.start()
        before = _held()
        Chat(saver).say(round(supersteps / SUPERSTEPS_OF_A_TURN))
        found = {"held": _held() - before}
        if name == "JsonlSaver":
            found["log"] = len(text(saver.path("bench")))
        return found


def restored(name: str, folder: str, *, traced: bool) -> dict[str, int]:
    """Bytes by which this process grows when it reads the chat that another wrote, and lets go of what it got."""
    with savers.STORED[name](Path(folder)) as saver:
        saver.get_tuple(config("before"))
        if traced:
            tracemalloc.start()
        before = _held()
        saver.get_tuple(config())
        return {"held": _held() - before}


def touched(name: str, folder: str, count: int) -> dict[int, int]:
    """Bytes by which this process has grown when it has read so many threads, one after the other."""
    marks = {count // 100, count // 10, count // 2, count}
    found = {}
    with savers.STORED[name](Path(folder)) as saver:
        saver.get_tuple(config("thread-0"))
        before = _held()
        for number in range(1, count + 1):
            saver.get_tuple(config(f"thread-{number - 1}"))
            if number in marks:
                found[number] = _held() - before
    return found


def tables(*, quick: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Beside the decompressed log of the same chat."""
    rows = []
    for length, names in {200: LENGTHS[800]}.items() if quick else LENGTHS.items():
        log = None
        for name in names:
            with savers.folder() as folder, savers.folder() as other:
                resident = in_new_process(written, name, str(folder), length, traced=False)
                objects = in_new_process(written, name, str(other), length, traced=True)
                log = resident.get("log", log)
                cases = [("wrote it", resident, objects)]
                if name in savers.STORED:
                    found = [in_new_process(restored, name, str(folder), traced=traced) for traced in (False, True)]
                    cases.append(("restored it", *found))
            rows += [
                {
                    "supersteps": length,
                    "the process": case,
                    "saver": name,
                    "resident, MB": resident["held"] / 1e6,
                    "Python objects, MB": objects["held"] / 1e6,
                    "decompressed log, MB": log and log / 1e6,
                    "resident / log": log and resident["held"] / log,
                    "Python objects / log": log and objects["held"] / log,
                }
                for case, resident, objects in cases
            ]
    yield "Memory of an open session", rows
