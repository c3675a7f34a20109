"""Which lines of a log hold numbered messages and values."""

from __future__ import annotations

import re

import msgspec

from langgraph_jsonl_checkpoint.log import records

_MESSAGE = re.compile(rb'\{"seq":\d+,"type":"message","ts":"[^"]*","n":(\d+),')


class Numbers(msgspec.Struct):
    """The fold.

    Attributes:
        firsts: The first number of each line, ascending.
        seqs: The lines' seqs.
        next: The next free number.
    """

    firsts: list[int]
    seqs: list[int]
    next: int

    def apply(self, kind: str, text: bytes, seq: int) -> None:
        """Take in the next line of the log.

        Raises:
            ValueError: Its number was given before.
        """
        if kind == "message":
            found = _MESSAGE.match(text)
            if found is None:
                raise ValueError("a message has no number")
            self._take(int(found[1]), 1, seq)
        elif kind == "value":
            record = records.parse_as(records.Value, text)
            self._take(record.n, len(record.values), seq)

    def _take(self, number: int, count: int, seq: int) -> None:
        if number < self.next:
            raise ValueError(f"number {number} was given before")
        self.firsts.append(number)
        self.seqs.append(seq)
        self.next = number + count


def no_numbers() -> Numbers:
    """Those of an empty log."""
    return Numbers([], [], 0)
