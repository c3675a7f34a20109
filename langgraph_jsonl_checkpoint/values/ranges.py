"""Ranges of numbers: `[[0, 811], [813, 813]]`, both ends included.

Where the numbers of a list are scattered, it would repeat them all each time it grows. So a bare number `k` may stand
among ranges, for those of the container that is number `k`: after `LONGEST` ranges they become a stem of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Range = list[int] | int
LONGEST = 32

BEGINS = b'{"$list":', b'{"$map":'
"""What the text of a container of numbers begins with. Numbers are no secret, so no serde seals it."""


class Stem:
    """The ranges of a container that others begin with, and how many numbers they hold."""

    __slots__ = ("count", "ranges")

    def __init__(self, ranges: list[Range], count: int) -> None:
        self.ranges = ranges
        self.count = count


class NumberSet:
    """A set of numbers, kept as ranges."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> bool:
        """Add a range of numbers none of which is there; if one is, add none and return False."""
        firsts, lasts = self._firsts, self._lasts
        at = bisect_right(firsts, first)
        if at and lasts[at - 1] >= first or at < len(firsts) and firsts[at] <= last:
            return False
        if at and lasts[at - 1] + 1 == first:
            lasts[at - 1] = last
        else:
            firsts.insert(at, first)
            lasts.insert(at, last)
            at += 1
        if at < len(firsts) and firsts[at] == last + 1:
            del firsts[at]
            lasts[at - 1] = lasts.pop(at)
        return True

    def holds(self, first: int, last: int) -> bool:
        """Whether all numbers from `first` to `last` are there."""
        at = bisect_right(self._firsts, first) - 1
        return at >= 0 and first <= last <= self._lasts[at]


def add(ranges: list[Range], first: int, last: int) -> None:
    """Append numbers `first` to `last`."""
    end = ranges[-1] if ranges else None
    if type(end) is list and end[1] + 1 == first:
        ranges[-1] = [end[0], last]
    else:
        ranges.append([first, last])


def cut(ranges: list[Range], begin: int, length: int, stem: Callable[[int], Stem]) -> list[Range]:
    """The ranges of `length` numbers from the `begin`-th on."""
    out: list[Range] = []
    at, end = 0, begin + length
    for each in ranges:
        size = stem(each).count if type(each) is int else each[1] - each[0] + 1  # type: ignore[index]
        low, high = max(begin, at), min(end, at + size)
        if low < high:
            if type(each) is int:
                whole = high - low == size
                out += [each] if whole else cut(stem(each).ranges, low - at, high - low, stem)
            else:
                add(out, each[0] + low - at, each[0] + high - at - 1)  # type: ignore[index]
        at += size
    return out


def continued(ranges: list[Range], before: list[Range], stem: Callable[[int], Stem]) -> list[Range]:
    """The same numbers as `ranges`, beginning as `before` does if they begin with all of its numbers.

    A list whose elements are all other objects than before may have their numbers; then its stems stay, too.
    """
    old, new = list(flat(before, stem)), list(flat(ranges, stem))
    last = len(old) - 1
    if not 0 < last < len(new) or new[:last] != old[:last]:
        return ranges
    (first, end), (same, beyond) = old[last], new[last]
    if first != same or beyond < end:
        return ranges
    found = list(before)
    if beyond > end:
        add(found, end + 1, beyond)
    for each in new[last + 1 :]:
        add(found, *each)
    return found


def flat(ranges: list[Range], stem: Callable[[int], Stem]) -> Iterator[tuple[int, int]]:
    """All ranges in order, stems resolved: (first, last)."""
    stack: list[Iterator[Range]] = [iter(ranges)]
    while stack:
        each = next(stack[-1], None)
        if each is None:
            stack.pop()
        elif type(each) is int:
            stack.append(iter(stem(each).ranges))
        else:
            yield each[0], each[1]  # type: ignore[index]
