"""What calls came to, and whether a checkpoint took it: then whatever stands around them has seen it, and went on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph_jsonl_checkpoint.upstream import namespaces
from langgraph_jsonl_checkpoint.values.types import untag_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph_jsonl_checkpoint.folds.tool_calls import Call, Key
    from langgraph_jsonl_checkpoint.log import records


class Untaken:
    """The ends of calls that no checkpoint took."""

    def __init__(self) -> None:
        self._calls: dict[Key, Call] = {}
        self._steps: dict[tuple[str, str], int | None] = {}  # of every checkpoint

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._calls.values()))

    def settle(self, call: Call) -> None:
        """A call took a step."""
        ended = call.has_result or call.end in ("failed", "cancelled")
        if ended and call.attempt and call.heir is None and not call.elsewhere and not call.is_told:
            self._calls[call.key] = call
        else:
            self._calls.pop(call.key, None)

    def deliver(self, record: records.Checkpoint, writer: str) -> list[Call]:
        """A checkpoint takes what the calls before it came to.

        Returns:
            The calls whose superstep went on with it: what they came to, be it an error, is told.
        """
        ns, parent = untag_text(record.ns), None if record.parent is None else untag_text(record.parent)
        name = untag_text(record.id)
        told: list[Call] = []
        for call in self:
            # Under durability="exit" those in between are never stored: a later one of the same run stands for them,
            # also in the graph around.
            is_next = call.ns == ns and call.checkpoint == parent
            is_own = call.writer == writer and namespaces.is_within(call.ns, ns)
            if is_next or is_own:
                del self._calls[call.key]
            if is_own and record.source == "loop" and self._went_on(call, record, name, is_next):
                told.append(call)
        self._steps[ns, name] = record.step
        return told

    def _went_on(self, call: Call, record: records.Checkpoint, name: str, is_next: bool) -> bool:  # noqa: FBT001
        """Whether the superstep of a call ended with a checkpoint of its own writer, and no error ended the run."""
        if call.checkpoint is None:
            return False
        place = call.ns, call.checkpoint
        if place not in self._steps:
            return name > call.checkpoint  # a run that an error ends stores the call's own checkpoint, too
        # Under "exit" the next one that is stored may be that of another input.
        return is_next and record.step == (self._steps[place] or 0) + 1
