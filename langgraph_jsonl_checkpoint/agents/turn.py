"""One execution of one task: what its calls share, and the order in which they begin and ask.

LangGraph numbers the answers of a task, and gives a number to each `interrupt()` as it comes, whichever tool it is
in. The tools of a task run beside each other, so what is asked and who is answered must follow the numbers, and not
which thread is faster: else an answer goes to a tool whose question was not shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from langgraph.types import interrupt

from langgraph_jsonl_checkpoint.agents.numbers import Numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from langgraph.types import Interrupt

    from langgraph_jsonl_checkpoint.agents.flow import Step
    from langgraph_jsonl_checkpoint.agents.sends import Write
    from langgraph_jsonl_checkpoint.folds.tool_calls import Call, Key
    from langgraph_jsonl_checkpoint.tool_calls.rules import Visit
    from langgraph_jsonl_checkpoint.upstream import tasks

PAUSE, _LONGEST_PAUSE = 0.001, 0.02  # seconds
_NONE = (1 << 63,)  # behind all numbers
_RUN = {"subgraphs", "tasks"}  # what a call runs; the record of its end has fields of these names
_PATIENCE = 1.0  # seconds to wait for another call, which may never come, or be busy with something else


@dataclass
class Turn:
    """One execution of one task: its calls are asked about once, together, before any of them runs.

    Two interrupts in one task are answered in the order in which its threads arrive, so there is only one.
    """

    visits: tuple[Sequence[Any], dict[int, Visit]] = ((), {})  # of the calls that the model asked for, by their place
    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: asyncio.Lock = field(default_factory=asyncio.Lock)
    used: int = 0  # answers
    decisions: dict[str, tuple[str, str]] = field(default_factory=dict)
    settled: set[Key] = field(default_factory=set)
    # What is shown, and not the exceptions: their frames hold the execution that this one is kept for.
    raised: tuple[Interrupt, ...] = ()
    took_given: bool = False
    running: set[Key] = field(default_factory=set)
    present: list[Key] = field(default_factory=list)
    begun: set[Key] = field(default_factory=set)
    ended: dict[Key, tuple[str, Any]] = field(default_factory=dict)  # how, and with which arguments
    sent: dict[Key, Sequence[Write]] = field(default_factory=dict)
    paused: dict[Key, tuple[int, tuple[Interrupt, ...]]] = field(default_factory=dict)  # with the answer's number
    drew: Mapping[Key, Sequence[int]] = field(default_factory=dict)  # the numbers that those had which paused before
    numbers: Mapping[str, Numbers] = field(default_factory=dict)

    def gathered(self, calls: Sequence[Any], at: int, mine: Visit, visit: Callable[[int], Visit]) -> list[Visit]:
        """The visits of all calls of a task, of which one has come: the user's functions judge each once or twice."""
        before, visits = self.visits
        if before != calls:  # the first to come, or of another AIMessage
            visits = {}
        visits[at] = mine
        for i in range(len(calls)):
            if i not in visits:
                visits[i] = visit(i)
        self.visits = calls, visits
        return [visits[i] for i in range(len(calls))]

    def count(self, answers: tasks.Answers, keys: Sequence[Key]) -> None:
        """Count what this execution's calls do; a retried node counts its interrupts anew."""
        self.numbers = answers.counters(Numbers)
        for what in _RUN & self.numbers.keys():
            self.numbers[what].part(keys)

    def keep(self, calls: Iterable[Call]) -> None:
        """Give what the calls drew in an earlier execution to no other."""
        for call in calls:
            for what in _RUN & self.numbers.keys():
                self.numbers[what].keep(call.key, getattr(call, what), again=not call.is_over)

    def begin(self, key: Key) -> None:
        """A call is about to run."""
        self.running.add(key)
        self.paused.pop(key, None)  # a retried node comes here again
        for numbers in self.numbers.values():
            numbers.begin(key)

    def drawn(self, key: Key) -> dict[str, list[int]]:
        """The numbers of what a call has run, for the record of its end."""
        return {what: self.numbers[what].drawn(key) for what in _RUN & self.numbers.keys()}

    def is_behind(self, key: Key, stored: int) -> bool:
        """Whether a call that runs has yet to take the answers again that it took in an earlier execution.

        It draws a number and then takes that number's answer, which is one of the `stored` from then on.
        """
        if key not in self.running or key not in self.drew:
            return False
        interrupts = self.numbers.get("interrupts")
        drawn = interrupts.drawn(key) if interrupts is not None else []
        return len(drawn) < len(self.drew[key]) or drawn[-1] >= stored

    def may_ask(self, key: Key) -> bool:
        """Whether a call may yet draw a number: it has not begun, or goes on behind an answer."""
        return key not in self.begun or key in self.drew and key in self.running

    def wants_again(self, visit: Visit) -> bool:
        """Whether whatever stands around the tool has seen a result of this execution, and wants another attempt."""
        status, args = self.ended.get(visit.key, ("", None))
        return status in ("failed", "cancelled") or status != "" and args != visit.given

    def has_answer(self, answers: tasks.Answers) -> bool:
        """Whether there is an answer that was not used."""
        return answers.stored > self.used or answers.is_given and not self.took_given

    def take(self, answers: tasks.Answers, value: Any) -> Any:
        """The next answer; without one the run is interrupted with `value`."""
        stored = answers.stored
        answer = interrupt(value)
        self.took_given = self.took_given or stored <= self.used
        self.used += 1
        return answer

    @contextlib.contextmanager
    def holding(self, key: Key) -> Iterator[None]:
        """A call is in the guard."""
        self.present.append(key)
        try:
            yield
        finally:
            self.present.remove(key)


def in_order(turn: Turn, visits: Sequence[Visit], key: Key, answers: tasks.Answers) -> Generator[Step, Any, None]:
    """Let a call begin behind those before it.

    Those that paused in an earlier execution come first, by the number that each had: each takes its answer again
    before the next one begins. The others begin in the order of the task's calls, as they do without a guard.
    """
    waited = 0.0
    for earlier in sorted((visit.key for visit in visits), key=lambda k: tuple(turn.drew.get(k, _NONE))):
        if earlier == key:
            return
        while turn.is_behind(earlier, answers.stored) or waited < _PATIENCE and turn.may_ask(earlier):
            yield PAUSE
            waited += PAUSE


def shown(turn: Turn, key: Key, answers: tasks.Answers) -> Generator[Step, Any, tuple[Interrupt, ...]]:
    """What a call that waits for a human shows: the interrupt that has the lowest number of its task.

    The next answer has that number, and LangGraph shows what comes out first (in threads, of the first call): so all
    raise the same. Empty if the call waits for no answer of its task.
    """
    if key not in turn.paused:
        return ()
    waited = 0.0
    before = set(range(answers.stored + answers.is_given, turn.paused[key][0]))
    while waited < _PATIENCE and turn.running and not before <= {number for number, _ in turn.paused.values()}:
        yield PAUSE
        waited += PAUSE
    return min(turn.paused.values(), key=itemgetter(0))[1]


def alone(turn: Turn, visits: Sequence[Visit]) -> Generator[Step, Any, None]:
    """Wait until none of a task's calls is in the guard.

    A ToolNode in an event loop ends with the first interrupt that comes out (tool_node.py, `_afunc`: its
    `asyncio.gather` waits for no other call, as the pool of its threads does), and a loop that ends then, as that of
    `asyncio.run`, cancels the others in the middle of their effects.
    """
    keys, pause = {visit.key for visit in visits}, PAUSE
    while not keys.isdisjoint(tuple(turn.present)):
        yield pause
        pause = min(pause * 1.5, _LONGEST_PAUSE)
