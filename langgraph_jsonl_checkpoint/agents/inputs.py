"""Inputs that are applied once: going on with a thread, or starting it, without having to know which."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langgraph.types import Command

from langgraph_jsonl_checkpoint.agents.flow import adrive, drive, finished
from langgraph_jsonl_checkpoint.saver import JsonlSaver
from langgraph_jsonl_checkpoint.workers import submit

if TYPE_CHECKING:
    from collections.abc import Generator

    from langchain_core.runnables import RunnableConfig
    from langgraph.pregel import Pregel
    from langgraph.types import StateSnapshot

    from langgraph_jsonl_checkpoint.agents.flow import Step
    from langgraph_jsonl_checkpoint.log.leases import Lease

    Graph = Pregel[Any, Any, Any, Any]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.25  # seconds

_around: ContextVar[tuple[Lease, ...]] = ContextVar("around", default=())


def resume_or_invoke(
    graph: Graph,
    input: Any,  # noqa: A002 - LangGraph's name
    config: RunnableConfig,
    *,
    input_id: str | None = None,
    **options: Any,
) -> Any:
    """Go on with a thread's unfinished run, or apply an input that it has not seen.

    An unfinished run goes on first. Then the input is applied, unless the thread has seen its id, the run waits for a
    human, or the input has no id: that is taken for the one that the unfinished run came from.

    Of several calls for one thread, in any process of this machine, each waits until the one before has returned or
    its process has died. So a job that is delivered to two workers is done by one of them.

    Args:
        graph: A compiled graph with a JsonlSaver.
        input: The input. A `Command` is always given to the graph.
        config: The thread; `configurable.input_id` may name the input.
        input_id: Names the input.
        **options: For `graph.invoke`.

    Returns:
        What `graph.invoke` returns; the thread's values if there was nothing to do.

    Raises:
        RuntimeError: It was called inside of its own run of the same thread, for which it would wait for ever.
    """
    run = _Inputs(graph, config, input_id)
    token = _around.set((*_around.get(), run.lease))
    try:
        drive(run.turn())
        if isinstance(input, Command):
            return graph.invoke(input, run.config, **options)
        unfinished = run.is_unfinished(graph.get_state(run.config))
        if unfinished:
            result = graph.invoke(None, run.config, **options)
            if run.input_id is None or run.is_unfinished(graph.get_state(run.config)):
                return result
        if run.input_id is None or run.saver.accepts(run.thread_id, run.input_id):
            return graph.invoke(input, run.named, **options)
        return result if unfinished else graph.get_state(run.config).values
    finally:
        _around.reset(token)
        run.lease.give_back()


async def aresume_or_invoke(
    graph: Graph,
    input: Any,  # noqa: A002 - LangGraph's name
    config: RunnableConfig,
    *,
    input_id: str | None = None,
    **options: Any,
) -> Any:
    """`resume_or_invoke` in an event loop."""
    run = _Inputs(graph, config, input_id)
    token = _around.set((*_around.get(), run.lease))
    try:
        await adrive(run.turn())
        if isinstance(input, Command):
            return await graph.ainvoke(input, run.config, **options)
        unfinished = run.is_unfinished(await graph.aget_state(run.config))
        if unfinished:
            result = await graph.ainvoke(None, run.config, **options)
            if run.input_id is None or run.is_unfinished(await graph.aget_state(run.config)):
                return result
        if run.input_id is None or await submit(run.saver.accepts, run.thread_id, run.input_id):
            return await graph.ainvoke(input, run.named, **options)
        return result if unfinished else (await graph.aget_state(run.config)).values
    finally:
        _around.reset(token)
        await finished(run.lease.give_back)


class _Inputs:
    """A thread and the input that is to be applied to it.

    Attributes:
        config: The thread, without the input's id: what goes on is another input's run.
        named: The thread with it.
        lease: The turn with the thread.

    Raises:
        RuntimeError: It is held around here.
    """

    def __init__(self, graph: Graph, config: RunnableConfig, input_id: str | None) -> None:
        configurable = dict(config.get("configurable", {}))
        given = configurable.pop("input_id", None)
        self.input_id: str | None = given if input_id is None else input_id
        if "thread_id" not in configurable:
            raise ValueError("the config names no thread: give it configurable.thread_id")
        self.thread_id = str(configurable["thread_id"])
        self.config: RunnableConfig = {**config, "configurable": configurable}
        self.named: RunnableConfig = self.config
        if self.input_id is not None:
            self.named = {**config, "configurable": {**configurable, "input_id": self.input_id}}
        if not isinstance(graph.checkpointer, JsonlSaver):
            has = type(graph.checkpointer).__name__ if graph.checkpointer else "none"
            raise ValueError(f"the graph's checkpointer is {has}: compile it with a JsonlSaver")  # noqa: TRY004
        self.saver = graph.checkpointer
        self.lease = self.saver.lease(self.thread_id)
        if any(other.is_held and other.is_of(self.lease) for other in _around.get()):
            raise RuntimeError(
                f"thread {self.thread_id!r} is run by a resume_or_invoke around this call, which would wait for its "
                "end. Call the graph itself, or use a thread of its own."
            )

    def turn(self) -> Generator[Step, Any, None]:
        """Wait for the turn with the thread."""
        pause = _FIRST_PAUSE
        while not (yield self.lease.take):
            yield pause
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    @staticmethod
    def is_unfinished(state: StateSnapshot) -> bool:
        """Whether there is something to go on with.

        `next` is empty when all tasks have stored their writes and the checkpoint that follows is missing.
        """
        return bool(state.tasks)
