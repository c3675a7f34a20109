"""The table of contents of a log: what its lines come to, as far as that is needed to open the thread.

It names places and holds no values. So it can stand in front of a packed log, whose lines are then read only when
somebody asks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from langgraph_jsonl_checkpoint.folds.checkpoints import Checkpoints, Places
from langgraph_jsonl_checkpoint.folds.runs import Runs, no_runs
from langgraph_jsonl_checkpoint.folds.tool_calls import ToolCalls
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.values.numbers import Numbers, no_numbers

if TYPE_CHECKING:
    from langgraph_jsonl_checkpoint.log.lines import Lines

VERSION = 3  # goes up when the fields change, or when a fold says something else of the same lines


class Versioned(msgspec.Struct):
    """What the contents of an index have in any release."""

    version: int


class Stored(msgspec.Struct):
    """What is known without a line.

    Attributes:
        version: Of what stands here; one that is not this one's is not used.
        types: The types of the records.
        places: Where checkpoints and writes stand.
        numbers: Where messages and values stand.
        runs: Who wrote the log.
        steps: The seqs of the records that tool calls are folded from.
    """

    version: int
    types: set[str]
    places: Places
    numbers: Numbers
    runs: Runs
    steps: list[int]

    def fits(self, behind: int) -> bool:
        """Whether it can be what the records before `behind` come to, as far as can be told without them."""
        places, numbers, runs = self.places, self.numbers, self.runs
        held = [seqs for space in places.spaces.values() for seqs in space.values()]
        if not all(held) or self.version != VERSION or self.types - records.TYPES.keys():
            return False
        firsts = [seqs[0] for seqs in held]
        writes = [seq for seqs in held for seq in seqs[1:]]
        known = [firsts, writes, numbers.seqs, runs.begins, self.steps]
        known.append([seq for seq in (places.ended, places.answer) if seq is not None])
        ascending = (numbers.firsts, numbers.seqs, runs.begins, self.steps)
        return (
            all(not seqs or max(seqs) < behind for seqs in known)
            and all(not seqs or min(seqs) >= 0 for seqs in known[1:])
            and min(firsts, default=0) >= -1
            and all(row == sorted(set(row)) for row in ascending)
            and len(numbers.firsts) == len(numbers.seqs)
            and len(runs.begins) == len(runs.writers)
            and min(numbers.firsts, default=0) >= 0
            and max(numbers.firsts, default=-1) < numbers.next
        )


def nothing() -> Stored:
    """What an empty log comes to."""
    return Stored(VERSION, set(), Places({}, None, ("", ""), set(), None), no_numbers(), no_runs(), [])


class Contents:
    """The fold.

    Args:
        lines: The log's lines.
        stored: What was folded before.

    Attributes:
        lines: The log's lines.
        stored: What is known without a line.
        checkpoints: The fold of its checkpoints and pending writes.
        runs: The fold of its writers.
    """

    def __init__(self, lines: Lines, stored: Stored | None = None) -> None:
        self.lines = lines
        self.stored = stored or nothing()
        self.checkpoints = Checkpoints(lines, self.stored.places)
        self.runs = self.stored.runs
        self._tools = ToolCalls()
        self._folded = 0  # how many of the steps the fold of tool calls has taken

    def apply(self, kind: str, text: bytes, seq: int) -> None:
        """Take in the next line of the log.

        Raises:
            LookupError: The type is unknown and the line does not say that it may be ignored.
            ValueError: The line is not what its type says.
        """
        stored = self.stored
        stored.types.add(kind)
        if kind in _NUMBERED:
            stored.numbers.apply(kind, text, seq)
        elif kind in _STEPS:
            stored.steps.append(seq)
            self.checkpoints.apply(kind, text, seq)
        elif kind in records.TYPES:
            self.checkpoints.apply(kind, text, seq)
        else:
            records.parse(kind, text)
        self.runs.apply(kind, text, seq)

    @property
    def tools(self) -> ToolCalls:
        """The fold of the tool calls. It needs many lines, so it is made when somebody asks for it.

        Raises:
            CorruptSessionError: The log is damaged.
        """
        steps = self.stored.steps
        if "tool" in self.stored.types and self._folded < len(steps):
            for seq in steps[self._folded :]:
                kind, text = self.lines.line(seq)
                try:
                    record = records.parse(kind, text)
                    self._tools.apply(record, seq, records.timestamp(text) if kind == "tool" else "")
                except (msgspec.DecodeError, LookupError, ValueError, TypeError) as error:
                    raise self.lines.corrupt(seq, f"a record is not what its type says ({error})") from error
                self._folded += 1
        return self._tools

    def moved(self, lines: Lines) -> None:
        """Go on with the same lines in another place."""
        self.lines = self.checkpoints.lines = lines


_NUMBERED = frozenset({"message", "value"})
_STEPS = frozenset({"checkpoint", "open", "tool"})
