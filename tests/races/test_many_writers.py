"""Processes, threads and savers append at once, and processes are killed at random."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest
from cases.graphs import config

from langgraph_jsonl_checkpoint import JsonlSaver
from races.checks import check

if TYPE_CHECKING:
    from races.conftest import Crew

ONE = ["t"]
MANY = [f"t{number}" for number in range(5)]


@pytest.mark.parametrize("ids", [ONE, MANY], ids=["one thread", "many threads"])
@pytest.mark.parametrize("savers", [1, 2], ids=["one saver", "two savers"])
def test_racing_writers_lose_double_and_reorder_nothing(crew: Crew, ids: list[str], savers: int) -> None:
    """Three processes of two threads each: all that returned is there once, in its writer's order."""
    writers = [
        crew.start("write", name, ids=ids, count=40, threads=2, savers=savers, fsync="never") for name in "abc"
    ]
    for writer in writers:
        writer.finish()
    assert check(crew.root, ids, writers) == 3 * 2 * 40 * 2


def test_racing_writers_that_evict_and_pack_lose_nothing(crew: Crew) -> None:
    """Savers with room for one session close, pack and open logs that others append to at that moment."""
    options = {"ids": MANY, "count": 60, "threads": 2, "size": 6000, "fsync": "never", "max_open": 1}
    writers = [crew.start("write", name, **options) for name in "ab"]
    for writer in writers:
        writer.finish()
    check(crew.root, MANY, writers, size=6000)
    with JsonlSaver(crew.root) as saver:
        assert all(b"\x5a\x2a\x4d\x18" in saver.path(thread).read_bytes()[:2000] for thread in MANY)


def race_with_kills(crew: Crew, ids: list[str], kills: int, seed: int, **options: object) -> int:
    """Keep three writers alive until so many were killed; how many were, each in the middle of its work."""
    chance = random.Random(seed)
    running = []
    killed = number = 0
    while killed < kills or running:
        while len(running) < 3 and killed + len(running) < kills:
            running.append(crew.start("write", f"w{number}", ids=ids, count=400, threads=2, savers=2, **options))
            number += 1
        victim = running.pop(chance.randrange(len(running)))
        victim.until("put", chance.randrange(1, 12))
        time.sleep(chance.uniform(0, 0.003))
        victim.kill()
        killed += victim.end() != 0
        assert number < 2 * kills + 3, "the writers end before they are killed"
    return killed


@pytest.mark.parametrize("ids", [ONE, MANY], ids=["one thread", "many threads"])
@pytest.mark.parametrize("fsync", ["checkpoint", "never"])
def test_writers_killed_at_random_lose_nothing_that_returned(crew: Crew, ids: list[str], fsync: str) -> None:
    """Writers are killed, one after the other, while others append to the same logs."""
    assert race_with_kills(crew, ids, 12, 8136, fsync=fsync) == 12
    check(crew.root, ids, crew.workers)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("ids", [ONE, MANY], ids=["one thread", "many threads"])
def test_many_writers_killed_at_random_lose_nothing_that_returned(crew: Crew, ids: list[str]) -> None:
    """The same with more kills, logs long enough to be packed, and savers that evict."""
    assert race_with_kills(crew, ids, 40, 8298, fsync="never", max_open=2, size=3000) == 40
    check(crew.root, ids, crew.workers, size=3000)
    with JsonlSaver(crew.root) as saver:
        assert saver.get_tuple(config(ids[0])) is not None
