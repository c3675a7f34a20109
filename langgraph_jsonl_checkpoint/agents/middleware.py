"""SessionMiddleware: the guard and the session memory for `create_agent` and deep agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langgraph.config import get_config

from langgraph_jsonl_checkpoint.agents.context import Context, answered, as_stored, with_memory
from langgraph_jsonl_checkpoint.agents.flow import adrive, drive
from langgraph_jsonl_checkpoint.agents.tool_guard import ToolGuard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.messages import ToolMessage
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

    from langgraph_jsonl_checkpoint.agents.policy import ToolPolicy
    from langgraph_jsonl_checkpoint.restore.open_calls import Asked
    from langgraph_jsonl_checkpoint.saver import JsonlSaver
    from langgraph_jsonl_checkpoint.tool_calls.rules import OnUncertain


class SessionMiddleware(AgentMiddleware[Any, Any, Any]):
    """Runs no tool twice unseen, answers tool calls that were left open, and gives the model the session memory.

    List it last: the last middleware sees the arguments that really run, and every attempt of a retry.

    Args:
        saver: Where the calls are recorded; the running graph's own without it.
        policy: Which tools may run again; without it only those whose metadata say so.
        on_uncertain: What happens to a call that may have had its effect: "interrupt" asks a human, "report" tells
            the model that its outcome is unknown, "replay" runs it again.
        memory: Whether the model gets the session memory, as the last block of its system message.
        timeout: Seconds to wait for the checkpoint that a call comes from before the call starts.

    Example:
        >>> agent = create_agent(  # doctest: +SKIP
        ...     model,
        ...     tools,
        ...     checkpointer=saver,
        ...     middleware=[SessionMiddleware(policy=ToolPolicy(read_only=["search"]))],
        ... )
    """

    def __init__(
        self,
        saver: JsonlSaver | None = None,
        *,
        policy: ToolPolicy | None = None,
        on_uncertain: OnUncertain = "interrupt",
        memory: bool = True,
        timeout: float = 60.0,
    ) -> None:
        super().__init__()
        self._saver = saver
        self._memory = memory
        self._guard = ToolGuard(saver, policy=policy, on_uncertain=on_uncertain, timeout=timeout)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Run a tool call, or give its recorded result."""
        return self._guard.wrap_tool_call(request, handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """`wrap_tool_call` in an event loop."""
        return await self._guard.awrap_tool_call(request, handler)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with an answer to each open call, and with the memory."""
        context = Context(self._saver, get_config(), memory=self._memory)
        messages = as_stored(request.messages)
        return handler(_told(request, messages, drive(context.read(messages))))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """`wrap_model_call` in an event loop."""
        context = Context(self._saver, get_config(), memory=self._memory)
        messages = as_stored(request.messages)
        return await handler(_told(request, messages, await adrive(context.read(messages))))


def _told(
    request: ModelRequest[Any], messages: list[Any], context: tuple[str, dict[Asked, ToolMessage]]
) -> ModelRequest[Any]:
    text, answers = context
    told = request.override(messages=answered(messages, answers))  # type: ignore[arg-type]
    return told.override(system_message=with_memory(request.system_message, text)) if text else told
