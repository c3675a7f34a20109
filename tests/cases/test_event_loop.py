"""The event loop: async methods never block it, sync methods called inside it do not hang."""

from __future__ import annotations

import asyncio
import gc
import operator
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from blockbuster import BlockBuster, BlockBusterFunction, BlockingError
from filelock import lock_descriptor, unlock_descriptor
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from scripted import ScriptedModel
from typing_extensions import TypedDict

import langgraph_jsonl_checkpoint
from cases.graphs import TwinState, at, both, call, chain, checkpoint, config, ids, sequence
from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.log import files

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

# What blockbuster does not know of, and a log could use.
MORE = [
    "os.open",
    "os.fsync",
    "os.fdatasync",
    "os.pread",
    "os.preadv",
    "os.pwrite",
    "os.pwritev",
    "os.writev",
    "os.ftruncate",
    "os.fstat",
    "os.makedirs",
    "fcntl.flock",
    "fcntl.lockf",
    "mmap.mmap",
    "shutil.rmtree",
]


class Counted(TypedDict):
    seen: Annotated[list[int], operator.add]


async def one(_: Counted) -> Counted:
    """A node."""
    return {"seen": [1]}


@contextmanager
def no_blocking() -> Iterator[None]:
    """Any blocking call that this package makes inside a running event loop raises."""
    buster = BlockBuster(scanned_modules=langgraph_jsonl_checkpoint)
    for name in MORE:
        buster.functions[name] = BlockBusterFunction(None, name, scanned_modules=langgraph_jsonl_checkpoint)
    for name in files.__all__:  # which hold the calls that `os` had when they were imported
        buster.functions[f"files.{name}"] = BlockBusterFunction(
            files, name, scanned_modules=langgraph_jsonl_checkpoint
        )
    gc.collect()  # what other tests left is not closed in here
    buster.activate()
    try:
        yield
    finally:
        buster.deactivate()


@pytest.mark.parametrize("blocking", ["put", "get_tuple"])
async def test_the_guard_catches_a_blocking_call(root: Path, blocking: str) -> None:
    """A sync call in the event loop is caught, so the tests below can fail."""
    saver = JsonlSaver(root)
    await asyncio.to_thread(chain, saver, 1)
    with no_blocking(), pytest.raises(BlockingError):
        chain(saver, 2) if blocking == "put" else saver.get_tuple(config())
    saver.close()


async def _aput(saver: JsonlSaver, place: int, thread: str = "t", ns: str = "", **metadata: Any) -> None:
    stored = checkpoint(at(place), {"items": [place], "messages": [HumanMessage("hi" * 400, id=str(place))]})
    parent = at(place - 1) if place else None
    await saver.aput(config(thread, ns, parent), stored, metadata, stored["channel_versions"])


async def _all(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


@pytest.mark.parametrize("path", ["sessions", None], ids=["relative", "absolute"])
async def test_a_saver_can_be_made_in_the_event_loop(
    root: Path, path: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """langgraph#7857: to make one, in an async function, asks nothing of the disk."""
    monkeypatch.chdir(root.parent)
    with no_blocking():
        async with JsonlSaver(path or root) as saver, JsonlSaver.from_conn_string(path or str(root)) as other:
            await _aput(saver, 0)
            assert (await other.aget_tuple(config())).checkpoint["id"] == at(0)


async def test_no_async_method_blocks_the_event_loop(root: Path) -> None:
    """langgraph#7857: each of them, on a thread that is cold, warm, missing, evicted and deleted."""
    first, second = JsonlSaver(root, fsync="always", max_open=2), JsonlSaver(root, max_open=2)
    with no_blocking():
        await _fill(first)
        await _use_all(second)


async def _fill(saver: JsonlSaver) -> None:
    async with saver:
        for thread in ("t", "u", "v", "w"):
            for place in range(4):
                await _aput(saver, place, thread, run_id=f"run-{place}")
                await saver.aput_writes(config(thread, checkpoint_id=at(place)), [("items", [place])], "task")


async def _use_all(saver: JsonlSaver) -> None:
    async with saver:
        assert (await saver.aget_tuple(config())).checkpoint["id"] == at(3)
        assert (await saver.aget(config(checkpoint_id=at(1))))["channel_values"]["items"] == [1]
        assert await saver.aget_tuple(config("missing")) is None
        assert len(await _all(saver.alist(config(), limit=2))) == 2
        assert len(await _all(saver.alist(None))) == 16
        assert len(await _all(saver.alist(None, filter={"run_id": "run-1"}))) == 4
        where = config(checkpoint_id=at(3))
        history = await saver.aget_delta_channel_history(config=where, channels=["other", "items"])
        assert history["items"]["seed"] == [2]
        await saver.acopy_thread("t", "copy")
        await saver.adelete_for_runs(["run-1"])
        assert ids(await _all(saver.alist(config("copy")))) == [at(3), at(2), at(0)]
        await saver.aprune(["u"], strategy="keep_latest")
        await saver.aprune(["v"], strategy="delete")
        await saver.adelete_thread("w")
        await saver.adelete_thread("w")
        assert len(await _all(saver.alist(None))) == 3 + 3 + 1
        with pytest.raises(ValueError, match="copy"):
            await saver.acopy_thread("t", "copy")
        with pytest.raises(TypeError):
            await saver.aput_writes(config(checkpoint_id=at(3)), [("x", lambda: None)], "task")
        await _aput(saver, 4)
        assert (await saver.aget_tuple(config())).checkpoint["id"] == at(4)


async def test_repairing_a_torn_log_does_not_block_the_event_loop(root: Path) -> None:
    """langgraph#7857: the slow paths too: a torn end is moved aside by an async put."""
    async with JsonlSaver(root) as saver:
        for place in range(3):
            await _aput(saver, place)
    await asyncio.to_thread(_tear, saver.path("t"))
    saver = JsonlSaver(root)
    with no_blocking():
        assert (await saver.aget_tuple(config())).checkpoint["id"] == at(1)
        await _aput(saver, 2)
        assert ids(await _all(saver.alist(config()))) == [at(2), at(1), at(0)]
    saver.close()


def _tear(log: Path) -> None:
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 5)


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word}: " + "meaning " * 80


async def test_a_graph_on_the_event_loop_is_never_blocked(root: Path) -> None:
    """langgraph#7857: a tool-calling agent and an interrupted graph, with ainvoke, from start to end."""
    script = [AIMessage("", tool_calls=[call("lookup", f"c{n}", word=f"w{n}")], id=f"a{n}") for n in range(6)]
    model = ScriptedModel(script=[*script, AIMessage("done", id="end")])
    saver = JsonlSaver(root, fsync="always")
    with no_blocking():
        agent = create_agent(model, [lookup], checkpointer=saver)
        await agent.ainvoke({"messages": [HumanMessage("go", id="h")]}, config("agent"))
        assert len((await agent.aget_state(config("agent"))).values["messages"]) == 14
        assert len([step async for step in agent.aget_state_history(config("agent"))]) == 15

        builder = sequence(TwinState, ("ask", lambda _: both(interrupt("sure?"))))
        graph = builder.compile(checkpointer=saver)
        await graph.ainvoke(both("in"), config())
        await graph.aupdate_state(config("u"), both("by hand"))
        assert await graph.ainvoke(Command(resume="yes"), config()) == both("in", "yes")
    saver.close()


async def test_waiting_for_another_writer_does_not_stop_the_event_loop(root: Path) -> None:
    """langgraph#7857: while another holds the log's lock, an aput waits and the loop goes on."""
    async with JsonlSaver(root) as saver:
        await _aput(saver, 0)
        with saver.path("t").open("r+b") as other:
            lock_descriptor(other.fileno())
            pending = [asyncio.create_task(_aput(saver, place)) for place in (1, 2, 3)]
            for _ in range(20):
                await asyncio.sleep(0.005)
            assert not any(task.done() for task in pending)
            unlock_descriptor(other.fileno())
            await asyncio.wait_for(asyncio.gather(*pending), 30)
        assert ids(await _all(saver.alist(config()))) == [at(3), at(2), at(1), at(0)]


SYNC_CALLS = {
    "get_tuple": (lambda saver: saver.get_tuple(config()).checkpoint["id"], at(2)),
    "get": (lambda saver: saver.get(config(checkpoint_id=at(1)))["id"], at(1)),
    "list": (lambda saver: ids(saver.list(config())), [at(2), at(1), at(0)]),
    "put": (lambda saver: len(chain(saver, 1, thread_id="new")), 1),
    "put_writes": (lambda saver: saver.put_writes(config(checkpoint_id=at(1)), [("x", 1)], "t"), None),
    "get_delta_channel_history": (
        lambda saver: saver.get_delta_channel_history(config=config(), channels=["n"]),
        {"n": {"seed": 1, "writes": []}},
    ),
    "copy_thread": (lambda saver: saver.copy_thread("t", "copy"), None),
    "prune": (lambda saver: saver.prune(["t"]), None),
    "delete_for_runs": (lambda saver: saver.delete_for_runs(["run"]), None),
    "delete_thread": (lambda saver: saver.delete_thread("t"), None),
    "close": (lambda saver: saver.close(), None),
}


@pytest.mark.parametrize("name", SYNC_CALLS)
@pytest.mark.parametrize("used_before", ["sync", "async"])
def test_a_sync_method_inside_a_running_event_loop_returns(root: Path, name: str, used_before: str) -> None:
    """langgraph#7857: also where the same loop used the async methods before; none hangs."""
    act, expected = SYNC_CALLS[name]
    answers: list[Any] = []

    async def main() -> None:
        saver = JsonlSaver(root)
        if used_before == "sync":
            chain(saver, 3)
        else:
            await asyncio.to_thread(chain, saver, 3)
            await saver.aput_writes(config(checkpoint_id=at(0)), [("y", 0)], "t")
            assert (await saver.aget_tuple(config())).checkpoint["id"] == at(2)
        answers.append(act(saver))
        if name != "close":
            await saver.aput_writes(config("after", checkpoint_id=at(0)), [("y", 0)], "t")
            saver.close()

    # A daemon, so that a call that hangs fails this test and not the whole run.
    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), f"{name} hangs"
    assert answers == [expected]


def test_one_saver_serves_several_event_loops(root: Path) -> None:
    """langgraph#7857: asyncio.run again and again, and two loops at once, on one saver."""
    with JsonlSaver(root) as saver:
        for place in range(3):
            asyncio.run(_aput(saver, place))
        loops = [
            threading.Thread(target=lambda thread=thread: asyncio.run(_several(saver, thread)), daemon=True)
            for thread in ("a", "b", "a2")
        ]
        for loop in loops:
            loop.start()
        for loop in loops:
            loop.join(20)
            assert not loop.is_alive()
        assert ids(saver.list(config())) == [at(2), at(1), at(0)]
        for thread in ("a", "b", "a2"):
            assert len([*saver.list(config(thread))]) == 20


async def _several(saver: JsonlSaver, thread: str) -> None:
    await asyncio.gather(*(_aput(saver, place, thread) for place in range(20)))


@pytest.mark.parametrize("nodes", [4, 40])
async def test_nodes_that_wait_for_other_runs_leave_the_saver_its_threads(tmp_path: Path, nodes: int) -> None:
    """They fill asyncio's default threads while they wait for async agents, whose states have yet to be stored."""
    loop = asyncio.get_running_loop()
    async with JsonlSaver(tmp_path) as saver:
        inner = StateGraph(Counted).add_node("leaf", one).add_edge(START, "leaf").compile(checkpointer=saver)

        def work(state: dict[str, int]) -> Counted:
            given: RunnableConfig = {"configurable": {"thread_id": f"inner {state['number']}"}}
            return {
                "seen": asyncio.run_coroutine_threadsafe(inner.ainvoke({"seen": []}, given), loop).result()["seen"]
            }

        graph = StateGraph(Counted).add_node("work", work)
        graph.add_conditional_edges(START, lambda _: [Send("work", {"number": i}) for i in range(nodes)], ["work"])
        outer = graph.compile(checkpointer=saver)
        result = await asyncio.wait_for(outer.ainvoke({"seen": []}, {"configurable": {"thread_id": "outer"}}), 60)
    assert result == {"seen": [1] * nodes}


async def test_a_serde_sees_its_callers_context(tmp_path: Path) -> None:
    """What the caller has set in a context variable is set in the saver's threads, too."""
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody's")
    seen = []

    class Watched(JsonPlusSerializer):
        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            seen.append(tenant.get())
            return super().loads_typed(data)

    async with JsonlSaver(tmp_path, serde=Watched()) as saver:
        tenant.set("ours")
        await saver.aput(config(), checkpoint(at(1), {"a": 1}), {}, {})
        assert await saver.aget_tuple(config()) is not None
    assert set(seen) == {"ours"}
