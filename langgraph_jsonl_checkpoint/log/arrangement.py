"""Which of the commits that were found in a damaged log are its own, and in what order they were written."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from langgraph_jsonl_checkpoint.log import journal, records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langgraph_jsonl_checkpoint.log.survey import Commit

# Ids that no other log has: those of checkpoints and tasks, and the versions that a saver makes.
_UNIQUE = re.compile(
    rb'"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|~?\d{32}\.(?:[0-9a-f]{8}-[0-9a-f]+|0\.\d+))"'
)


def arranged(commits: Sequence[Commit], key: bytes, told: dict[int, bytes]) -> Iterator[tuple[Commit, str]]:
    """The commits of the log in their order, and why one of them is left out, if it is.

    The next commit is the one that follows the last one by its digest, wherever it stands. Behind a gap there is
    none. A commit there counts as the log's if it follows a digest that the log's index tells, or if it or those that
    follow it name something that no other log has.

    Args:
        commits: The commits as they stand there.
        key: The key of the chain.
        told: By the seq of a commit, the digest before it, as far as an index tells it.
    """
    pool: dict[int, list[Commit]] = defaultdict(list)
    for commit in commits:
        pool[commit.seq].append(commit)
    known: set[bytes] = set()
    seq, chain, offset = 0, b"", -1  # behind the last one
    while run := _run(pool, seq, chain, key) or _behind_gap(pool, (seq, chain, offset), key, known, told):
        for commit in run:
            known |= _names(commit)
            pool[commit.seq].remove(commit)
            yield commit, ""
        seq, chain, offset = commit.seq + len(commit.lines), commit.chain, commit.offset
    for each in pool.values():
        for commit in each:
            yield commit, "it was changed, stands here again, or is of another log: nothing ties it to this one"


def _behind_gap(
    pool: dict[int, list[Commit]],
    last: tuple[int, bytes, int],
    key: bytes,
    known: set[bytes],
    told: dict[int, bytes],
) -> list[Commit]:
    """The next commits of this log, though the one that they follow is missing."""
    seq, chain, offset = last
    for first in sorted(commit for each in pool.values() for commit in each):
        if first.offset < offset or not first.checked or first.seq < seq or first.seq == seq and chain:
            continue
        run = [first, *_run(pool, first.seq + len(first.lines), first.chain, key)]
        is_told = first.seq in told and first.follows(told[first.seq], key)
        if is_told or not known or not known.isdisjoint(set().union(*map(_names, run))):
            return run
    return []


def _run(pool: dict[int, list[Commit]], seq: int, chain: bytes, key: bytes) -> list[Commit]:
    """The commits that follow one another from there on."""
    run: list[Commit] = []
    while chain or not seq:
        # Whole lines of a torn commit have no digest; nothing else can stand behind the last commit.
        following = (c for c in pool.get(seq, ()) if c.follows(chain, key) or not c.checked)
        commit = next(following, None)
        if commit is None:
            break
        run.append(commit)
        seq, chain = seq + len(commit.lines), commit.chain
    return run


def _names(commit: Commit) -> set[bytes]:
    """The ids in a commit that no other log has: of checkpoints, tasks and versions, and none from the state."""
    found: set[bytes] = set()
    for line in commit.lines:
        kind, text = journal.line_of(line)
        if kind == "checkpoint":
            with contextlib.suppress(msgspec.DecodeError):
                record = msgspec.json.decode(text, type=records.Checkpoint)
                text = msgspec.json.encode([record.id, record.parent, record.versions, record.seen])
                found.update(_UNIQUE.findall(text))
        elif kind == "writes":
            found.update(_UNIQUE.findall(text.split(b',"writes":', 1)[0]))
    return found
