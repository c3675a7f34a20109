"""Calls of `resume_or_invoke` for one thread take turns, whichever process they are in."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from langgraph_jsonl_checkpoint import JsonlSaver, aresume_or_invoke, resume_or_invoke
from restore.scene import THREAD, agent, asks, config, named, plain, said, talk

if TYPE_CHECKING:
    from pathlib import Path

    from restore.conftest import Program

DONE = [("human", "buy"), ("ai", ""), ("tool", "bought"), ("ai", "done")]


def buyer(saver: JsonlSaver, done: list[str]) -> Any:
    """An agent with a slow tool that must run once."""

    def buy(what: str) -> str:
        time.sleep(0.1)
        done.append(what)
        return "bought"

    return agent(saver, [asks(("c", "buy", {"what": "it"})), "done"], [named("buy", buy)])


@pytest.mark.parametrize("later", [0, 0.05, 0.3])
def test_a_job_that_is_delivered_to_several_workers_is_done_once(root: Path, later: float) -> None:
    """Each has a saver of its own; the others wait, and then there is nothing to do: they get what came of it."""
    done: list[str] = []

    def work(number: int) -> Any:
        time.sleep(number * later)
        with JsonlSaver(root) as saver:
            return resume_or_invoke(buyer(saver, done), said("buy"), config(), input_id="job")

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    assert [plain(each["messages"]) for each in results] == [DONE] * 4
    assert done == ["it"]


async def test_tasks_of_one_event_loop_take_turns(root: Path) -> None:
    """Nobody holds the loop up while he waits; another thread's job goes on meanwhile."""
    done: list[str] = []
    async with JsonlSaver(root) as saver:
        graph = buyer(saver, done)
        jobs = [aresume_or_invoke(graph, said("buy"), config(), input_id="job") for _ in range(3)]
        results = await asyncio.gather(
            *jobs, aresume_or_invoke(graph, said("buy"), config("another"), input_id="job")
        )
    assert [plain(each["messages"]) for each in results] == [DONE] * 4
    assert done == ["it", "it"]


def test_a_job_goes_on_when_the_process_that_has_its_turn_dies(program: Program, root: Path) -> None:
    """Who waits is next at once, and finishes the run that was killed."""
    program.kill("apply_input", root, input_id="mail-1", text="buy 1", durability="sync", when="after", count=3)
    (left,) = (root / ".leases" / "default").iterdir()  # it means nothing
    assert left.stat().st_mode & 0o777 == 0o600
    with JsonlSaver(root) as saver:
        graph = talk(saver, ["one"])
        lease = saver.lease(THREAD)
        assert lease.take()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(resume_or_invoke, graph, said("hi"), config(), input_id="2")
            time.sleep(0.2)
            assert not waiting.done()
            lease.drop()  # as the kernel does when a process dies
            assert waiting.result(20)
    assert list((root / ".leases" / "default").iterdir()) == []


def test_a_deleted_thread_leaves_no_lease(program: Program, root: Path) -> None:
    """What a killed process left of its turn goes with the thread; a turn that somebody has is his."""
    program.kill("apply_input", root, input_id="mail-1", text="buy 1", durability="sync", when="after", count=3)
    with JsonlSaver(root) as saver:
        lease = saver.lease(THREAD)
        assert lease.take()
        saver.delete_thread(THREAD)
        assert len(list((root / ".leases" / "default").iterdir())) == 1
        lease.drop()
        saver.delete_thread(THREAD)
    assert list((root / ".leases" / "default").iterdir()) == []


async def test_who_is_cancelled_while_he_waits_takes_no_turn(root: Path) -> None:
    """The next one is not kept waiting for it."""
    async with JsonlSaver(root) as saver:
        lease = saver.lease(THREAD)
        assert await asyncio.to_thread(lease.take)
        graph = talk(saver, ["one"])
        waiting = asyncio.create_task(aresume_or_invoke(graph, said("hi"), config(), input_id="1"))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.to_thread(lease.give_back)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        result = await asyncio.wait_for(aresume_or_invoke(graph, said("hi"), config(), input_id="1"), 20)
        assert plain(result["messages"]) == [("human", "hi"), ("ai", "one")]


@pytest.mark.parametrize("thread", [THREAD, "another"])
def test_a_run_inside_of_a_run_of_the_same_thread_is_refused(root: Path, thread: str) -> None:
    """It would wait for itself for ever; one of another thread goes its way."""
    with JsonlSaver(root) as saver:

        def call(what: str) -> str:
            inner = resume_or_invoke(talk(saver, ["inner"]), said("hi"), config(thread), input_id="inner")
            return str(inner["messages"][-1].text)

        graph = agent(saver, [asks(("c", "call", {})), "done"], [named("call", call)])
        if thread == THREAD:
            with pytest.raises(RuntimeError, match="around this call"):
                resume_or_invoke(graph, said("hi"), config(), input_id="1")
        else:
            result = resume_or_invoke(graph, said("hi"), config(), input_id="1")
            assert plain(result["messages"])[2] == ("tool", "inner")
        assert saver.lease(THREAD).take()


def test_many_who_take_turns_are_never_two(root: Path) -> None:
    """The file is removed with each turn; a lock on a removed file is no turn."""
    saver, inside, most = JsonlSaver(root), [0], [0]
    count = threading.Lock()

    def work(_: int) -> None:
        lease = saver.lease(THREAD)
        for _ in range(50):
            while not lease.take():
                time.sleep(0)
            with count:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0)
            with count:
                inside[0] -= 1
            lease.give_back()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert most == [1]
    assert list((root / ".leases" / "default").iterdir()) == []
