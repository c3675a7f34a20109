"""ResumeState: what a restored thread comes to, over all its namespaces."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langgraph_jsonl_checkpoint.folds.tool_calls import is_replay_safe, known_as
from langgraph_jsonl_checkpoint.log import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from langgraph_jsonl_checkpoint.folds.memory import SessionMemory
    from langgraph_jsonl_checkpoint.folds.tool_calls import Call, Effect, Status
    from langgraph_jsonl_checkpoint.values.thaw import Thawer


@dataclass(frozen=True)
class ToolCall:
    """A tool call.

    Attributes:
        tool_call_id: Its id, as the model gave it.
        name: The tool.
        args: Its arguments.
        status: "pending": it never ran, or will run again. "running": a live writer runs it. "waiting": for a
            human. "completed", "failed". "cancelled": it was stopped while it ran, by a writer that lives.
            "uncertain": it may have had its effect. "resolved": somebody decided what its result is.
        effect: What running it again would do: "read_only", "idempotent" or "side_effects".
        attempt: How often it was started; 0 also if no hook recorded it.
        task_id: Its task; empty if no hook recorded it.
        checkpoint_id: The checkpoint that leads to its task.
        ns: That checkpoint's namespace.
        started_at: When it was started last, in UTC.
        ended: How its last attempt ended: "", "completed", "failed", "cancelled", "withdrawn" or "paused".
        told: Whether whatever stands around the call saw that end, and the run went on.
        result: What it returned, mostly a ToolMessage.
        error: What it raised, as text.
        decision: The last decision about it: "type", "message" and "attempt".
        check: Whether its result says if the work is right.
        seqs: The records that say so.
    """

    tool_call_id: str
    name: str
    args: Any
    status: Status
    effect: Effect = "side_effects"
    attempt: int = 0
    task_id: str = ""
    checkpoint_id: str | None = None
    ns: str = ""
    started_at: str | None = None
    ended: str = ""
    told: bool = False
    result: Any = None
    error: str | None = None
    decision: Mapping[str, Any] | None = None
    check: bool = False
    seqs: tuple[int, ...] = ()

    @property
    def is_uncertain(self) -> bool:
        """Whether it may have had its effect and nobody decided upon it, so that it does not run again unasked."""
        stopped = self.status == "cancelled" and not self.told and not is_replay_safe(self.effect)
        return self.status == "uncertain" or stopped

    @property
    def result_text(self) -> str:
        """The result as text; empty if there is none."""
        if isinstance(self.result, BaseMessage):
            return self.result.text
        return "" if self.result is None else str(self.result)


@dataclass(frozen=True)
class LastCheckpoint:
    """The newest checkpoint of the root namespace."""

    id: str
    step: int | None
    source: str | None
    created: str | None


@dataclass(frozen=True)
class ResumeState:
    """What a thread is about to go on from.

    Attributes:
        thread_id: The thread.
        header: Its log's header: format, version, workspace, generation, delegation_depth, parent, forked_from.
        checkpoint: Its last checkpoint; None if none is stored.
        next: The nodes that this leads to.
        messages: The root namespace's messages.
        tool_calls: Every tool call, of every namespace, the ones without an AIMessage included.
        uncertain: Those that may have had their effect and that nobody decided upon.
        inputs: The ids of the inputs that were applied.
        memory: The session's memory.
        ended: How the last run ended; None if it did not.
        error: What it failed with.
        crashed: Whether its writer died in it.
        recovered: Torn ends of the log that were moved aside: offset, bytes, file.
    """

    thread_id: str
    header: Mapping[str, Any]
    checkpoint: LastCheckpoint | None
    next: tuple[str, ...]
    messages: tuple[BaseMessage, ...]
    tool_calls: tuple[ToolCall, ...]
    uncertain: tuple[ToolCall, ...]
    inputs: frozenset[str]
    memory: SessionMemory
    ended: str | None
    error: str | None
    crashed: bool
    recovered: tuple[Mapping[str, Any], ...]

    def __str__(self) -> str:
        return "\n".join(f"{name:<12} {text}" for name, text in self._rows())

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in self._rows()
        )
        return f"<table>{rows}</table>"

    def _rows(self) -> list[tuple[str, str]]:
        last = self.checkpoint
        how = "crashed: its writer died in it" if self.crashed else self.ended or "not over"
        rows = [
            ("thread", self.thread_id),
            ("last run", how + (f" ({self.error})" if self.error else "")),
            ("checkpoint", f"step {last.step}, {last.source}, {last.created}" if last else "none"),
            ("next", ", ".join(self.next) or "nothing"),
            ("messages", f"{len(self.messages)}" + (f", last: {_shown(self.messages[-1])}" if self.messages else "")),
        ]
        rows += [("tool call", f"{call.status:<10} {_line(call)}") for call in self.tool_calls]
        rows += [("inputs", ", ".join(sorted(self.inputs)))] if self.inputs else []
        rows += [
            ("recovered", f"{r['bytes']} torn bytes at {r['offset']}, kept in {r['file']}") for r in self.recovered
        ]
        return rows


def _shown(message: BaseMessage) -> str:
    calls = ", ".join(c["name"] for c in message.tool_calls) if isinstance(message, AIMessage) else ""
    text = " ".join(message.text.split())
    return f"{message.type} {text[:80]!r}" + (f" calls {calls}" if calls else "")


def _line(call: ToolCall) -> str:
    args = ", ".join(f"{k}={v!r}" for k, v in call.args.items()) if isinstance(call.args, dict) else ""
    where = f" in {call.ns}" if call.ns else ""
    attempt = f", attempt {call.attempt} at {call.started_at}" if call.attempt else ""
    said = str(call.error or call.result_text)
    return f"{call.name}({args}) [{call.tool_call_id}]{where}{attempt}" + (f": {said[:120]}" if said else "")


def with_values(call: Call, thaw: Thawer, is_alive: Callable[[Call], bool]) -> ToolCall:
    """A call of the fold, with the values that its texts stand for."""

    def value(text: Any) -> Any:
        return None if text is records.NO_TEXT else thaw.value(text)

    decision = call.decision
    return ToolCall(
        tool_call_id=call.key[1],
        name=call.name,
        args=value(call.args),
        status=call.status(is_alive),
        effect=call.effect,  # type: ignore[arg-type]
        attempt=call.attempt,
        task_id=call.key[0],
        checkpoint_id=call.checkpoint,
        ns=call.ns,
        started_at=call.started_at,
        ended=call.end,
        told=call.is_told,
        result=value(call.result),
        error=value(call.error),
        decision=decision
        and {"type": decision.kind, "message": value(decision.message), "attempt": decision.attempt},
        check=call.check,
        seqs=tuple(call.seqs),
    )


def unrecorded(
    messages: Iterable[BaseMessage],
    results: Mapping[str, ToolMessage],
    is_recorded: Callable[[AIMessage, Any, str, bool], bool],
    *,
    ns: str,
    checkpoint_id: str,
    open_status: Callable[[AIMessage], Status],
) -> list[ToolCall]:
    """The calls in a namespace's messages that no hook recorded.

    Args:
        messages: The messages.
        results: Results that are stored and not yet among them, by tool_call_id.
        is_recorded: Whether a hook recorded this call of this message, known as this, which has a result or not.
        ns: The namespace.
        checkpoint_id: Its newest checkpoint.
        open_status: The status of a call of a message that has no result.
    """
    found: list[ToolCall] = []
    for message, call, name, answer in with_results(list(messages), results):
        if is_recorded(message, call, name, answer is not None):
            continue
        status = open_status(message) if answer is None else "failed" if answer.status == "error" else "completed"
        found.append(
            ToolCall(
                name,
                call.get("name") or "",
                call.get("args"),
                status,
                checkpoint_id=checkpoint_id,
                ns=ns,
                result=answer,
            )
        )
    return found


def with_results(
    messages: list[BaseMessage], results: Mapping[str, ToolMessage]
) -> list[tuple[AIMessage, Any, str, ToolMessage | None]]:
    """Each call of the messages, what it is known as, and its result: the first behind it that no later one has."""
    found: list[tuple[AIMessage, Any, str, ToolMessage | None]] = []
    answers = dict(results)
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answers[message.tool_call_id] = message
        elif isinstance(message, AIMessage):
            calls = message.tool_calls
            ids = [call.get("id") or "" for call in calls]
            found[:0] = [
                (message, call, name, answers.get(given))
                for call, given, name in zip(calls, ids, known_as(calls), strict=True)
            ]
            for given in ids:
                answers.pop(given, None)
    return found
