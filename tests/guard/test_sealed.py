"""Tool calls under an encrypting serializer, in an event loop that is watched."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from guard.scene import CONFIG
from langgraph_jsonl_checkpoint import JsonlSaver, SessionMiddleware, adecide, decide
from langgraph_jsonl_checkpoint.log import files

if TYPE_CHECKING:
    from collections.abc import Callable
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
        paused = await graph.ainvoke(None, CONFIG)
        decision = {"type": "respond", "message": "SECRET decision"}
        # The other one, too, if the error was faster than its result.
        asked = {c["tool_call_id"] for question in paused["__interrupt__"] for c in question.value["calls"]}
        assert "2" in asked
        result = await graph.ainvoke(await adecide(graph, CONFIG, dict.fromkeys(asked, decision)), CONFIG)
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


def texts(root: Path) -> dict[str, bytes]:
    """All that can be read in the files of a folder: as they are, and decompressed as far as they go."""
    found: dict[str, bytes] = {}
    for path in root.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            parts, at = [os.fsencode(path), data], data.find(b"\x28\xb5\x2f\xfd")
            while at >= 0:  # in skippable frames, too
                stream = zstandard.ZstdDecompressor().decompressobj()
                for n in range(at, len(data)):
                    try:
                        parts.append(stream.decompress(data[n : n + 1]))
                    except zstandard.ZstdError:
                        break
                    if stream.eof:
                        break
                at = data.find(b"\x28\xb5\x2f\xfd", at + 1)
            found[f"{path.name} of {path.parent.name}"] = b"".join(parts)
    return found


def killed(work: Callable[[], Any], call: str) -> None:
    """Do something in a process that dies at its first system call of this name."""
    pid = os.fork()
    if not pid:
        setattr(files, call, lambda *_, **__: os._exit(9))
        try:
            work()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


@pytest.mark.parametrize("sealed", [True, False])
def test_no_file_that_is_ever_there_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: bool
) -> None:
    """Logs, packed ones, their index, what a killed creation or packing left, torn ends, copies, writers' files."""
    monkeypatch.setenv("LANGGRAPH_AES_KEY", "0123456789abcdef")
    serde = EncryptedSerializer.from_pycryptodome_aes() if sealed else None

    def born(saver: JsonlSaver) -> None:
        version = saver.get_next_version(None, None)
        made = {"v": 4, "id": "1f000000-0000-6000-8000-000000000000", "ts": "2026", "versions_seen": {}}
        made |= {"channel_values": {"a": ["SECRET state"]}, "channel_versions": {"a": version}}
        saver.put({"configurable": {"thread_id": "born", "checkpoint_ns": ""}}, made, {"note": "SECRET"}, {})

    seen: dict[str, bytes] = {}

    def look(when: str) -> None:
        seen.update({f"{when}: {name}": text for name, text in texts(tmp_path).items()})

    saver = JsonlSaver(tmp_path, serde=serde)
    config = {"configurable": {**CONFIG["configurable"], "parent_thread_id": "parent"}}
    with pytest.raises(ValueError, match="SECRET error"):
        asyncio.run(agent(saver).ainvoke({"messages": [("user", "SECRET goal")]}, config))
    look("live")
    assert len(seen) == 2  # the log, and the writer's file
    saver.close()
    killed(lambda: born(JsonlSaver(tmp_path, serde=serde)), "unlink")
    killed(lambda: JsonlSaver(tmp_path, serde=serde).pack("t"), "rename")
    look("killed")
    assert sum(".new-" in name for name in seen) == 3  # of a creation; and the packed log, with a second name
    log = saver.path("t")
    log.write_bytes(log.read_bytes()[:-9])
    saver = JsonlSaver(tmp_path, serde=serde)
    graph = agent(saver)
    asyncio.run(graph.ainvoke(None, CONFIG))
    answer = decide(graph, CONFIG, {"2": {"type": "reject", "message": "SECRET decision"}})
    asyncio.run(graph.ainvoke(answer, CONFIG))
    assert "SECRET" in str(saver.session_memory("t"))
    look("asked")
    saver.pack("t")
    look("packed")
    saver.copy_thread("t", "copy")
    saver.prune(["copy"])
    look("copied")
    saver.close()
    readable = {name for name, text in seen.items() if b"SECRET" in text or b"U0VDUkVU" in text}
    if sealed:
        assert readable == set()
    else:  # and so the search finds what there is
        for name in (
            "live: session.jsonl",
            "killed: .new-",
            "killed: session",
            "asked: session.jsonl",
            "packed: session.js",
        ):
            assert any(each.startswith(name) for each in readable), name
    assert any("torn" in name for name in seen)
