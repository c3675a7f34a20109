"""Numbers that are kept as ranges."""

from __future__ import annotations

import random

import pytest

from langgraph_jsonl_checkpoint.values.ranges import NumberSet


@pytest.mark.parametrize("seed", range(20))
def test_a_set_of_numbers_holds_what_was_added_in_any_order(seed: int) -> None:
    """A range of which a number is there already adds nothing; neighbours become one range, on either side."""
    draw = random.Random(seed)
    numbers, expected = NumberSet(), set()
    for _ in range(60):
        first = draw.randrange(100)
        last = first + draw.randrange(4)
        added = {*range(first, last + 1)}
        assert numbers.add(first, last) is expected.isdisjoint(added)
        if expected.isdisjoint(added):
            expected |= added
    for first in range(-2, 106):
        for last in range(first, 106):
            assert numbers.holds(first, last) is expected.issuperset(range(first, last + 1))
    assert not numbers.holds(3, 2)
