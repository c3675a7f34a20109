"""The ends of tool calls that no checkpoint has taken yet.

Once one has, whatever stands around the call has seen how it ended, and went on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph_jsonl_checkpoint.upstream import namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph_jsonl_checkpoint.folds.tool_calls import Call, Key
    from langgraph_jsonl_checkpoint.log import records


class Untaken:
    """The ends of calls that no checkpoint took.

    What a checkpoint of a subgraph took is there as long as its task is: it is taken when the graph around goes on.
    """

    def __init__(self) -> None:
        self._calls: dict[Key, Call] = {}
        self._inside: dict[Key, tuple[Call, str, str | None]] = {}  # with the checkpoint whose task took them
        self._newest: dict[str, str] = {}  # of each namespace, in the order of the log
        self._steps: dict[tuple[str, str], int | None] = {}  # of every checkpoint

    def __iter__(self) -> Iterator[Call]:
        return iter([*self._calls.values(), *(call for call, _, _ in self._inside.values())])

    def settle(self, call: Call) -> None:
        """Take in where a call stands after a step."""
        ended = call.has_result or call.end in ("failed", "cancelled")
        is_known = call.attempt or call.orphan is not None  # of another, what was decided is what this came to
        if ended and is_known and call.heir is None and not call.elsewhere and not call.is_told:
            self._calls[call.key] = call
        else:
            self._calls.pop(call.key, None)
        if not call.has_result or call.heir is not None:
            self._inside.pop(call.key, None)

    def deliver(self, record: records.Checkpoint, writer: str) -> list[Call]:
        """A checkpoint takes the ends of the calls before it.

        Returns:
            The calls whose superstep went on with it, even if they ended with an error.
        """
        ns, name = record.ns, record.id
        told: list[Call] = []
        went_on = record.source == "loop"
        for call, around, before in list(self._inside.values()) if went_on else ():
            is_next = (ns, record.parent) == (around, before) and self._is_step_behind(ns, before, record)
            if is_next or self._is_own(call, around, writer, ns, name):
                self._take(call, ns)
        for call in list(self._calls.values()):
            # (a @task has a namespace, and its graph's checkpoints are those of the entrypoint)
            is_next = call.checkpoint == record.parent and namespaces.is_within(call.ns, ns)
            is_own = self._is_own(call, call.ns, writer, ns, name)
            if is_next or is_own:
                del self._calls[call.key]
                if went_on and call.has_result:
                    self._take(call, ns)
            if is_own and went_on and self._went_on(call, record, name, is_next):
                told.append(call)
        self._steps[ns, name] = record.step
        self._newest[ns] = name
        return told

    @staticmethod
    def _is_own(call: Call, place: str, writer: str, ns: str, name: str) -> bool:
        """Whether a checkpoint is a later one of a call's run, of the graph that the call is in or one around it.

        Under durability="exit" those in between are never stored, and it stands for them. An older one has nothing of
        the call: the one that it comes from, and with DeltaChannels that of the run's begin, are stored at its end.
        """
        return call.writer == writer and namespaces.is_within(place, ns) and name > (call.checkpoint or "")

    def _take(self, call: Call, ns: str) -> None:
        """A checkpoint of a namespace has what a call came to."""
        self._inside.pop(call.key, None)
        if namespaces.is_of_task(ns):
            around = namespaces.graph_around(ns)
            self._inside[call.key] = call, around, self._newest.get(around)

    def _went_on(self, call: Call, record: records.Checkpoint, name: str, is_next: bool) -> bool:  # noqa: FBT001
        """Whether the superstep of a call ended with a checkpoint of its own writer, and no error ended the run."""
        if call.checkpoint is None:
            return False
        place = call.ns, call.checkpoint
        if place not in self._steps:
            return name > call.checkpoint  # a run that an error ends stores the call's own checkpoint, too
        # Under "exit" the next one that is stored may be that of another input.
        return is_next and self._is_step_behind(*place, record)

    def _is_step_behind(self, ns: str, name: str | None, record: records.Checkpoint) -> bool:
        step = None if name is None else self._steps.get((ns, name))
        return record.step == (step or 0) + 1
