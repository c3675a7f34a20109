"""What all lines of a log come to, as far as a thread is opened with it: the folds' own table of contents.

It names places and holds no values, so that it can stand in front of a packed log, whose lines are then read when
somebody asks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from langgraph_jsonl_checkpoint.folds.checkpoints import Checkpoints, Places
from langgraph_jsonl_checkpoint.folds.runs import Runs
from langgraph_jsonl_checkpoint.folds.tool_calls import ToolCalls
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.values.numbers import Numbers

if TYPE_CHECKING:
    from langgraph_jsonl_checkpoint.log.lines import Lines


class Stored(msgspec.Struct, omit_defaults=True):
    """What is known without a line.

    Attributes:
        places: Where checkpoints and writes stand.
        numbers: Where messages and values stand.
        runs: Who wrote the log.
        steps: The seqs of the records that tool calls are folded from.
        called: Whether there is a `tool` record among them.
    """

    places: Places = msgspec.field(default_factory=Places)
    numbers: Numbers = msgspec.field(default_factory=Numbers)
    runs: Runs = msgspec.field(default_factory=Runs)
    steps: list[int] = []
    called: bool = False


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
        self.stored = stored or Stored()
        self.checkpoints = Checkpoints(lines, self.stored.places)
        self.runs = self.stored.runs
        self._tools = ToolCalls()
        self._told = 0  # how many of the steps the fold of tool calls has taken

    def apply(self, kind: str, text: bytes, seq: int) -> None:
        """Take in the next line of the log.

        Raises:
            LookupError: The type is unknown and the line does not say that it may be ignored.
            ValueError: The line is not what its type says.
        """
        stored = self.stored
        if kind in _NUMBERED:
            stored.numbers.apply(kind, text, seq)
        elif kind in _STEPS:
            stored.steps.append(seq)
            stored.called = stored.called or kind == "tool"
            self.checkpoints.apply(kind, text, seq)
        elif kind in records.TYPES:
            self.checkpoints.apply(kind, text, seq)
        else:
            records.parse(kind, text)
        self.runs.apply(kind, text, seq)

    @property
    def tools(self) -> ToolCalls:
        """The fold of the tool calls, which is made when somebody asks for it: it needs many lines.

        Raises:
            CorruptSessionError: The log is damaged.
        """
        steps = self.stored.steps
        if self.stored.called and self._told < len(steps):
            for seq in steps[self._told :]:
                kind, text = self.lines.line(seq)
                try:
                    record = records.parse(kind, text)
                    self._tools.apply(record, seq, records.timestamp(text) if kind == "tool" else "")
                except (msgspec.DecodeError, LookupError, ValueError, TypeError) as error:
                    raise self.lines.corrupt(seq, f"a record is not what its type says ({error})") from error
                self._told += 1
        return self._tools

    def moved(self, lines: Lines) -> None:
        """Go on with the same lines in another place."""
        self.lines = self.checkpoints.lines = lines


_NUMBERED = frozenset({"message", "value"})
_STEPS = frozenset({"checkpoint", "open", "tool"})
