"""ToolGuard: what stands between a model's request to run a tool and the tool."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand

from langgraph_jsonl_checkpoint.agents.flow import adrive, barrier, drive, finished, own_saver, saver_of
from langgraph_jsonl_checkpoint.agents.numbers import inside, is_inside
from langgraph_jsonl_checkpoint.agents.policy import ToolPolicy, checked
from langgraph_jsonl_checkpoint.agents.questions import decided, question
from langgraph_jsonl_checkpoint.agents.sends import Sends
from langgraph_jsonl_checkpoint.agents.turn import PAUSE, Turn, alone, in_order, shown
from langgraph_jsonl_checkpoint.folds.tool_calls import known_as
from langgraph_jsonl_checkpoint.tool_calls.rules import Visit
from langgraph_jsonl_checkpoint.upstream import namespaces, tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence

    from langchain_core.messages import ToolCall
    from langchain_core.tools import BaseTool
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

    from langgraph_jsonl_checkpoint.agents.flow import Step
    from langgraph_jsonl_checkpoint.agents.numbers import Place
    from langgraph_jsonl_checkpoint.saver import JsonlSaver
    from langgraph_jsonl_checkpoint.tool_calls.ledger import Ledger
    from langgraph_jsonl_checkpoint.tool_calls.rules import Judgement, OnUncertain

    Result = ToolMessage | Command[Any]


@dataclass
class Entry:
    """A call that has come to the guard."""

    place: Place
    ledger: Ledger
    visit: Visit
    visits: Sequence[Visit]
    turn: Turn
    answers: tasks.Answers
    sends: Sends
    saver: JsonlSaver
    configurable: Mapping[str, Any]
    started: bool = False


class ToolGuard:
    """Records the tool calls of a `ToolNode`, and runs none with side effects twice unseen.

    Args:
        saver: Where the calls are recorded; the running graph's own without it.
        policy: Which tools may run again; without it only those whose metadata say so.
        on_uncertain: What happens to a call that may have had its effect: "interrupt" asks a human, "report" tells
            the model that its outcome is unknown, "replay" runs it again.
        timeout: Seconds to wait for the checkpoint that a call comes from before the call starts.

    Example:
        >>> guard = ToolGuard(policy=ToolPolicy(read_only=["search"]))
        >>> ToolNode(
        ...     tools,
        ...     wrap_tool_call=guard.wrap_tool_call,
        ...     awrap_tool_call=guard.awrap_tool_call,
        ... )  # doctest: +SKIP
    """

    def __init__(
        self,
        saver: JsonlSaver | None = None,
        *,
        policy: ToolPolicy | None = None,
        on_uncertain: OnUncertain = "interrupt",
        timeout: float = 60.0,
    ) -> None:
        if on_uncertain not in ("interrupt", "report", "replay"):
            raise ValueError(f"on_uncertain is 'interrupt', 'report' or 'replay', not {on_uncertain!r}")
        self._saver = own_saver(saver)
        self._policy = checked(policy)
        self._on_uncertain = on_uncertain
        self._timeout = timeout
        self._turns: weakref.WeakKeyDictionary[Any, Turn] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        """Run a tool call, or give its recorded result.

        Raises:
            ToolLogError: The log cannot be written; a call whose start is missing was not started.
            ToolCallRunningError: A live writer runs the call.
        """
        entry = self._entry(request)
        if entry is None:
            return handler(request)
        with entry.turn.lock:
            drive(self._settle(entry))
        judged = drive(self._begin(entry))
        if not judged.runs:
            return _given(entry, judged)
        try:
            with inside(entry.place):
                result = handler(request)
        except BaseException as error:
            self._leave(entry, ended_by(error), error)
            if interrupts := drive(shown(entry.turn, entry.visit.key, entry.answers)):
                raise GraphInterrupt(interrupts) from error
            raise
        self._leave(entry, _ended_with(result), None, result)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """`wrap_tool_call` in an event loop."""
        entry = self._entry(request)
        if entry is None:
            return await handler(request)
        turn, key = entry.turn, entry.visit.key
        try:
            with turn.holding(key):
                return await self._run(entry, request, handler)
        except (GraphInterrupt, ParentCommand) as error:
            await adrive(alone(turn, entry.visits))
            if interrupts := await adrive(shown(turn, key, entry.answers)):
                raise GraphInterrupt(interrupts) from error
            raise

    async def _run(
        self, entry: Entry, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        async with entry.turn.waiting:
            await adrive(self._settle(entry))
        judged: Judgement | None = None
        try:
            judged = await adrive(self._begin(entry))
            if not judged.runs:
                return _given(entry, judged)
            with inside(entry.place):
                result = await handler(request)
        except BaseException as error:
            if judged is not None:
                await finished(partial(self._leave, entry, ended_by(error), error))
            elif entry.started:  # and cancelled before the tool's body was called
                await finished(partial(self._leave, entry, "withdrawn", None))
            raise
        await finished(partial(self._leave, entry, _ended_with(result), None, result))
        return result

    def _settle(self, entry: Entry) -> Generator[Step, Any, None]:
        """Ask what is to be asked about the task's calls, once for all of them."""
        turn, ledger = entry.turn, entry.ledger
        if turn.raised:
            raise GraphInterrupt(turn.raised)
        if entry.visit.key in turn.settled:
            return
        questions, spent, stale, turn.drew, calls = yield partial(ledger.questions, entry.visits)
        turn.keep(calls)
        if stale is not None and not turn.took_given and (questions or entry.answers.has_taken(stale)):
            # LangGraph gives the last answer to the run as a whole again at each run, until its checkpoint is over.
            # It says nothing about the calls, and what the task asks next is another thing.
            turn.took_given = entry.answers.given == stale and entry.answers.drop()
        # Answers are matched by their number: the tool's own interrupts must not get what was said to the guard.
        asks, pending = self._on_uncertain == "interrupt", questions
        while pending and asks or turn.used < spent and turn.has_answer(entry.answers):
            try:
                answer = turn.take(entry.answers, question(pending))
            except GraphInterrupt as asked:
                # Recorded before anybody can answer: an answer without an attempt counts only behind its question.
                if pending:
                    yield partial(ledger.ask, pending, turn.used)
                turn.raised = asked.args[0]
                raise
            if pending:
                turn.decisions = decided(answer, questions, turn.used - 1) | turn.decisions
            pending = [q for q in questions if q.visit.key[1] not in turn.decisions]
        turn.settled.update(visit.key for visit in entry.visits)

    def _begin(self, entry: Entry) -> Generator[Step, Any, Judgement]:
        """Wait for the checkpoint that the call comes from, then have `started` in the log."""
        ledger, visit = entry.ledger, entry.visit
        while visit.key in entry.turn.running:
            yield PAUSE  # a retried node meets the call that it left behind
        yield from barrier(entry.saver, ledger, visit, entry.configurable, self._timeout)
        try:
            judged: Judgement = yield partial(self._enter, entry)
            yield from in_order(entry.turn, entry.visits, visit.key, entry.answers)
        finally:
            entry.turn.begun.add(visit.key)
        return judged

    def _enter(self, entry: Entry) -> Judgement:
        turn, visit = entry.turn, entry.visit
        again = turn.wants_again(visit)
        judged = entry.ledger.enter(visit, turn.decisions, self._on_uncertain, turn.used, again=again)
        entry.started = judged.runs
        if judged.runs:
            turn.begin(visit.key)
        return judged

    def _leave(self, entry: Entry, status: str, error: BaseException | None, result: Any = None) -> None:
        turn, visit = entry.turn, entry.visit
        waits_for = None
        if isinstance(error, GraphInterrupt) and (waits_for := entry.answers.drawn(error)) is not None:
            turn.paused[visit.key] = waits_for, error.args[0]
        if isinstance(error, ParentCommand):
            result = error.args[0]
        try:
            drawn = turn.drawn(visit.key)
            sent = turn.sent[visit.key] = entry.sends.sent
            entry.ledger.leave(visit, status, error, result=result, sent=sent, waits_for=waits_for, **drawn)
        finally:
            turn.running.discard(visit.key)
        turn.ended[visit.key] = status, visit.given

    def _entry(self, request: ToolCallRequest) -> Entry | None:
        """Where a call stands; None if it runs on no thread, so that nothing can ever go on from it.

        None also inside of itself: a tool that hands its call on to another ToolNode, say.
        """
        config = request.runtime.config
        configurable = config.get("configurable", {})
        info = request.runtime.execution_info
        own = tasks.checkpointer(configurable)
        saver = self._saver or saver_of(own)
        if saver is None or info is None or info.thread_id is None:
            return None
        thread_id = str(info.thread_id)
        ledger = saver.ledger(thread_id)
        ns = namespaces.parent(info.checkpoint_ns)
        ledger.announce(ns)
        answers = tasks.answers(configurable)
        elsewhere = not saver.shares(own, thread_id)
        tools = {tool.name: tool for tool in request.runtime.tools}
        with self._lock:
            turn = self._turns.setdefault(answers.key, Turn())

        def visit(call: ToolCall, name: str, tool: BaseTool | None) -> Visit:
            return Visit(
                (info.task_id, name),
                call["id"] or "",
                call["name"],
                ledger.redaction.value(call["name"], call["args"]),
                call["args"],
                self._policy.effect(call["name"], call["args"], tool),
                self._policy.is_check(call["name"], call["args"]),
                ns,
                info.checkpoint_id,
                elsewhere=elsewhere,
            )

        siblings = _siblings(request)
        at = next((i for i, call in enumerate(siblings) if _is_same(call, request.tool_call)), None)
        if at is None:
            siblings, at = [request.tool_call], 0
        names = known_as(siblings)
        mine = visit(request.tool_call, names[at], request.tool)
        visits = [mine]
        if not tasks.is_send(config):
            visits = turn.gathered(
                siblings, at, mine, lambda i: visit(siblings[i], names[i], tools.get(siblings[i]["name"]))
            )
        with self._lock:
            turn.count(answers, [each.key for each in visits])
        place = thread_id, mine.key
        if is_inside(place):
            return None
        sends = tasks.send_through(configurable, partial(Sends, place))
        return Entry(place, ledger, mine, visits, turn, answers, sends, saver, configurable)


def _given(entry: Entry, judged: Judgement) -> Result:
    """What is given for a call that does not run; of one that ended, what it had sent goes with it."""
    entry.sends.repeat(entry.turn.sent.get(entry.visit.key, judged.sent) if judged.is_recorded else ())
    return judged.result  # type: ignore[no-any-return]


def _siblings(request: ToolCallRequest) -> list[ToolCall]:
    """All calls of the task: those of the AIMessage that holds this one, wherever the state has it."""
    state = request.state
    if isinstance(state, (list, tuple)):
        lists: list[Any] = [state]
    else:
        lists = list((state if isinstance(state, Mapping) else getattr(state, "__dict__", {})).values())
    for messages in lists:
        for message in reversed(messages) if isinstance(messages, (list, tuple)) else ():
            if isinstance(message, AIMessage):
                if any(call["id"] == request.tool_call["id"] for call in message.tool_calls):
                    return list(message.tool_calls)
                break
    calls = state if isinstance(state, (list, tuple)) else ()
    return [cast("ToolCall", c) for c in calls if isinstance(c, dict) and c.keys() >= {"id", "name", "args"}]


def _is_same(call: ToolCall, mine: ToolCall) -> bool:
    """Whether this is the call; one that somebody changed on its way keeps its id."""
    return call is mine or call["id"] == mine["id"] and call["args"] == mine["args"]


def ended_by(error: BaseException) -> str:
    """How a call ended that raised."""
    if isinstance(error, ParentCommand):
        return "completed"  # a graph in the tool ended, and tells the one around this what comes next
    if isinstance(error, GraphBubbleUp):
        return "paused"
    return "failed" if isinstance(error, Exception) else "cancelled"


def _ended_with(result: Any) -> str:
    return "failed" if isinstance(result, ToolMessage) and result.status == "error" else "completed"
