"""One `put` and its `put_writes`: a value that is replaced, and a list that grows by one message of 1 KB."""

from __future__ import annotations

import random
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any

import report
import savers
from langchain_core.messages import AIMessage
from workload import play, seconds, superstep, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

SAVERS = {**savers.SYNC, **savers.WRITTEN}
# Bytes of the value, and how often it is stored.
SIZES = {1_000: 300, 100_000: 80, 5_000_000: 10}


def _replaced(size: int) -> Iterator[tuple[Any, Any]]:
    """A text that is another one each time; its write is the same object."""
    text = "".join(islice(texts(), -(-size // 1000)))[:size]
    places = random.Random(1)
    while True:
        at = places.randrange(size)
        value = text[at:] + text[:at]
        yield value, value


def _appended(size: int) -> Iterator[tuple[Any, Any]]:
    """A list of messages; its write is the new one."""
    source = texts()
    messages = [AIMessage(next(source), id=f"old-{number}") for number in range(size // 1000)]
    while True:
        new = [AIMessage(next(source), id=f"new-{len(messages)}")]
        messages = messages + new
        yield messages, new


def _stored(values: Iterator[tuple[Any, Any]], times: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in SAVERS}
    order = list(SAVERS)
    shuffle = random.Random(times).shuffle
    parent = None
    with savers.opened(SAVERS) as stores:
        # The first store of a list of a given size is not an append.
        for number, (value, written) in enumerate(islice(values, times + 1)):
            calls = superstep(number, parent, value, written)
            parent = calls[1].checkpoint_id
            shuffle(order)
            for name in order:
                spent = seconds(lambda: play(stores[name], [calls]))  # noqa: B023 - called at once
                if number:
                    taken[name].append(spent)
    return taken


def tables(*, quick: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Medians, and ratios of them."""
    rows: list[dict[str, Any]] = []
    for size, times in SIZES.items():
        for kind, values in (("replaced", _replaced), ("appended to", _appended)):
            taken = _stored(values(size), max(4, times // 5) if quick else times)
            medians = {name: 1e3 * median(spent) for name, spent in taken.items()}
            ratios = report.ratios(medians, ("SqliteSaver", "InMemorySaver", "only written"))
            rows.append({"value": f"{size // 1000:,} KB, {kind}", **medians, **ratios})
    yield "A put and its put_writes (medians in ms)", rows
