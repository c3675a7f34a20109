"""Which logs a list with a filter may pass over: those whose metadata was read before and had no such value.

What is kept of a log says "may have it" or "does not have it". It is kept in memory alone, and only holds for the
very bytes that were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from langgraph_jsonl_checkpoint.log.local import Found

_NOTHING: tuple[None, int] = (None, 0)
_MOST_LOGS = 1 << 16
_BITS = 1024
_MOST_VALUES = 64  # of one key: more, as the steps of a long thread, would leave no bit for the others
_STILL = 0.1  # seconds: a log changed twice within a tick of the clock has one time for both
# Equal values of these types have equal hashes, whichever the types are. Of a key with others nothing is said.
_PLAIN = frozenset({str, int, float, bool})


class SkipIndex:
    """By log, a Bloom filter of the (key, value) pairs in the metadata of its checkpoints."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, ...], int]] = {}

    def sieve(self, wanted: Mapping[str, Any]) -> Callable[[Found], bool]:
        """Tells of a log whether a checkpoint of it may have this metadata."""
        # A missing key counts as None.
        masks = [_bit(key) | _bit((key, value)) for key, value in wanted.items() if type(value) in _PLAIN]
        known = self._known.get

        def may_match(found: Found) -> bool:
            state, bits = known(found.name, _NOTHING)
            return state != found.state or all(map(bits.__and__, masks))

        return may_match

    def add(self, found: Found, read_at: float, everything: Iterable[Mapping[str, Any]]) -> None:
        """Keep what the checkpoints of a log hold that was read at this time or later, after it was found."""
        if read_at - found.changed < _STILL:
            return  # a later change may have left the same time: what git calls a racy entry of its index
        values: dict[str, set[Any]] = {}
        for metadata in everything:
            for key, value in metadata.items():
                values.setdefault(key, set()).add(value if type(value) in _PLAIN else None)
        bits = 0
        for key, some in values.items():
            is_vague = None in some or len(some) > _MOST_VALUES
            for each in [key] if is_vague else [(key, value) for value in some]:
                bits |= _bit(each)
        if len(self._known) >= _MOST_LOGS:
            self._known.clear()
        self._known[found.name] = found.state, bits


def _bit(what: Any) -> int:
    return 1 << hash(what) % _BITS
