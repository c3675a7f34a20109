"""Tool calls: what the `tool` records of a log come to.

    requested ──► started ──► completed     its result is recorded: never run again for this task
        │            ├──────► failed        with an error message for the model, or with the exception that it raised
        │            ├──────► cancelled     stopped from outside while it ran
        │            ├──────► withdrawn     stopped before its tool was called: it is pending again
        │            ├──────► paused        it waits for a human, and runs from its begin when it has the answer
        │            └─ its writer is dead ► uncertain
        └─ never started ► pending

A call is known by its task and its tool_call_id: a resume is the same task, a fork or a time travel is another one,
and providers give an id twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from langgraph_jsonl_checkpoint.folds.taken import Untaken
from langgraph_jsonl_checkpoint.log import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import msgspec

Key = tuple[str, str]
"""A call: its task and its tool_call_id."""

Effect = Literal["read_only", "idempotent", "side_effects"]
End = Literal["", "completed", "failed", "cancelled", "withdrawn", "paused"]
Status = Literal["pending", "running", "waiting", "completed", "failed", "cancelled", "uncertain", "resolved"]

_STOPS = frozenset({"failed", "paused"})
_REPLAY_SAFE = frozenset({"read_only", "idempotent"})

RUNS_AGAIN = frozenset({"approve", "replay"})
"""The decisions after which an uncertain call is run again; the others give it a result."""


def is_replay_safe(effect: str) -> bool:
    """Whether running a call again does no harm; what a later version calls otherwise is not taken for harmless."""
    return effect in _REPLAY_SAFE


def known_as(calls: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the calls of one AIMessage are known as: ids, or else tools; numbered where an id is given again."""
    found: list[str] = []
    counts: dict[str | None, int] = {}
    for call in calls:
        given = call.get("id")
        number = counts[given] = counts.get(given, 0) + 1
        name = given or call.get("name") or ""
        found.append(f"{name}#{number}" if number > 1 else name)
    return found


class Decision(NamedTuple):
    """What was decided about an uncertain attempt.

    Attributes:
        kind: "approve", "respond" or "reject", from a human; "report" or "replay", from `on_uncertain`.
        attempt: The attempt that it is about.
        message: What came with it.
        by: "answer" to the interrupt, "resolve" from outside, "update" of the state with its result, or "policy".
    """

    kind: str
    attempt: int
    message: msgspec.Raw
    by: str


def _no_text() -> msgspec.Raw:
    return records.NO_TEXT


@dataclass(slots=True)
class Call:
    """One call, as far as the log tells.

    Attributes:
        key: Task and tool_call_id.
        ns: Namespace of the checkpoint that leads to its task.
        checkpoint: Id of that checkpoint.
        name: The tool.
        args: Its arguments.
        effect: What running it again would do.
        check: Whether its result says if the work is right.
        elsewhere: Whether its checkpoints are not in this log, so that it does not tell who has seen the result.
        attempt: How often it was started.
        writer: Who started it last.
        started_at: When, in UTC.
        end: The status of its last attempt's end; empty while there is none.
        result: What it returned.
        error: What it raised.
        decision: The last one about it.
        asked: (attempt, answers of the task that were used) of the last question to a human about it.
        is_one_of_several: Whether another call of its superstep raised, too, or waited for a human: whoever saw the
            run stop saw only one of them.
        is_told: Whether its last attempt ended, and whatever stands around it saw how: its superstep went on.
        decided_at: The seq of the last decision.
        asked_at: The seq of the last question, or start.
        drew: The numbers of the task's answers that its own interrupts waited for.
        subgraphs: The numbers that LangGraph gave to the subgraphs that it ran.
        tasks: Those of its `@task` calls.
        sent: What it wrote to the state beside its result: a list of [channel, value].
        orphan: The call with the same tool and arguments, but of a lost AIMessage, that was decided upon with this
            one.
        heir: The call that was decided upon with this one, if its own AIMessage was lost.
        seqs: The seqs of its records.
    """

    key: Key
    ns: str = ""
    checkpoint: str | None = None
    name: str = ""
    args: msgspec.Raw = field(default_factory=_no_text)
    effect: str = "side_effects"
    check: bool = False
    elsewhere: bool = False
    attempt: int = 0
    writer: str = ""
    started_at: str | None = None
    end: End = ""
    result: msgspec.Raw = field(default_factory=_no_text)
    error: msgspec.Raw = field(default_factory=_no_text)
    redacted: bool = False
    decision: Decision | None = None
    asked: tuple[int, int] | None = None
    drew: set[int] = field(default_factory=set)
    is_one_of_several: bool = False
    is_told: bool = False
    decided_at: int = -1
    asked_at: int = -1
    subgraphs: list[int] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    sent: msgspec.Raw = field(default_factory=_no_text)
    orphan: Key | None = None
    heir: Key | None = None
    seqs: list[int] = field(default_factory=list)

    @property
    def replay_safe(self) -> bool:
        """Whether running it again does no harm."""
        return is_replay_safe(self.effect)

    @property
    def verdict(self) -> Decision | None:
        """The decision about its last attempt, if there is one."""
        return self.decision if self.decision is not None and self.decision.attempt == self.attempt else None

    @property
    def is_unknown(self) -> bool:
        """Whether it was asked about though no record says that it was started: nobody recorded the run before."""
        return not self.attempt and self.asked is not None and self.orphan is None

    @property
    def is_asked_about(self) -> bool:
        """Whether a human was asked about its last attempt, and nobody has decided."""
        is_last = self.asked is not None and self.asked[0] == self.attempt
        return is_last and self.verdict is None and self.heir is None and not self.is_over

    @property
    def has_result(self) -> bool:
        """Whether what the model is to be told is recorded, so that it need not run."""
        return self.end in ("completed", "failed") and self.result is not records.NO_TEXT

    @property
    def is_over(self) -> bool:
        """Whether it does not run again for its task, unless somebody wants it to."""
        return self.end == "completed" or self.has_result

    @property
    def is_seen(self) -> bool:
        """Whether somebody saw how it ended: when a run stops, one error of a superstep hides the others."""
        return self.is_told or self.end == "failed" and not self.is_one_of_several

    def status(self, is_alive: Callable[[Call], bool]) -> Status:
        """Where it stands; `is_alive` tells whether whoever started the last attempt lives, and still runs it."""
        status = self.own_status(is_alive)
        if status == "failed" and not (self.is_seen or self.is_over or self.replay_safe):
            status = "uncertain"  # for a run that goes on; within its own execution it may be tried again
        return "resolved" if status == "uncertain" and self.heir is not None else status

    def own_status(self, is_alive: Callable[[Call], bool]) -> Status:
        """`status` as its own task sees it, whatever was decided about another call like it."""
        if (verdict := self.verdict) is not None:
            return "pending" if verdict.kind in RUNS_AGAIN else "resolved"
        if self.is_over:
            return "completed" if self.end == "completed" else "failed"
        if self.end == "paused":
            return "waiting"
        if self.end == "withdrawn":
            return "pending"
        if not self.attempt:
            return "uncertain" if self.is_unknown else "pending"
        if self.is_told or is_alive(self):
            return self.end or "running"
        return self.end or "pending" if self.replay_safe else "uncertain"  # harmless, it will just run again


class ToolCalls:
    """The fold."""

    def __init__(self) -> None:
        self._calls: dict[Key, Call] = {}
        self._by_id: dict[str, list[Key]] = {}
        self._by_task: dict[str, list[Key]] = {}
        self._unsettled: dict[Key, None] = {}
        self._decided: dict[Key, None] = {}
        self._untaken = Untaken()
        self._spent: dict[str, int] = {}
        self._writer = ""

    def apply(self, record: records.Record | None, seq: int, ts: str) -> None:
        """Take in the next record of the log, written at `ts`; most types say nothing of tool calls."""
        if type(record) is records.Checkpoint:
            for call in self._untaken.deliver(record, self._writer):
                call.is_told = True
                self._settle(call)
        elif type(record) is records.Open:
            self._writer = record.writer
        elif type(record) is records.Tool:
            self._take(record, seq, ts)

    def _take(self, record: records.Tool, seq: int, ts: str) -> None:
        key = record.task, record.call
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = Call(key)
            self._by_id.setdefault(key[1], []).append(key)
            self._by_task.setdefault(key[0], []).append(key)
        call.seqs.append(seq)
        if record.status in ("started", "asked"):
            # Never less than before: a callback that records another call in the task takes no answers, and says 0.
            self._spent[key[0]] = max(record.spent, self._spent.get(key[0], 0))
            call.asked_at = seq
        _STEPS[record.status](call, record, ts)
        if not call.attempt and call.is_over:
            call.writer = self._writer
        if call.orphan is not None and call.orphan in self._calls:
            orphan = self._calls[call.orphan]
            if call.verdict is not None:
                orphan.heir = key  # one decision for both: nobody is asked twice about one effect
            self._settle(orphan)
        self._settle(call)
        if call.end in _STOPS and not call.is_over:
            beside = [each for each in self.unsettled() if each.end in _STOPS and each is not call]
            for each in beside:
                if (each.ns, each.checkpoint) == (call.ns, call.checkpoint):
                    each.is_one_of_several = call.is_one_of_several = True

    def _settle(self, call: Call) -> None:
        settled = call.heir is not None or call.verdict is not None or call.is_over or call.is_told
        if settled or not call.attempt and not call.is_unknown:
            self._unsettled.pop(call.key, None)
        else:
            self._unsettled[call.key] = None
        if call.verdict is not None and call.verdict.by == "resolve" and not call.has_result and call.heir is None:
            self._decided[call.key] = None
        else:
            self._decided.pop(call.key, None)
        self._untaken.settle(call)

    def __iter__(self) -> Iterator[Call]:
        """Every call, in the order in which they appeared."""
        return iter(list(self._calls.values()))

    def get(self, key: Key) -> Call | None:
        """A call by its task and id."""
        return self._calls.get(key)

    def of_task(self, task: str) -> list[Call]:
        """The calls of a task."""
        return [self._calls[key] for key in self._by_task.get(task, ())]

    def with_id(self, tool_call_id: str) -> list[Call]:
        """The calls that were given this id, the last one last."""
        return [self._calls[key] for key in self._by_id.get(tool_call_id, ())]

    def unsettled(self) -> list[Call]:
        """The calls that were started and neither ended with a result nor were decided upon."""
        return [self._calls[key] for key in list(self._unsettled)]

    def decided(self) -> list[Call]:
        """The calls that were decided upon from outside, and whose task has not been told."""
        return [self._calls[key] for key in list(self._decided)]

    def undelivered(self) -> list[Call]:
        """The calls that ended with a result that no checkpoint took."""
        return [call for call in self._untaken if call.has_result]

    def spent(self, task: str) -> int:
        """How many answers of a task are used: by questions about its calls, and by calls that are over."""
        spent = self._spent.get(task, 0)
        over = set().union(*(call.drew for call in self.of_task(task) if call.has_result))
        while spent in over:
            spent += 1
        return spent


def _requested(call: Call, record: records.Tool, _: str) -> None:
    call.ns = record.ns
    call.checkpoint = record.checkpoint
    if record.name is None:
        raise ValueError("a call is requested without the name of its tool")
    call.name, call.args = record.name, record.args
    call.effect, call.check, call.elsewhere = record.effect, record.check, record.elsewhere
    if record.orphan is not None:
        call.orphan = record.orphan[0], record.orphan[1]


def _started(call: Call, record: records.Tool, ts: str) -> None:
    call.attempt, call.writer, call.started_at = record.attempt, record.by, ts
    call.end, call.result, call.error = "", records.NO_TEXT, records.NO_TEXT
    call.is_one_of_several = call.is_told = False


def _ended(call: Call, record: records.Tool, _: str) -> None:
    call.end, call.result, call.error = cast("End", record.status), record.result, record.error
    call.redacted, call.sent = record.redacted, record.sent
    call.subgraphs, call.tasks = record.subgraphs, record.tasks
    if record.waits_for is not None:
        call.drew.add(record.waits_for)


def _asked(call: Call, record: records.Tool, _: str) -> None:
    call.asked = record.attempt, record.spent


def _resolved(call: Call, record: records.Tool, _: str) -> None:
    call.decision = Decision(record.decision, record.attempt, record.message, record.by)
    call.decided_at = call.seqs[-1]
    if record.decision in RUNS_AGAIN:
        call.end, call.result = "", records.NO_TEXT


_STEPS: dict[str, Callable[[Call, records.Tool, str], None]] = {
    "requested": _requested,
    "started": _started,
    "completed": _ended,
    "failed": _ended,
    "cancelled": _ended,
    "withdrawn": _ended,
    "paused": _ended,
    "asked": _asked,
    "resolved": _resolved,
}
