"""What a model is told of the tool calls among its messages that have no result: as much as the log knows.

Providers refuse a request with such a call. It is there when somebody writes after a crash instead of resuming.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.graph.message import add_messages
from langgraph.types import Command

from langgraph_jsonl_checkpoint.folds.story import MESSAGES
from langgraph_jsonl_checkpoint.folds.tool_calls import RUNS_AGAIN, known_as
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.tool_calls.answers import Verdict, answer, outcome_unknown, without_result
from langgraph_jsonl_checkpoint.upstream import channels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from langgraph_jsonl_checkpoint.folds.tool_calls import Call, ToolCalls
    from langgraph_jsonl_checkpoint.sessions.reader import Reader
    from langgraph_jsonl_checkpoint.sessions.session import Session
    from langgraph_jsonl_checkpoint.tool_calls.ledger import Ledger

    Asked = tuple[str | None, str]
    """A call among messages: the id of its message, and what it is known as."""


class OpenCall(NamedTuple):
    """A call that its messages hold no result of.

    Attributes:
        message: The message that asks for it.
        call: The call.
        name: What it is known as in the log.
    """

    message: AIMessage
    call: Any
    name: str


class OpenCalls:
    """The open calls of a thread.

    Args:
        session: Its session, locked and read.
        reader: Reads its values.
        ledger: Knows whose calls still run.
    """

    def __init__(self, session: Session, reader: Reader, ledger: Ledger) -> None:
        self._session = session
        self._reader = reader
        self._ledger = ledger

    def answers(self, ns: str, open_calls: Sequence[OpenCall]) -> dict[Asked, ToolMessage]:
        """What a model is told of calls that its messages hold no result of.

        A call that waits for a human is left out.
        """
        places = Left(self._reader, ns)
        stored: dict[str, ToolMessage] | None = None
        found: dict[Asked, ToolMessage] = {}
        for message, call, name in open_calls:
            recorded = self._recorded(message, call, name)
            if recorded is not None:
                with self._reading(recorded):
                    answer = self._answer(recorded, call)
            else:
                if stored is None:
                    left = places.lineage[:1] + places.behind
                    stored = {m.tool_call_id: m for m in reversed(stored_results(self._reader, ns, left))}
                answer = stored.get(call["id"]) or self._unrecorded_answer(ns, places, message, call)
            if answer is not None:
                found[message.id, name] = answer
        return found

    def _recorded(self, message: AIMessage, call: Any, name: str) -> Call | None:
        """The record of an open call: the last with its id and arguments, or one that is open, too.

        Ids are given twice; arguments may be changed on the way to the tool.
        """
        tools = self._session.tools
        same = [c for c in known(tools, call, name) if c.name == call["name"]]
        same = [c for c in same if not is_of_another(self._reader, c, message)]
        args = self._ledger.redaction.value(call["name"], call["args"])
        equal = [c for c in same if self._args(c) == args]
        is_open = {c.key for c in (*tools.unsettled(), *tools.undelivered(), *tools.decided())}
        found = equal or [c for c in same if c.key in is_open or c.end == "paused"]
        return found[-1] if found else None

    def _args(self, recorded: Call) -> Any:
        with self._reading(recorded):
            return self._reader.thaw.value(recorded.args)

    def _reading(self, recorded: Call) -> AbstractContextManager[None]:
        return self._reader.reading(recorded.seqs[-1], f"tool call {recorded.key[1]!r}")

    def _answer(self, recorded: Call, call: Any) -> ToolMessage | None:
        thaw = self._reader.thaw
        if recorded.has_result:
            result = thaw.value(recorded.result)
            if recorded.redacted:
                return without_result(recorded, call["name"], call["id"], _message_of(result, call["id"]))
            return _message_of(result, call["id"]) or _message(call, f"{call['name']} ended.", "success")
        verdict = recorded.verdict
        if verdict is not None and verdict.kind not in RUNS_AGAIN:
            decided = Verdict(verdict.kind, str(thaw.value(verdict.message)), verdict.by)
            return answer(decided, recorded.name, call["id"], recorded, thaw)
        status = recorded.status(self._ledger.is_alive)
        if status == "waiting":
            return None
        if status == "pending" and (not recorded.attempt or recorded.end == "withdrawn"):
            return _message(call, f"{call['name']} was never started.")
        if status in ("failed", "cancelled") and recorded.replay_safe and recorded.error is not records.NO_TEXT:
            return _message(call, f"{call['name']} failed: {thaw.value(recorded.error)}")
        if recorded.replay_safe:
            return _message(call, f"{call['name']} did not end. It may run again without harm.")
        return _message(call, outcome_unknown(recorded, recorded.name, thaw))

    def _unrecorded_answer(self, ns: str, places: Left, message: AIMessage, call: Any) -> ToolMessage | None:
        session = self._session
        fold, runs = session.checkpoints, session.runs
        at = places.at(message)
        if any(w.channel == channels.INTERRUPT for name in at for w in fold.writes(ns, name)):
            return None
        if all(runs.is_hooked(runs.writer_of(fold.seq(ns, name)), ns) for name in at if name in places.behind):
            return _message(call, f"{call['name']} was never started.")
        return _message(call, f"Outcome unknown: whether {call['name']} ran is not recorded.")


class Left:
    """Where the calls of messages were left that have no result: at which checkpoint of their namespace.

    Args:
        reader: Reads the messages, those of each checkpoint once.
        ns: The namespace.
    """

    def __init__(self, reader: Reader, ns: str) -> None:
        fold, newest = reader.fold, reader.fold.get(ns, None)
        self._reader = reader
        self._ns = ns
        self._ids: dict[str, set[str | None]] = {}
        self.lineage = [] if newest is None else [newest.id, *(n for n, _ in fold.ancestors(ns, None))]
        self.behind = []  # those whose tasks a new input left, the last one first
        for after, before in itertools.pairwise(self.lineage):
            newer, left = fold.get(ns, after), fold.get(ns, before)
            if newer is not None and newer.source == "input" and left is not None and left.next:
                self.behind.append(before)

    def at(self, message: AIMessage) -> list[str]:
        """The first checkpoint that was left, or the newest, that holds a message; all of them if none does."""
        places = [*reversed(self.behind), *self.lineage[:1]]
        for name in places if message.id is not None else ():
            if name not in self._ids:
                self._ids[name] = {held.id for held in messages_of(self._reader, self._ns, name)}
            if message.id in self._ids[name]:
                return [name]
        return places


def open_calls(messages: Sequence[BaseMessage]) -> list[OpenCall]:
    """The tool calls of AIMessages that no ToolMessage behind them answers."""
    found: list[OpenCall] = []
    answered: set[str] = set()
    # From the end: an id that is given twice is answered behind the AIMessage that it stands in.
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            calls = zip(message.tool_calls, known_as(message.tool_calls), strict=True)
            found[:0] = [
                OpenCall(message, {**call, "id": call["id"] or ""}, name)
                for call, name in calls
                if call["id"] not in answered
            ]
            answered = set()
    return found


def known(tools: ToolCalls, call: Any, name: str) -> list[Call]:
    """The calls that are known as this one, or that have its id: a task that has one call alone numbers none."""
    return tools.with_id(name) or tools.with_id(call["id"] or call["name"])


def is_of_another(reader: Reader, recorded: Call, message: AIMessage) -> bool:
    """Whether a recorded call with the id of a call of this message is of another message, as ids are given twice.

    It is of the last one that asks for it among the messages that it comes from.
    """
    if recorded.checkpoint is None or message.id is None:
        return False
    asking = [
        held.id
        for held in messages_of(reader, recorded.ns, recorded.checkpoint)
        if isinstance(held, AIMessage) and recorded.key[1] in known_as(held.tool_calls)
    ]
    return bool(asking) and message.id != asking[-1]


def messages_of(reader: Reader, ns: str, checkpoint_id: str | None = None) -> list[BaseMessage]:
    """The messages of a checkpoint, or of a namespace's newest."""
    record = reader.fold.get(ns, checkpoint_id)
    if record is None:
        return []
    name = record.id
    with reader.reading(reader.fold.seq(ns, name), f"checkpoint {name!r}"):
        held = reader.thaw.members(record.channels)
        value = channels.delta_value(reader.thaw.built(held[MESSAGES])) if MESSAGES in held else None
    if MESSAGES not in held:
        # A DeltaChannel's value is rebuilt from the writes of the ancestors.
        history = reader.delta_history(ns, checkpoint_id, [MESSAGES])[MESSAGES]
        value = channels.delta_value(history.get("seed")) or []
        for _, _, written in history["writes"]:
            value = _added(value, written)
    return [m for m in value if isinstance(m, BaseMessage)] if isinstance(value, list) else []


def _added(value: Any, written: Any) -> Any:
    try:
        return add_messages(value, written)
    except (ValueError, NotImplementedError, TypeError):
        return value  # not messages


def stored_results(reader: Reader, ns: str, checkpoint_ids: Iterable[str]) -> list[ToolMessage]:
    """ToolMessages that tasks wrote; LangGraph drops them if their siblings never end."""
    found: list[ToolMessage] = []
    for name in checkpoint_ids:
        for write in reader.fold.writes(ns, name):
            if write.channel == MESSAGES:
                with reader.reading(reader.fold.seq(ns, name), f"checkpoint {name!r}"):
                    value = reader.thaw.value(write.text)
                found += [m for m in (value if isinstance(value, list) else [value]) if isinstance(m, ToolMessage)]
    return found


def _message(call: Any, text: str, status: Any = "error") -> ToolMessage:
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status=status)


def _message_of(result: Any, tool_call_id: str) -> ToolMessage | None:
    """The ToolMessage in a tool's result, which may be a Command."""
    if isinstance(result, Command):
        result = result.update.get(MESSAGES) if isinstance(result.update, dict) else result.update
    for each in result if isinstance(result, list) else [result]:
        if isinstance(each, Command) and (inner := _message_of(each, tool_call_id)) is not None:
            return inner
        if isinstance(each, ToolMessage) and each.tool_call_id == tool_call_id:
            return each
    return None
