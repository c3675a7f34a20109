"""How a list is made of stretches of the one that was written before it, and of what is new."""

from __future__ import annotations

from itertools import islice
from operator import is_
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph_jsonl_checkpoint.values.parts import ListPart, View

_STRAY = 8  # elements that are looked for elsewhere in the list before


def stretches_of(old: ListPart, new: View) -> list[tuple[int, int]]:
    """A list's stretches: (begin in the list before, length) of what was there, (-1, length) of what is new."""
    both = min(old.length, len(new.objects))
    if _same_head(old, new, both):
        rest = len(new.objects) - both
        return [(0, both)] * bool(both) + [(-1, rest)] * bool(rest)
    if set(map(id, old.objects[: old.length])).isdisjoint(map(id, new.objects)):
        return [(-1, len(new.objects))]  # a new run has objects of its own for what it restored
    return [*_merged(_steps(old, new))]


def _same_head(old: ListPart, new: View, n: int) -> bool:
    """Whether the first `n` elements are the same objects and hold the same."""

    def head(column: list[object]) -> list[object]:
        return column if len(column) == n else column[:n]

    try:
        return (
            all(islice(map(is_, old.objects, new.objects), n))
            and head(old.states) == head(new.states)
            and head(old.extras) == head(new.extras)
        )
    except Exception:  # noqa: BLE001 - what cannot be compared, an array say, took the place of what could
        return False


def _steps(before: ListPart, after: View) -> Iterator[tuple[int, int]]:
    old, new, strays = 0, 0, 0
    olds, news = before.length, len(after.objects)

    def same(at: int, where: int) -> bool:
        try:
            return (
                before.objects[at] is after.objects[where]
                and before.states[at] == after.states[where]
                and before.extras[at] == after.extras[where]
            )
        except Exception:  # noqa: BLE001 - as above
            return False

    while new < news:
        if old < olds and same(old, new):
            yield old, 1
            old, new = old + 1, new + 1
            continue
        at = None
        if old < olds and strays < _STRAY:
            strays += 1
            at = next((i for i in range(old + 1, olds) if same(i, new)), None)
        if at is None:
            yield -1, 1
            # Was the old one changed in place, or this one put before it? The next one tells.
            follows = new + 1 < news and old + 1 < olds and same(old + 1, new + 1)
            old, new = old + follows, new + 1
        else:
            old = at


def _merged(steps: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    begin, length = 0, 0
    for at, n in steps:
        if length and (at == begin + length if begin >= 0 else at < 0):
            length += n
            continue
        if length:
            yield begin, length
        begin, length = at, n
    if length:
        yield begin, length
