"""What may run: the rules of a thread's tool calls, given what its log says.

Pure but for one question, whether a writer lives, which it is told. It decides; the ledger writes down what it
decided.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langgraph_jsonl_checkpoint.errors import ToolCallRunningError, UncertainToolCallError
from langgraph_jsonl_checkpoint.folds.tool_calls import RUNS_AGAIN, Call
from langgraph_jsonl_checkpoint.log import records
from langgraph_jsonl_checkpoint.tool_calls.answers import Verdict, answer, history, without_result
from langgraph_jsonl_checkpoint.upstream import channels, namespaces

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import msgspec

    from langgraph_jsonl_checkpoint.folds.tool_calls import Decision, Effect, Key
    from langgraph_jsonl_checkpoint.sessions.session import Session
    from langgraph_jsonl_checkpoint.values.thaw import Thawer

OnUncertain = Literal["interrupt", "report", "replay"]


@dataclass(frozen=True)
class Visit:
    """A call that is about to run.

    Attributes:
        key: Task and id of the call in the log.
        tool_call_id: Its id for the model. Of several calls with one id in a task the log numbers all but the first.
        name: The tool.
        args: Its arguments, as the log has them: redacted, if the saver redacts.
        given: Its arguments, as they will run.
        effect: What running it does.
        check: Whether its result says if the work is right.
        ns: Namespace of the checkpoint that leads to its task.
        checkpoint: Id of that checkpoint.
        elsewhere: Whether its graph's checkpoints do not come into this log.
    """

    key: Key
    tool_call_id: str
    name: str
    args: Any
    given: Any
    effect: Effect
    check: bool
    ns: str
    checkpoint: str | None
    elsewhere: bool = False


class Question(NamedTuple):
    """What a human is asked about one call.

    Attributes:
        visit: The call.
        args: The arguments that it was started with.
        attempt: The attempt that is uncertain; 0 if it is another call's, with the same tool and arguments.
        started_at: When that was started.
        description: What is known of it.
        asked_from: How many of the task's answers were used when this was asked last; None if it was not.
        orphan: The other call, if it is about one.
    """

    visit: Visit
    args: Any
    attempt: int
    started_at: str | None
    description: str
    asked_from: int | None
    orphan: Call | None = None


class Judgement(NamedTuple):
    """What is to be done with a call.

    Attributes:
        runs: Whether its tool runs.
        result: What the model is told if it does not.
        sent: What is written to the state beside it: (channel, value).
        is_recorded: Whether that result is in the log.
        is_new: Whether the call, as it is now, is not.
        orphan: The call with the same tool and arguments, of a lost AIMessage, that is decided upon with this one.
        verdict: What was decided now.
        attempt: The last attempt.
    """

    runs: bool
    result: Any = None
    sent: Sequence[tuple[str, Any]] = ()
    is_recorded: bool = False
    is_new: bool = False
    orphan: Call | None = None
    verdict: Verdict | None = None
    attempt: int = 0


class Rules:
    """The rules, applied to what a session's log says now.

    Args:
        session: The session, locked and read.
        thaw: Reads its values.
        is_alive: Whether whoever started a call's last attempt lives, and still runs it.
        is_running: Whether a call runs in this process at this moment.
    """

    def __init__(
        self, session: Session, thaw: Thawer, is_alive: Callable[[Call], bool], is_running: Callable[[Key], bool]
    ) -> None:
        self._session = session
        self._thaw = thaw
        self._is_alive = is_alive
        self._is_running = is_running

    def judge(
        self, visit: Visit, said: tuple[str, str] | None, on_uncertain: OnUncertain | None, *, again: bool
    ) -> Judgement:
        """What is to be done with a call that is about to run.

        Args:
            visit: The call.
            said: What a human just said about it: (kind, message).
            on_uncertain: What to do with an uncertain call that nobody decided upon; None if the caller can neither
                ask nor give the tool another result.
            again: Whether whatever stands around the tool has seen its result, and wants another attempt.

        Raises:
            ToolCallRunningError: A live writer runs it.
            UncertainToolCallError: It is uncertain, and nobody was or can be asked.
        """
        if self._is_running(visit.key):
            raise ToolCallRunningError(
                f"{_named(visit)} runs in this process at this moment. Wait for it, and run the thread again."
            )
        call = self._session.tools.get(visit.key) or Call(visit.key)
        runs_again = call.redacted and visit.effect != "side_effects"  # what is recorded is not what it returned
        if (
            call.is_over
            and not again
            and not runs_again
            and (on_uncertain is not None or visit.effect == "side_effects")
        ):
            result = self._value(call.result)
            if call.redacted:
                result = without_result(call, visit.name, visit.tool_call_id, result)
            sent = [(channel, value) for channel, value in self._value(call.sent) or ()]
            return Judgement(runs=False, result=result, sent=sent, is_recorded=True)
        is_alive = self._is_alive if again else self._is_in_hand
        status = "uncertain" if self._is_unrecorded(visit) else call.own_status(is_alive)
        if status == "running":
            raise ToolCallRunningError(
                f"{_named(visit)} is run by the live writer {call.writer!r} since {call.started_at}. Wait for it, or "
                "end its process, and run the thread again."
            )
        decided = verdict = orphan = None
        if call.verdict is not None:
            decided = self._as_verdict(call.verdict)
        else:
            orphan = None if call.attempt else self._orphan(visit)
            # What was said holds, also if the call that it was about has got another end since.
            was_asked = said is not None and call.asked is not None and call.asked[0] == call.attempt
            if status == "uncertain" or orphan is not None or was_asked:
                decided = verdict = self._verdict(call, orphan, said, on_uncertain, visit)
        gives = decided is not None and decided.kind not in RUNS_AGAIN
        return Judgement(
            runs=not gives,
            result=answer(decided, visit.name, visit.tool_call_id, orphan or call, self._thaw)
            if decided is not None and gives
            else None,
            is_new=not call.name or orphan is not None or not is_equal(self._thaw.value(call.args), visit.args),
            orphan=orphan,
            verdict=verdict,
            attempt=call.attempt,
        )

    def question(self, visit: Visit) -> Question | None:
        """What a human is to be asked about a call before it may run; None if nothing."""
        call = self._session.tools.get(visit.key) or Call(visit.key)
        if call.has_result or call.verdict is not None or self._is_running(visit.key):
            return None
        thaw = self._thaw
        asked = call.asked[1] if call.asked is not None and call.asked[0] == call.attempt else None
        if self._is_unrecorded(visit):
            outside = self._session.tools.get(("", visit.key[1]))
            if outside is not None and outside.verdict is not None:
                return None
            return Question(visit, visit.args, 0, None, f"{history(call, visit.name)}.", asked)
        if call.own_status(self._is_in_hand) == "uncertain":
            said = thaw.value(call.error) if call.error is not records.NO_TEXT else ""
            text = f"{history(call, call.name)}{f' ({said})' if said else ''}: it may have had its effect."
            return Question(visit, thaw.value(call.args), call.attempt, call.started_at, text, asked)
        if call.attempt:
            return None
        orphan = self._orphan(visit)
        standing = self._standing(orphan, visit)
        if standing is not None and (asked is None or standing.by == "resolve") or asked is None and orphan is None:
            return None
        # Asked before, it is read what was said, whatever was said about the other call since.
        about = orphan or Call(visit.key, name=visit.name)
        text = history(about, visit.name)
        if about.verdict is not None:
            said = f": {message}" if (message := thaw.value(about.verdict.message)) else ""
            text += f" (decided then: {about.verdict.kind}{said})"
        text += ": it may have had its effect, and now it is asked for again with the same arguments."
        return Question(visit, visit.args, 0, about.started_at, text, asked, orphan)

    def _verdict(
        self,
        call: Call,
        orphan: Call | None,
        said: tuple[str, str] | None,
        on_uncertain: OnUncertain | None,
        visit: Visit,
    ) -> Verdict:
        """What is decided about an uncertain call: by a human now, from outside before, or by the policy."""
        if said is not None:
            return Verdict(*said, "answer")
        decision = self._standing(orphan, visit)
        if decision is None and not call.name:
            # Decided from outside, where its task was not known: no hook had recorded it.
            outside = self._session.tools.get(("", visit.key[1]))
            decision = None if outside is None else outside.verdict
        if decision is not None:
            return self._as_verdict(decision)
        if on_uncertain in ("report", "replay"):
            return Verdict(on_uncertain, "", "policy")
        about = orphan or call
        raise UncertainToolCallError(
            f"{_named(visit)} may have had its effect already: {history(about, visit.name)} "
            f"({about.started_at or 'at a time unknown'}). Decide with "
            f"saver.resolve({self._session.identity.thread_id!r}, {about.key[1]!r}, …), then run the thread again "
            "with None as its input."
        )

    def _value(self, text: msgspec.Raw) -> Any:
        return None if text is records.NO_TEXT else self._thaw.value(text)

    def _as_verdict(self, decision: Decision) -> Verdict:
        return Verdict(decision.kind, str(self._thaw.value(decision.message)), decision.by)

    def _is_in_hand(self, call: Call) -> bool:
        """Whether whoever started a call's last attempt lives, and runs it still or knows of its end."""
        return self._is_alive(call) and (not call.end or call.is_seen)

    def _orphan(self, visit: Visit) -> Call | None:
        """An uncertain call of another checkpoint with this tool and these arguments: its AIMessage was lost.

        One that was decided upon from outside, and has not been told the decision, counts too; and one that ended,
        but whose result died with its process.
        """
        tools = self._session.tools
        if visit.effect != "side_effects":
            return None
        for call in (*tools.unsettled(), *tools.decided(), *tools.undelivered()):
            if call.heir is not None and call.heir != visit.key or call.replay_safe or call.name != visit.name:
                continue
            same_place = (call.ns, call.checkpoint) == (visit.ns, visit.checkpoint)
            if visit.checkpoint is None:  # called in a thread that knows nothing of its node
                same_place = call.key[0] == visit.key[0]
            if call.key == visit.key or same_place or not is_equal(self._thaw.value(call.args), visit.args):
                continue
            if call.has_result and (not self._is_lost(call, visit) or self._is_beside(call, visit)):
                continue  # the model was told, as when the checkpoint of its next input is stored, or will be
            lost = call.has_result and not self._is_alive(call)
            if lost or call.verdict is not None or call.status(self._is_in_hand) == "uncertain":
                return call
        return None

    def _standing(self, orphan: Call | None, visit: Visit) -> Decision | None:
        """What was decided about another call with this tool and these arguments, as far as it holds for this one."""
        if orphan is None or orphan.verdict is None:
            return None
        fold, name = self._session.checkpoints, visit.checkpoint
        since = name is not None and fold.has(visit.ns, name) and orphan.decided_at > fold.seq(visit.ns, name)
        return orphan.verdict if since or self._is_lost(orphan, visit) else None

    def _is_lost(self, orphan: Call, visit: Visit) -> bool:
        """Whether the AIMessage of another call is not among the messages that this one comes from.

        If it is, the model was told what became of that call, and means this one anew.
        """
        fold, name = self._session.checkpoints, visit.checkpoint
        if name is None or not fold.has(visit.ns, name):
            name = None  # under durability="exit" it comes later; the run began with the newest
        newest = fold.get(visit.ns, name)
        lineage = () if newest is None else (newest.id, *(n for n, _ in fold.ancestors(visit.ns, name)))
        return orphan.ns != visit.ns or orphan.checkpoint not in lineage

    def _is_beside(self, call: Call, visit: Visit) -> bool:
        """Whether a call is of a subgraph that goes on beside the task that this one is of: it is not lost."""
        parts = zip(call.ns.split("|"), visit.ns.split("|"), strict=False)
        alike = list(itertools.takewhile(lambda pair: pair[0] == pair[1], parts))
        theirs, mine = (ns.split("|")[len(alike) :][:1] for ns in (call.ns, visit.ns))
        if not all(namespaces.is_of_task("|".join(part)) for part in (theirs, mine)):
            return False
        around = "|".join(one for one, _ in alike)
        records = [self._session.checkpoints.get(ns, None) for ns in (call.ns, visit.ns)]
        begun = [each and (self._thaw.value(each.metadata).get("parents") or {}).get(around) for each in records]
        return begun[0] is not None and begun[0] == begun[1]

    def _is_unrecorded(self, visit: Visit) -> bool:
        """Whether a call has no record because nobody recorded it, and not because it never started.

        So it is if its checkpoint was written without a hook by a writer that is dead, and neither closed the session
        with a run that waited nor left the task waiting for a human.
        """
        session = self._session
        known = session.tools.get(visit.key)
        fold, runs = session.checkpoints, session.runs
        if (
            visit.effect != "side_effects"
            or visit.checkpoint is None
            or known is not None
            and known.verdict is not None
        ):
            return False
        if known is not None and known.attempt or fold.get(visit.ns, visit.checkpoint) is None:
            return False
        writer = runs.writer_of(fold.seq(visit.ns, visit.checkpoint))
        if writer not in runs.hooks or runs.is_hooked(writer, visit.ns):
            return False
        if writer in runs.paused or session.writer.is_alive(writer):
            return False
        writes = fold.writes(visit.ns, visit.checkpoint)
        return not any(w.task == visit.key[0] and w.channel == channels.INTERRUPT for w in writes)


def _named(visit: Visit) -> str:
    return f"tool call {visit.key[1]!r} ({visit.name}) of task {visit.key[0]!r}"


def is_equal(one: Any, other: Any) -> bool:
    """Whether two values are equal, as far as they can tell."""
    try:
        return bool(one == other) or repr(one) == repr(other)  # NaN equals nothing, and is asked for again
    except Exception:  # noqa: BLE001 - arrays, and whatever compares as it likes
        return repr(one) == repr(other)
