"""What a model is told beside its messages: the session memory, and the answers to calls that were left open.

Both go into the request alone, and never into the state.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from langgraph_jsonl_checkpoint.agents.flow import adrive, arrival, awaits, drive, saver_of
from langgraph_jsonl_checkpoint.folds.tool_calls import known_as
from langgraph_jsonl_checkpoint.restore.open_calls import open_calls
from langgraph_jsonl_checkpoint.upstream import namespaces, tasks
from langgraph_jsonl_checkpoint.values.messages import is_lent

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from langgraph_jsonl_checkpoint.agents.flow import Step
    from langgraph_jsonl_checkpoint.restore.open_calls import Asked
    from langgraph_jsonl_checkpoint.saver import JsonlSaver

_PATIENCE = 5.0  # seconds to wait for a checkpoint before a memory without it has to do


def inject(
    messages: Sequence[BaseMessage], saver: JsonlSaver | None, config: RunnableConfig, *, memory: bool = True
) -> list[BaseMessage]:
    """The messages for a hand-written node's model: with the session memory, and an answer to each open tool call.

    Args:
        messages: The state's messages, a system message first if there is one.
        saver: The saver; the running graph's own if it is None.
        config: The node's config.
        memory: Whether the memory is added, as the last block of the system message.

    Returns:
        A new list. A call that waits for a human stays open.

    Example:
        >>> def agent(state, config):  # doctest: +SKIP
        ...     return {"messages": [model.invoke(inject(state["messages"], saver, config))]}
    """
    context = Context(saver, config, memory=memory)
    plain = as_stored(messages)
    return _injected(plain, *drive(context.read(plain)))


async def ainject(
    messages: Sequence[BaseMessage], saver: JsonlSaver | None, config: RunnableConfig, *, memory: bool = True
) -> list[BaseMessage]:
    """`inject` without holding up the event loop."""
    context = Context(saver, config, memory=memory)
    plain = as_stored(messages)
    return _injected(plain, *await adrive(context.read(plain)))


def _injected(messages: list[BaseMessage], text: str, answers: Mapping[Asked, ToolMessage]) -> list[BaseMessage]:
    told = answered(messages, answers)
    if not text:
        return told
    if told and isinstance(told[0], SystemMessage):
        return [with_memory(told[0], text), *told[1:]]
    return [with_memory(None, text), *told]


class Context:
    """Where a model is called from.

    Args:
        saver: The saver; the running graph's own if it is None.
        config: The running task's config.
        memory: Whether the memory is wanted.
    """

    def __init__(self, saver: JsonlSaver | None, config: RunnableConfig | Mapping[str, Any], *, memory: bool) -> None:
        configurable = config.get("configurable", {})
        self._configurable = configurable
        self._saver = saver or saver_of(tasks.checkpointer(configurable))
        self._thread_id = str(configurable.get("thread_id", ""))
        self._ns = namespaces.parent(configurable.get("checkpoint_ns") or "")
        self._memory = memory
        if "thread_id" not in configurable:
            self._saver = None
        if self._saver is not None:
            self._saver.ledger(self._thread_id).announce(self._ns)

    def read(self, messages: Sequence[BaseMessage]) -> Generator[Step, Any, tuple[str, dict[Asked, ToolMessage]]]:
        """The memory's text, and the answers to the messages' open calls."""
        saver = self._saver
        if saver is None:
            return "", {}
        calls, run = open_calls(messages), tasks.run_of(self._configurable)
        checkpoint_id = tasks.checkpoint_of(self._configurable)
        if checkpoint_id is not None and awaits(saver, self._thread_id, self._configurable):
            # What the user just said may not be stored yet, and the memory's text stays for the whole run.
            yield from arrival(saver.ledger(self._thread_id), self._ns, checkpoint_id, _PATIENCE)
        found: tuple[str, dict[Asked, ToolMessage]] = yield partial(
            saver.context, self._thread_id, self._ns, run, calls, memory=self._memory
        )
        return found


def as_stored(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages without what others put among them: the memory that the saver lent, answers that are made up."""
    return [m for m in messages if not is_lent(m) and not (isinstance(m, ToolMessage) and tasks.is_placeholder(m))]


def answered(messages: Sequence[BaseMessage], answers: Mapping[Asked, ToolMessage]) -> list[BaseMessage]:
    """The messages with each answer directly behind the AIMessage, and its other results, that it belongs to."""
    told: list[BaseMessage] = []
    late: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            late.pop(message.tool_call_id, None)  # an id that is given twice may be answered here, and open elsewhere
        else:
            told += late.values()
            late = {}
        told.append(message)
        if isinstance(message, AIMessage):
            names = known_as(message.tool_calls)
            late = {name: answers[message.id, name] for name in names if (message.id, name) in answers}
    return [*told, *late.values()]


def with_memory(system: SystemMessage | None, text: str) -> SystemMessage:
    """A system message whose last content block is the memory."""
    if system is None:
        return SystemMessage(text)
    blocks = [{"type": "text", "text": system.content}] if isinstance(system.content, str) else list(system.content)
    return system.model_copy(update={"content": [*blocks, {"type": "text", "text": text}]})
