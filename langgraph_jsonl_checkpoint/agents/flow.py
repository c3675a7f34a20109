"""Flows: what a hook does in steps that touch the disk or wait, written once for threads and for event loops.

A flow is a generator of steps; `drive` takes them in the thread that it is called in, `adrive` without holding up the
event loop.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from langgraph_jsonl_checkpoint.errors import ToolLogError
from langgraph_jsonl_checkpoint.saver import JsonlSaver
from langgraph_jsonl_checkpoint.upstream import tasks
from langgraph_jsonl_checkpoint.workers import submit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from langgraph_jsonl_checkpoint.tool_calls.ledger import Ledger
    from langgraph_jsonl_checkpoint.tool_calls.rules import Visit

    Step = Callable[[], Any] | float
    """What a flow waits for: a call that touches the disk, or a pause in seconds."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02
_NESTED = 2.0  # seconds after which a subgraph that has stored nothing is taken for one that stores nothing


def drive(flow: Generator[Step, Any, Any]) -> Any:
    """Take a flow's steps in this thread."""
    done = None
    while True:
        try:
            step = flow.send(done)
        except StopIteration as end:
            return end.value
        if callable(step):
            done = step()
        else:
            done = None
            time.sleep(step)


async def adrive(flow: Generator[Step, Any, Any]) -> Any:
    """Take a flow's steps without holding up the event loop."""
    done = None
    while True:
        try:
            step = flow.send(done)
        except StopIteration as end:
            return end.value
        done = await (finished(step) if callable(step) else asyncio.sleep(step))


async def finished(step: Callable[[], Any]) -> Any:
    """What a step that touches the disk comes to, in a worker thread.

    A run that is cancelled meanwhile, once or more often, waits for its end, so that what the log says of a call is
    known; and a future, unlike a task, is not itself cancelled when the event loop closes.
    """
    try:
        future = submit(step)
    except RuntimeError:
        return step()  # a loop that was closed under the run throws its coroutines away from outside
    cancelled = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return future.result()


def awaits(saver: JsonlSaver, thread_id: str, configurable: Mapping[str, Any]) -> bool:
    """Whether the running task's checkpoint comes into this log while the task runs.

    Under `durability="exit"` it does not; another checkpointer's is not for this log to wait for.
    """
    shared = saver.shares(tasks.checkpointer(configurable), thread_id)
    return shared and not tasks.is_stored_at_exit(configurable)


def arrival(ledger: Ledger, ns: str, checkpoint_id: str, patience: float) -> Generator[Step, Any, bool]:
    """Wait until a checkpoint is in the log; whether it is, within `patience` seconds.

    A subgraph that is compiled with `checkpointer=False` looks like any other until none of its checkpoints has come.
    """
    pause, waited = _FIRST_PAUSE, 0.0
    while not (yield partial(ledger.holds, ns, checkpoint_id)):
        if waited >= _NESTED and ns and (yield partial(ledger.leaves_out, ns)):
            return True
        if waited >= patience:
            return False
        yield pause
        waited += pause
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    return True


def barrier(
    saver: JsonlSaver, ledger: Ledger, visit: Visit, configurable: Mapping[str, Any], timeout: float
) -> Generator[Step, Any, None]:
    """Wait, before a call with side effects, until the checkpoint that it comes from is in the log.

    Otherwise its AIMessage could be lost with the process, and the model would ask for it under a new id.

    Raises:
        ToolLogError: It is not within `timeout` seconds.
    """
    if (
        visit.effect != "side_effects"
        or visit.checkpoint is None
        or not awaits(saver, ledger.thread_id, configurable)
    ):
        return
    if not (yield from arrival(ledger, visit.ns, visit.checkpoint, timeout)):
        raise ToolLogError(
            f"tool call {visit.key[1]!r} ({visit.name}) was not started: checkpoint {visit.checkpoint!r}, which it "
            f"comes from, was not stored within {timeout} s. See why it was not, and run the thread again with None "
            "as its input."
        )


def own_saver(saver: JsonlSaver | None) -> JsonlSaver | None:
    """The saver that a hook was given, if it was.

    Raises:
        TypeError: It is something else.
    """
    if saver is not None and not isinstance(saver, JsonlSaver):
        raise TypeError(f"saver is a JsonlSaver, or None for the running graph's own, not {saver!r}")
    return saver


def saver_of(checkpointer: Any) -> JsonlSaver | None:
    """The running graph's checkpointer, if it has one; a hook needs it to be a JsonlSaver.

    Raises:
        ToolLogError: It is another one.
    """
    if checkpointer is None or isinstance(checkpointer, JsonlSaver):
        return checkpointer
    raise ToolLogError(
        f"the graph's checkpointer is a {type(checkpointer).__name__}, which keeps no log of tool calls. Compile the "
        "graph with a JsonlSaver, or give the hook one."
    )
