"""What a disk may hold when the power is cut: all that was synced, and any part of the rest."""

from __future__ import annotations

import itertools
import math
import os
from typing import TYPE_CHECKING, Any

from faults.disk import Node, after

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

SECTOR = 512  # what a disk writes whole or not at all
ALL = 48  # so many remains of one moment are all tried; of more some are left out

Remains = tuple[tuple[str, bytes | None], ...]
"""Each path, with a file's bytes, or None for a directory."""


def remains(tree: Node, chance: random.Random) -> Iterator[Remains]:
    """What may be there after a power cut at this moment."""
    nodes = [node for node in _nodes(tree) if node.waiting]
    ways = [_entries(node) if isinstance(node.kept, dict) else _contents(node) for node in nodes]
    choices = itertools.product(*ways) if math.prod(map(len, ways)) <= ALL else _some(ways, chance)
    for choice in choices:
        yield tuple(_walk(tree, "", dict(zip(map(id, nodes), choice, strict=True))))


def lay_out(found: Remains, root: Path) -> None:
    """Make files of it."""
    for path, data in found:
        if data is None:
            os.makedirs(root / path, 0o700, exist_ok=True)
        else:
            (root / path).write_bytes(data)


def _some(ways: list[list[Any]], chance: random.Random) -> Iterator[tuple[Any, ...]]:
    """Each way of each file and directory at least twice: with the others all lost, and all there."""
    for rest in (0, -1):
        base = [way[rest] for way in ways]
        for place, way in enumerate(ways):
            for one in way:
                yield (*base[:place], one, *base[place + 1 :])
    for _ in range(ALL):
        yield tuple(chance.choice(way) for way in ways)


def _nodes(tree: Node) -> Iterator[Node]:
    """All that may be found in a tree, by the entries that are kept and by those that may be."""
    seen: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) in seen:
            return
        seen[id(node)] = node
        if isinstance(node.kept, dict):
            for entries in [node.kept, *node.waiting]:
                for each in entries.values():
                    if each is not None:
                        visit(each)

    visit(tree)
    return iter(seen.values())


def _walk(node: Node, path: str, chosen: dict[int, Any]) -> Iterator[tuple[str, bytes | None]]:
    found = chosen.get(id(node), node.kept)
    if not isinstance(found, dict):
        yield path, found
        return
    yield path, None
    for name, each in sorted(found.items()):
        yield from _walk(each, os.path.join(path, name), chosen)


def _entries(node: Node) -> list[dict[str, Node]]:
    """A directory with any subset of its changes; none of them first, all of them last."""
    count = len(node.waiting)
    if count <= 4:
        subsets = [s for size in range(count + 1) for s in itertools.combinations(node.waiting, size)]
    else:
        subsets = [tuple(node.waiting[:size]) for size in range(count)]
        subsets += [tuple(node.waiting[:at] + node.waiting[at + 1 :]) for at in range(count)]
        subsets += [(one,) for one in node.waiting]
        subsets.append(tuple(node.waiting))
    return [after(node.kept, list(subset)) for subset in subsets]


def _contents(node: Node) -> list[bytes]:
    """A file with any part of its changes; none of them first, all of them last."""
    steps = [after(node.kept, node.waiting[:count]) for count in range(len(node.waiting) + 1)]
    kept, now = steps[0], steps[-1]
    found = dict.fromkeys(steps)
    if len(now) > len(kept) and now.startswith(kept):
        begin = len(kept)
        found |= dict.fromkeys(now[:end] for end in (begin + 1, (begin + len(now)) // 2, len(now) - 1))
        for lost, is_old in ((blank(now, begin), False), (old(now, begin), True)):
            found[lost] = None
            for piece in sectors(begin, len(now)):
                found[now[: piece.start] + lost[piece.start :]] = None
                found[lost[: piece.start] + now[piece] + lost[piece.stop :]] = None
                if not is_old:
                    found[now[: piece.start] + lost[piece] + now[piece.stop :]] = None
    del found[now]
    return [*found, now]


def sectors(begin: int, end: int) -> Iterator[slice]:
    """The parts of the sectors that lie between two offsets."""
    for at in range(begin - begin % SECTOR, end, SECTOR):
        yield slice(max(at, begin), min(at + SECTOR, end))


def blank(data: bytes, begin: int) -> bytes:
    """A file whose size is on the disk, and of whose bytes those from `begin` on are not."""
    return data[:begin] + bytes(len(data) - begin)


def old(data: bytes, begin: int) -> bytes:
    """The same on a file system that shows there what the disk held before: parts of an older log."""
    was = data[7:begin] or b"\xff"
    return data[:begin] + (was * (len(data) // len(was) + 1))[: len(data) - begin]
