"""Tool calls under an encrypting serializer, in an event loop that is watched."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from guard.scene import CONFIG
from langgraph_jsonl_checkpoint import JsonlSaver, SessionMiddleware, adecide

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.language_models import BaseChatModel

CALLS = [
    {"name": "tell", "args": {"what": "SECRET argument"}, "id": "1"},
    {"name": "fail", "args": {"what": "SECRET argument"}, "id": "2"},
]


async def tell(what: str) -> str:
    """Returns a secret."""
    return f"SECRET result of {what}"


async def fail(what: str) -> str:
    """Raises a secret."""
    raise ValueError(f"SECRET error of {what}")


class Model(RunnableLambda[Any, AIMessage]):
    """Asks for both tools, then answers."""

    def __init__(self) -> None:
        async def answer(messages: list[BaseMessage]) -> AIMessage:
            return AIMessage("", tool_calls=CALLS) if messages[-1].type == "human" else AIMessage("SECRET end")

        super().__init__(answer)

    def bind_tools(self, *_: Any, **__: Any) -> Model:
        """The script knows its tools."""
        return self


def agent(saver: JsonlSaver) -> Any:
    """An agent of which nothing may be readable."""
    model: BaseChatModel = Model()  # type: ignore[assignment]
    return create_agent(model, [tell, fail], checkpointer=saver, middleware=[SessionMiddleware(saver)])


@pytest.mark.parametrize("sealed", [True, False])
async def test_nothing_of_a_call_is_readable_and_the_event_loop_is_never_blocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: bool
) -> None:
    """Arguments, results, errors, decisions: sealed; and each touch of the disk is a worker thread's."""
    monkeypatch.setenv("LANGGRAPH_AES_KEY", "0123456789abcdef")
    serde = EncryptedSerializer.from_pycryptodome_aes() if sealed else None
    saver = JsonlSaver(tmp_path, serde=serde)
    graph = agent(saver)
    with blockbuster_ctx(), pytest.raises(ValueError, match="SECRET error"):
        await graph.ainvoke({"messages": [("user", "SECRET goal")]}, CONFIG)
    await asyncio.to_thread(saver.close)

    saver = JsonlSaver(tmp_path, serde=serde)
    graph = agent(saver)
    with blockbuster_ctx():
        await graph.ainvoke(None, CONFIG)
        decision = {"type": "respond", "message": "SECRET decision"}
        result = await graph.ainvoke(await adecide(graph, CONFIG, {"2": decision}), CONFIG)
    assert [message.text for message in result["messages"]][-1] == "SECRET end"
    state = await saver.aresume_state("t")
    assert {(call.status, call.result_text) for call in state.tool_calls} == {
        ("completed", "SECRET result of SECRET argument"),
        ("resolved", "SECRET decision"),
    }
    await asyncio.to_thread(saver.close)
    with saver.path("t").open("rb") as log:
        text = zstandard.ZstdDecompressor().stream_reader(log, read_across_frames=True).read()
    assert (b"SECRET" in text) is not sealed
