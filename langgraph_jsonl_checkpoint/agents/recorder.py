"""SessionRecorder: a callback handler for tools that are called anywhere else than in a guarded ToolNode.

A callback can keep a tool from running; it cannot ask, and it cannot give the tool another result.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import langchain_core
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

from langgraph_jsonl_checkpoint.agents.flow import barrier, drive, own_saver
from langgraph_jsonl_checkpoint.agents.policy import checked
from langgraph_jsonl_checkpoint.agents.tool_guard import ended_by
from langgraph_jsonl_checkpoint.errors import UncertainToolCallError
from langgraph_jsonl_checkpoint.tool_calls.rules import Visit
from langgraph_jsonl_checkpoint.upstream import namespaces, tasks
from langgraph_jsonl_checkpoint.values.text import without_addresses

if TYPE_CHECKING:
    from uuid import UUID

    from langgraph_jsonl_checkpoint.agents.policy import ToolPolicy
    from langgraph_jsonl_checkpoint.folds.tool_calls import Key
    from langgraph_jsonl_checkpoint.saver import JsonlSaver
    from langgraph_jsonl_checkpoint.tool_calls.ledger import Ledger

# Before langchain-core 1.8 no callback tells of a tool that asyncio cancels.
_TELLS_OF_A_CANCEL = tuple(map(int, langchain_core.__version__.split(".")[:2])) >= (1, 8)
_CALLERS = 1024  # nodes in progress whose calls are counted


class _Called(NamedTuple):
    """A tool as a callback is told of it: the metadata of its own and of the run."""

    metadata: dict[str, Any] | None


class SessionRecorder(BaseCallbackHandler):
    """Records every tool call of a run, and keeps those from starting that may have had their effect.

    Args:
        saver: Where the calls are recorded.
        policy: Which tools may run again; without it only those whose metadata say so.
        timeout: Seconds to wait for the checkpoint that a call comes from before the call starts.

    Example:
        >>> graph.invoke(inputs, {**config, "callbacks": [SessionRecorder(saver)]})  # doctest: +SKIP
    """

    # What is raised here keeps the tool from running. Not inline: in an event loop the disk is a worker thread's.
    raise_error = True
    run_inline = False

    def __init__(self, saver: JsonlSaver, *, policy: ToolPolicy | None = None, timeout: float = 60.0) -> None:
        if own_saver(saver) is None:
            raise TypeError("a SessionRecorder needs a saver: a callback is not told the running graph's")
        self._saver = saver
        self._timeout = timeout
        self._policy = checked(policy)
        self._runs: dict[UUID, tuple[Ledger, Visit, dict[Key, str]]] = {}
        self._calls: weakref.WeakKeyDictionary[Any, dict[Key, str]] = weakref.WeakKeyDictionary()
        self._seen: dict[UUID | None, dict[str, int]] = {}
        self._lock = threading.Lock()

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record that a tool starts.

        Raises:
            UncertainToolCallError: It may have had its effect, or has had it in this very task.
            ToolLogError: The log cannot be written.
            ToolCallRunningError: A live writer runs it.
        """
        place = (metadata or {}).get("langgraph_checkpoint_ns")
        thread_id = (metadata or {}).get("thread_id")
        if thread_id is None or place is None:
            return  # no thread that anybody could go on with
        name = (serialized or {}).get("name") or kwargs.get("name") or ""
        args: Any = inputs if inputs is not None else {"input": input_str}
        task = namespaces.task_of(place)
        ledger = self._saver.ledger(str(thread_id))
        told = ledger.redaction.value(name, args)
        tool_call_id = kwargs.get("tool_call_id") or self._number(parent_run_id, name, told)
        ledger.announce()
        if ledger.is_guarded((task, tool_call_id)):
            return
        # The config of the node that calls the tool: a callback is given none.
        configurable = (var_child_runnable_config.get() or {}).get("configurable", {})
        calls = self._calls_of(tasks.execution_of(configurable))
        key, again = self._claim(calls, task, tool_call_id)
        visit = Visit(
            key,
            tool_call_id,
            name,
            told,
            args,
            self._policy.effect(name, args, _Called(metadata)),
            self._policy.is_check(name, args),
            namespaces.parent(place),
            tasks.checkpoint_of(configurable),
            elsewhere=not self._saver.shares(tasks.checkpointer(configurable), str(thread_id)),
        )
        try:
            drive(barrier(self._saver, ledger, visit, configurable, self._timeout))
            _enter(ledger, visit, again=again)
        except BaseException:
            calls.pop(key)
            raise
        with self._lock:
            self._runs[run_id] = ledger, visit, calls

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Record that a tool ended."""
        self._leave(run_id, "failed" if getattr(output, "status", None) == "error" else "completed", result=output)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record that a tool raised, or waits for a human."""
        self._leave(run_id, ended_by(error), error)

    def _leave(self, run_id: UUID, status: str, error: BaseException | None = None, result: Any = None) -> None:
        ledger, visit, calls = self._runs.pop(run_id, (None, None, {}))
        if ledger is not None and visit is not None:
            calls[visit.key] = status
            ledger.leave(visit, status, error, result=result)

    def _calls_of(self, execution: object) -> dict[Key, str]:
        """How each call of one execution of a task ended; empty while it runs."""
        with self._lock:
            return {} if execution is None else self._calls.setdefault(execution, {})

    def _claim(self, calls: dict[Key, str], task: str, tool_call_id: str) -> tuple[Key, bool]:
        """The key of a call that starts, and whether its execution has seen it fail, and wants another attempt.

        Of calls with one id all but the first are numbered.
        """
        with self._lock:
            key, number = (task, tool_call_id), 1
            while calls.get(key) in ("", "completed"):
                number += 1
                key = task, f"{tool_call_id}#{number}"
            again = calls.get(key) in ("failed", "cancelled")
            calls[key] = ""
            return key, again

    def _number(self, caller: UUID | None, name: str, args: Any) -> str:
        """An id for a call that no model asked for: the how-manieth of its caller with this tool and these arguments.

        A caller that is run again, by a resume, counts anew and comes to the same ids.
        """
        called = without_addresses(f"{name} {args!r}").encode()  # a resume is another process
        digest = hashlib.blake2b(called, digest_size=6).hexdigest()
        with self._lock:
            if len(self._seen) >= _CALLERS:
                self._seen.pop(next(iter(self._seen)))
            counts = self._seen.setdefault(caller, {})
            counts[digest] = counts.get(digest, 0) + 1
            return f"{name}-{digest}-{counts[digest]}"


def _enter(ledger: Ledger, visit: Visit, *, again: bool) -> None:
    if not _TELLS_OF_A_CANCEL and ledger.is_running(visit.key):
        # Whatever calls it now, in another execution of its task, left it behind, or it runs.
        ledger.leave(visit, "cancelled")
    if not ledger.enter(visit, {}, None, 0, again=again).runs:
        task, call = visit.key
        raise UncertainToolCallError(
            f"tool call {call!r} ({visit.name}) of task {task!r} is over, and a callback cannot give its result "
            f"again. Let it run again with saver.resolve({ledger.thread_id!r}, {call!r}, {{'type': 'approve'}}), or "
            "call the tool in a ToolNode with a ToolGuard."
        )
