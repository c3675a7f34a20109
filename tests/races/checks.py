"""What must hold after a race, looked at from outside: with zstd, JSON and BLAKE2 alone, and with a new saver."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from cases.graphs import config, ids
from cases.logs import text

from langgraph_jsonl_checkpoint import JsonlSaver
from races.jobs import name_of, store, store_writes, values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from races.conftest import Worker

CHAIN = re.compile(rb',"chain":"([0-9a-f]{32})"\}\n')


def whole(log: Path) -> list[dict[str, Any]]:
    """The records of a log whose seqs have no gap and whose commits follow each other."""
    found = [json.loads(line) for line in text(log).splitlines()]
    assert [record["seq"] for record in found] == list(range(len(found)))
    assert [record["type"] for record in found].count("session") == 1
    digest, at, everything = b"", 0, text(log)
    for end in CHAIN.finditer(everything):
        digest = hashlib.blake2b(digest + everything[at : end.start()] + b"}\n", digest_size=16).digest()
        assert end[1].decode() == digest.hex(), f"the commit that ends at {end.end()} follows another"
        at = end.end()
    assert at == len(everything), "the log ends inside a commit"
    return found


def order(log: Path) -> dict[str, list[tuple[str, int]]]:
    """By writer, the ("put" or "writes", place) that the log holds, in its order."""
    found = defaultdict(list)
    for record in whole(log):
        if record["type"] in ("checkpoint", "writes"):
            name = record.get("id") or record["checkpoint"]
            place, writer = name.split("-", 1)
            found[writer].append(("put" if record["type"] == "checkpoint" else "writes", int(place)))
    return found


def check(root: Path, threads: Sequence[str], workers: Iterable[Worker], *, size: int = 40) -> int:
    """Nothing that was reported is lost, doubled or out of its writer's order; how many calls there were.

    A writer that was killed may have stored one call more than it came to report.
    """
    told: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for worker in workers:
        for kind in ("put", "writes"):
            for each in worker.reports(kind):
                told[each["thread"], each["writer"]].append((kind, each["place"]))
    for said in told.values():
        said.sort(key=lambda call: (call[1], call[0]))
    with JsonlSaver(root, fsync="never") as saver:
        paths = {thread: saver.path(thread) for thread in threads}
    for thread in threads:
        stored = order(paths[thread])
        expected = {}
        for writer in {*stored, *(who for where, who in told if where == thread)}:
            said, there = told[thread, writer], stored[writer]
            assert there[: len(said)] == said, f"{writer} on {thread}"
            assert len(there) <= len(said) + 1, f"{writer} on {thread} has more than it was killed in"
            for kind, place in there:
                expected.setdefault(name_of(writer, place), [writer, place, False])[2] = kind == "writes"
        check_reads(root, thread, expected, size)
    return sum(map(len, told.values()))


def check_reads(root: Path, thread: str, expected: dict[str, Any], size: int) -> None:
    """A new saver reads these checkpoints, and goes on; then another reads them and what was added."""
    for _ in range(2):
        with JsonlSaver(root, fsync="never") as saver:
            found = [*saver.list(config(thread, None))]
            assert ids(found) == sorted(expected, reverse=True)
            for each in found:
                writer, place, has_writes = expected[each.checkpoint["id"]]
                assert each.checkpoint["channel_values"] == values_of(writer, place, size)
                written = [(f"task-{writer}", "text", [writer, place])] if has_writes else []
                assert each.pending_writes == written
            place = int(max(expected, default="0").split("-")[0]) + 1
            store(saver, thread, "last", place, size=size)
            store_writes(saver, thread, "last", place)
            expected[name_of("last", place)] = ["last", place, True]
    whole(saver.path(thread))
