"""Runs that fail, are cancelled or are killed: what was stored stays, and nothing is made up."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from filelock import lock_descriptor, unlock_descriptor
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from scripted import ScriptedModel

from cases.graphs import (
    TwinState,
    at,
    both,
    call,
    chain,
    checkpoint,
    config,
    is_twin,
    parallel,
    sequence,
    wait_for_writes,
)
from cases.logs import records
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("way", ["sync", "async"])
def test_one_of_thirty_nodes_fails_and_the_writes_of_the_others_are_stored(root: Path, way: str) -> None:
    """langgraph#8115: 29 siblings are not run again after the failure."""
    runs: list[int] = []

    def node(number: int) -> Any:
        def run(_: Any) -> dict[str, list]:
            if number == 17 and 17 not in runs:
                wait_for_writes(saver, "plain", 29)
                runs.append(number)
                raise RuntimeError("seventeen")
            runs.append(number)
            return both(number)

        return run

    builder = parallel(TwinState, *((f"n{number:02}", node(number)) for number in range(30)))
    with JsonlSaver(root) as saver:
        graph = builder.compile(checkpointer=saver)
        with pytest.raises(RuntimeError, match="seventeen"):
            graph.invoke(both(), config()) if way == "sync" else asyncio.run(graph.ainvoke(both(), config()))
    with JsonlSaver(root) as saver:
        stored = [write for write in saver.get_tuple(config()).pending_writes if write[1] == "plain"]
        assert [value for _, _, value in stored] == [[n] for n in range(30) if n != 17]
        assert len({name for name, _, _ in stored}) == 29
        graph = builder.compile(checkpointer=saver)
        assert graph.invoke(None, config()) == both(*range(30))
    assert sorted(runs) == sorted([*range(30), 17])


@pytest.mark.parametrize("method", ["aput", "aput_writes"])
async def test_a_cancelled_save_is_whole_or_absent(root: Path, method: str) -> None:
    """langgraph#5672: the caller is cancelled while the save waits in its thread for another's lock."""
    async with JsonlSaver(root) as saver:
        await asyncio.to_thread(chain, saver, 2)
        before = await saver.aget_tuple(config())
        stored = checkpoint(at(2), {"x": ["new"] * 200})
        with saver.path("t").open("r+b") as other:
            lock_descriptor(other.fileno())
            if method == "aput":
                save = saver.aput(config(checkpoint_id=at(1)), stored, {}, stored["channel_versions"])
            else:
                save = saver.aput_writes(config(checkpoint_id=at(1)), [("x", "new"), ("y", "new")], "task")
            pending = asyncio.create_task(save)
            await asyncio.wait([pending], timeout=0.1)
            assert not pending.done()
            pending.cancel()
            unlock_descriptor(other.fileno())
            with pytest.raises(asyncio.CancelledError):
                await pending
        after = await saver.aget_tuple(config())
        await saver.aput_writes(config(checkpoint_id=at(0)), [("z", 1)], "later")
    with JsonlSaver(root) as saver:
        found = saver.get_tuple(config())
        assert saver.get_tuple(config(checkpoint_id=at(0))).pending_writes == [("later", "z", 1)]
        records(saver.path("t"))
    writes = [("task", "x", "new"), ("task", "y", "new")]
    for seen in (after, found):
        if method == "aput":
            assert seen == before or seen.checkpoint["channel_values"] == {"x": ["new"] * 200}
        else:
            assert seen == before or seen.pending_writes == writes


async def test_a_cancelled_run_keeps_the_writes_of_the_finished_sibling(root: Path) -> None:
    """langgraph#5672, #6950: one node is done, the other is running; only that one runs again."""
    runs: list[str] = []
    stuck = asyncio.Event()

    async def slow(_: Any) -> dict[str, list]:
        runs.append("slow")
        if runs.count("slow") == 1:
            await asyncio.to_thread(wait_for_writes, saver, "plain", 1)
            stuck.set()
            await asyncio.Event().wait()
        return both("slow")

    async def fast(_: Any) -> dict[str, list]:
        runs.append("fast")
        return both("fast")

    builder = parallel(TwinState, ("fast", fast), ("slow", slow))
    async with JsonlSaver(root) as saver:
        run = asyncio.create_task(builder.compile(checkpointer=saver).ainvoke(both("in"), config()))
        await asyncio.wait_for(stuck.wait(), 20)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    async with JsonlSaver(root) as saver:
        found = await saver.aget_tuple(config())
        assert [value for _, name, value in found.pending_writes if name == "plain"] == [["fast"]]
        assert await builder.compile(checkpointer=saver).ainvoke(None, config()) == both("in", "fast", "slow")
    assert sorted(runs) == ["fast", "slow", "slow"]


@pytest.mark.parametrize("turns", range(0, 48, 3))
async def test_a_run_cancelled_at_any_moment_can_be_resumed(root: Path, turns: int) -> None:
    """langgraph#6950: cancelled after so many turns of the event loop; the end is that of a whole run."""

    def node(name: str) -> Any:
        async def run(_: Any) -> dict[str, list]:
            await asyncio.sleep(0)
            return both(name)

        return run

    builder = sequence(TwinState, *((name, node(name)) for name in "abc"))
    async with JsonlSaver(root, fsync="never") as saver:
        run = asyncio.create_task(builder.compile(checkpointer=saver).ainvoke(both("in"), config()))
        for _ in range(turns):
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait([run])
    async with JsonlSaver(root) as saver:
        graph = builder.compile(checkpointer=saver)
        for step in [step async for step in graph.aget_state_history(config())]:
            assert is_twin(step.values)
        state = await graph.aget_state(config())
        await graph.ainvoke(both("in") if state.created_at is None else None, config())
        assert (await graph.aget_state(config())).values == both("in", "a", "b", "c")
        records(saver.path("t"))


KILLED = """
import os, signal, sys
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from cases.graphs import call, config, wait_for_writes
from langgraph_jsonl_checkpoint import JsonlSaver
from scripted import ScriptedModel
saver = JsonlSaver(sys.argv[1])

@tool
def quick(n: int) -> str:
    "Answers."
    return f"quick {n}"

@tool
def deadly(n: int) -> str:
    "Kills its process, once its sibling's result is stored."
    wait_for_writes(saver, "messages", 1)
    os.kill(os.getpid(), signal.SIGKILL)

calls = [call("quick", "c1", n=1), call("deadly", "c2", n=2), call("deadly", "c3", n=3)]
model = ScriptedModel(script=[AIMessage("calling", id="a1", tool_calls=calls)])
agent = create_agent(model, [quick, deadly], checkpointer=saver)
agent.invoke({"messages": [HumanMessage("go", id="h1")]}, config(), durability="sync")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_unanswered_tool_calls_come_back_as_they_were_stored(root: Path) -> None:
    """langgraph#4289, langchain-aws#837: the saver invents no answer, drops no call and repairs nothing."""
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(root)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    ran: list[int] = []

    @tool
    def quick(n: int) -> str:
        """Must not run again: its result is stored."""
        raise AssertionError("quick ran again")

    @tool
    def deadly(n: int) -> str:
        """Lives this time."""
        ran.append(n)
        return f"deadly {n}"

    calls = [call("quick", "c1", n=1), call("deadly", "c2", n=2), call("deadly", "c3", n=3)]
    asked = [HumanMessage("go", id="h1"), AIMessage("calling", id="a1", tool_calls=calls)]
    with JsonlSaver(root, restore_memory="never") as saver:
        found = saver.get_tuple(config())
        assert found.checkpoint["channel_values"]["messages"] == asked
        ((answer,),) = [value for _, name, value in found.pending_writes if name == "messages"]
        assert (type(answer), answer.content, answer.tool_call_id) == (ToolMessage, "quick 1", "c1")
        model = ScriptedModel(script=[asked[1], AIMessage("done", id="a2")])
        agent = create_agent(model, [quick, deadly], checkpointer=saver)
        final = agent.invoke(None, config())["messages"]
    assert sorted(ran) == [2, 3]
    assert [message.content for message in final] == [
        "go",
        "calling",
        "quick 1",
        "deadly 2",
        "deadly 3",
        "done",
    ]
