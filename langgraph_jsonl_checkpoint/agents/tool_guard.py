"""ToolGuard: the guard for a hand-written graph's `ToolNode`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph_jsonl_checkpoint.agents.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain_core.messages import ToolMessage
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

    from langgraph_jsonl_checkpoint.agents.policy import ToolPolicy
    from langgraph_jsonl_checkpoint.rules import OnUncertain
    from langgraph_jsonl_checkpoint.saver import JsonlSaver


class ToolGuard:
    """Records the tool calls of a `ToolNode`, and runs none twice unseen.

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
        self._guard = Guard(saver, policy=policy, on_uncertain=on_uncertain, timeout=timeout)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Run a tool call, or give its recorded result.

        Raises:
            ToolLogError: The log cannot be written; a call whose start is missing was not started.
            ToolCallRunningError: A live writer runs the call.
        """
        return self._guard.run(request, handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """`wrap_tool_call` in an event loop."""
        return await self._guard.arun(request, handler)
