"""Asking a human about tool calls that may have had their effect, and what they answer."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from langgraph.types import Command

from langgraph_jsonl_checkpoint.tool_calls.decisions import checked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.pregel import Pregel
    from langgraph.types import StateSnapshot

    from langgraph_jsonl_checkpoint.tool_calls.rules import Question

UNCERTAIN = "tool_uncertain"

logger = logging.getLogger(__name__)


def question(questions: Sequence[Question]) -> dict[str, Any]:
    """The value of the interrupt that asks about all uncertain calls of a task."""
    return {
        "type": UNCERTAIN,
        "calls": [
            {
                "tool_call_id": q.visit.key[1],
                "name": q.visit.name,
                "args": q.args,
                "attempt": q.attempt,
                "started_at": q.started_at,
                "description": q.description,
            }
            for q in questions
        ],
    }


def decided(answer: Any, questions: Sequence[Question], number: int) -> dict[str, tuple[str, str]]:
    """What an answer says: (kind, message) by tool_call_id. What it cannot be understood to say is asked again.

    Args:
        answer: As it came with `Command(resume=…)`.
        questions: What is asked about the task's calls.
        number: Which answer of its task it is.
    """
    single = _single(questions, number)
    named = {} if single is None else {single.visit.key[1]: answer}
    decisions = answer.get("decisions", named) if isinstance(answer, dict) else {}
    found: dict[str, tuple[str, str]] = {}
    for q in questions if isinstance(decisions, dict) else ():
        decision = decisions.get(q.visit.key[1])
        if isinstance(decision, dict) and _is_about(decision.get("attempt"), q, number):
            with contextlib.suppress(ValueError):
                found[q.visit.key[1]] = checked(decision)
    behind = [q for q in questions if q.asked_from is not None and q.asked_from <= number]
    unread = [q for q in behind if q.visit.key[1] not in found and (not found or q.visit.key[1] in decisions)]
    if unread:
        logger.warning(
            "an answer (of type %s) about the tool calls %s does not say what is to be done, so it is asked again. "
            'Give {"decisions": {tool_call_id: {"type": "approve" | "respond" | "reject", "message": str}}}, or the '
            'bare decision about a single call. "respond" needs a message; an "attempt" is the one that is asked '
            "about.",
            type(answer).__name__,
            ", ".join(f"{q.visit.key[1]!r} (attempt {q.attempt})" for q in unread),
        )
    return found


def _single(questions: Sequence[Question], number: int) -> Question | None:
    """The one call that an answer is about if it names none: the last question before it was about that alone."""
    asked = [q for q in questions if q.asked_from is not None and q.asked_from <= number]
    last = max((q.asked_from for q in asked if q.asked_from is not None), default=None)
    asked = [q for q in asked if q.asked_from == last] or list(questions)
    return asked[0] if len(asked) == 1 else None


def _is_about(attempt: Any, q: Question, number: int) -> bool:
    """Whether an answer is about this attempt: LangGraph gives a task's old answers again until it is over."""
    if attempt is not None:
        return bool(attempt == q.attempt)
    return q.asked_from is not None and number >= q.asked_from


def decide(graph: Pregel[Any, Any, Any, Any], config: RunnableConfig, decisions: Mapping[str, Any]) -> Command[Any]:
    """The `Command` that answers a thread's pending questions about uncertain calls, one interrupt or several.

    Args:
        graph: The graph whose run asks.
        config: Its thread.
        decisions: By tool_call_id, `{"type": "approve" | "respond" | "reject", "message": str}`. A question that is
            not answered is asked again.

    Raises:
        ValueError: A decision is none, or nothing is asked about its call.

    Example:
        >>> graph.invoke(decide(graph, config, {"call-7": {"type": "reject"}}), config)  # doctest: +SKIP
    """
    return _answer(graph.get_state(config), decisions)


async def adecide(
    graph: Pregel[Any, Any, Any, Any], config: RunnableConfig, decisions: Mapping[str, Any]
) -> Command[Any]:
    """`decide` without holding up the event loop."""
    return _answer(await graph.aget_state(config), decisions)


def _answer(state: StateSnapshot, decisions: Mapping[str, Any]) -> Command[Any]:
    asked: dict[str, list[tuple[str, int]]] = {}
    for pending in state.interrupts:
        if isinstance(pending.value, dict) and pending.value.get("type") == UNCERTAIN:
            for call in pending.value["calls"]:
                asked.setdefault(call["tool_call_id"], []).append((pending.id, call["attempt"]))
    answers: dict[str, Any] = {}
    for tool_call_id, decision in decisions.items():
        kind, message = checked(decision)
        if tool_call_id not in asked:
            raise ValueError(
                f"nothing is asked about tool call {tool_call_id!r}; asked is about "
                f"{', '.join(map(repr, asked)) or 'none'}. Run the thread with None as its input to see what is "
                "asked."
            )
        (interrupt_id, attempt), *others = asked[tool_call_id]
        if others:
            raise ValueError(
                f"{len(others) + 1} tasks ask about a tool call {tool_call_id!r}; answer each by its interrupt's id, "
                'Command(resume={id: {"decisions": {…}}}), or decide with saver.resolve(…, task_id=…)'
            )
        answer = answers.setdefault(interrupt_id, {"decisions": {}})
        answer["decisions"][tool_call_id] = {"type": kind, "message": message, "attempt": attempt}
    if not answers:
        raise ValueError("no decision is given")
    return Command(resume=answers)
