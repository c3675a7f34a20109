"""What the chain of digests costs: in a superstep, when a log is opened, and when it is checked as a whole.

The supersteps of one chat are played to a saver without a key and to one with, in an order that changes. The digests'
share is what BLAKE2 takes for the very commits that were written, against the time of the calls that wrote them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from workload import config, seconds, taken_by

from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.log import journal
from langgraph_jsonl_checkpoint.log.survey import survey

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTHS = (50, 800)
KEYS: dict[str, bytes | None] = {"no key": None, "a key": b"k" * 32}
THREAD = config()["configurable"]["thread_id"]


def measured(supersteps: int) -> list[dict[str, Any]]:
    """A row for each kind of chain."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        savers = {name: JsonlSaver(Path(folder, name), fsync="never", chain_key=key) for name, key in KEYS.items()}
        taken = taken_by(savers, supersteps)
        for name, key in KEYS.items():
            path = savers[name].path(THREAD)
            commits = survey(path.read_bytes(), key or b"").commits
            savers[name].close()
            size = sum(len(commit.text) for commit in commits)
            digests = median(seconds(lambda: _digests(commits, key or b"")) for _ in range(9))  # noqa: B023
            opens = median(seconds(lambda: _opened(Path(folder, name), key)) for _ in range(9))  # noqa: B023
            checks = median(seconds(lambda: _checked(Path(folder, name), key)) for _ in range(3))  # noqa: B023
            put = sum(taken[name])
            rows.append(
                {
                    "supersteps": supersteps,
                    "chain": name,
                    "superstep, ms": 1e3 * put / supersteps,
                    "its digests, µs": 1e6 * digests / supersteps,
                    "of it, %": 100 * digests / put,
                    "opened and read, ms": 1e3 * opens,
                    "verified, ms": 1e3 * checks,
                    "verified, MB of text a second": size / checks / 1e6,
                }
            )
    return rows


def _digests(commits: list[Any], key: bytes) -> None:
    chain = b""
    for commit in commits:
        chain = journal.digest(chain, commit.text, key)


def _opened(folder: Path, key: bytes | None) -> None:
    with JsonlSaver(folder, chain_key=key) as saver:
        saver.get_tuple(config())


def _checked(folder: Path, key: bytes | None) -> None:
    with JsonlSaver(folder, chain_key=key) as saver:
        assert saver.verify(THREAD).ok


def tables(*, quick: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """One row for each length and kind of chain."""
    rows = [row for length in LENGTHS[: 1 if quick else None] for row in measured(length)]
    yield 'What the chain costs in a chat (`fsync="never"`)', rows
