"""The events of a session, for its memory: messages that came, steps of tool calls, todos, answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, convert_to_messages

from langgraph_jsonl_checkpoint.folds.memory import AnswerEvent, Event, MessageEvent, TodosEvent, ToolEvent
from langgraph_jsonl_checkpoint.folds.resume import with_values
from langgraph_jsonl_checkpoint.folds.tool_calls import ToolCalls
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.upstream import channels

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec

    from langgraph_jsonl_checkpoint.values import ranges
    from langgraph_jsonl_checkpoint.values.thaw import Thawer

MESSAGES = "messages"
TODOS = "todos"


class Story:
    """The fold: records in, events out. Each record costs what is new in it."""

    def __init__(self) -> None:
        self._calls = ToolCalls()
        self._known: set[int] = set()  # numbers of messages that came
        self._ids: set[str] = set()
        self._ranges: list[ranges.Range] = []  # of the messages of the last checkpoint
        self._todos: Any = None
        self._answers: set[tuple[str, str]] = set()
        self._pending: dict[str, list[tuple[int, msgspec.Raw]]] = {}  # writes to a DeltaChannel, by checkpoint

    def events(self, record: records.Record | None, seq: int, ts: str, thaw: Thawer) -> Iterator[Event]:
        """What the next record of the log tells."""
        if isinstance(record, records.Tool):
            self._calls.apply(record, seq, ts)
            call = self._calls.get((record.task, record.call))
            if call is not None:
                yield ToolEvent(seq, with_values(call, thaw, _is_alive))
        elif isinstance(record, records.Checkpoint) and record.ns == "":
            yield from self._checkpoint(record, seq, thaw)
        elif isinstance(record, records.Writes) and record.ns == "":
            yield from self._writes(record, seq, thaw)

    def _checkpoint(self, record: records.Checkpoint, seq: int, thaw: Thawer) -> Iterator[Event]:
        held = thaw.members(record.channels)
        if MESSAGES in held:
            self._pending.clear()
            yield from self._listed(held[MESSAGES], seq, thaw)
        elif record.parent is not None:
            # A DeltaChannel: its messages are in the writes of the checkpoint before.
            for at, text in self._pending.pop(record.parent, ()):
                yield from self._written(thaw.value(text), at)
        if TODOS in held and held[TODOS] != self._todos:
            self._todos = held[TODOS]
            yield TodosEvent(seq, thaw.built(self._todos))

    def _listed(self, tree: Any, seq: int, thaw: Thawer) -> Iterator[Event]:
        held = tree.get("$list") if isinstance(tree, dict) else None
        if held is None:
            # A snapshot of a DeltaChannel, or a list that is too short to be numbered.
            yield from self._written(channels.delta_value(thaw.built(tree)), seq)
            return
        # Append-only lists begin as the last one did: only what differs is looked at.
        before = self._ranges
        both = min(len(before), len(held))
        same = next((i for i in range(both) if before[i] != held[i]), both)
        for each in held[same:]:
            for number in self._numbers(each, before[same] if same < len(before) else None, thaw):
                if number not in self._known:
                    self._known.add(number)
                    yield from self._message(thaw.number(number), seq)
        self._ranges = held

    def _numbers(self, new: ranges.Range, old: ranges.Range | None, thaw: Thawer) -> Iterator[int]:
        for first, last in thaw.flat([new]):
            begin = first
            if isinstance(old, list) and old[0] == first and old[1] <= last:
                begin = old[1] + 1  # the last range has grown
            yield from range(begin, last + 1)

    def _written(self, value: Any, seq: int) -> Iterator[Event]:
        items = value if isinstance(value, list) else [value]
        try:
            found = convert_to_messages(items)
        except (ValueError, NotImplementedError, TypeError):
            return  # an Overwrite, a RemoveMessage of all, or something of the user's
        for message in found:
            yield from self._message(message, seq)

    def _message(self, message: Any, seq: int) -> Iterator[Event]:
        if not isinstance(message, BaseMessage) or message.id is not None and message.id in self._ids:
            return
        if message.id is not None:
            self._ids.add(message.id)
        yield MessageEvent(seq, message)

    def _writes(self, record: records.Writes, seq: int, thaw: Thawer) -> Iterator[Event]:
        for index, channel, text in record.writes:
            if channel == MESSAGES:
                self._pending.setdefault(record.checkpoint, []).append((seq, text))
            elif index == channels.RESUME_INDEX:
                answer = thaw.value(text)
                answer = answer[-1] if isinstance(answer, list) and answer else answer
                # The same answer is stored for the run, and then with those before it for its task.
                key = record.checkpoint, repr(answer)
                if key not in self._answers:
                    self._answers.add(key)
                    yield AnswerEvent(seq, answer)


def _is_alive(_: object) -> bool:
    # A writer's death is no event: the memory is told from outside which calls lost theirs.
    return True
