"""`started` is in the log, and on the disk, before a tool with side effects runs, and behind its checkpoint."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from cases.logs import records
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from guard.scene import AGENTS, CHARGE, CONFIG, LOOKUP, NODES, PAY, Model, go, told
from langgraph_jsonl_checkpoint import JsonlSaver, SessionMiddleware, ToolLogError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", [*AGENTS, *NODES, "subgraph"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
SYNCS = (os.fsync, getattr(os, "fdatasync", None))


@contextlib.contextmanager
def synced(place: Place) -> Iterator[list[int]]:
    """The sizes of the log that have reached the disk, as the interpreter's profiler sees it in every thread."""
    sizes: list[int] = []

    def saw(_: Any, event: str, function: Any) -> None:
        if event == "c_return" and function in SYNCS and place.log.exists():
            sizes.append(place.log.stat().st_size)

    threading.setprofile(saw)
    sys.setprofile(saw)
    try:
        yield sizes
    finally:
        threading.setprofile(None)
        sys.setprofile(None)


class InBody:
    """What was in the log, and on the disk, when the tool's body was entered."""

    def __init__(self, place: Place, sizes: list[int] | None = None) -> None:
        self._place, self._sizes = place, sizes

    def __call__(self) -> None:
        """Look."""
        self.size = self._place.log.stat().st_size
        self.records = records(self._place.log)
        self.synced = max(self._sizes or [0])

    @property
    def statuses(self) -> list[str]:
        """How the calls went until then."""
        return [record["status"] for record in self.records if record["type"] == "tool"]


@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
@pytest.mark.parametrize(
    ("policy", "fsync", "on_disk"),
    [
        ("side_effects", "checkpoint", True),
        ("side_effects", "always", True),
        ("side_effects", "never", False),
        ("read_only", "checkpoint", False),
        ("idempotent", "checkpoint", False),
        ("read_only", "always", True),
        ("idempotent", "always", True),
    ],
)
def test_started_is_on_the_disk_before_the_body(
    place: Place, shape: str, policy: str, fsync: str, on_disk: bool
) -> None:
    """A call with side effects is synced before it runs; one that may run twice only if each call is to be synced."""
    with synced(place) as sizes:
        body = InBody(place, sizes)
        saver: Any = place.saver(fsync=fsync)
        go(
            place.graph(shape, saver=saver, policy={policy: ["charge"]}, bodies={"charge": body}),
            PAY,
            durability="sync",
        )
    assert body.statuses == ["requested", "started"]
    assert (body.synced == body.size) == on_disk


class SlowDisk(JsonlSaver):
    """Stores a checkpoint with an AIMessage only when it is let."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.asked_to = threading.Event()
        self.let = threading.Event()

    def put(self, config: Any, checkpoint: Any, *rest: Any) -> Any:
        """Wait, and store it."""
        self._wait(checkpoint)
        return super().put(config, checkpoint, *rest)

    async def aput(self, config: Any, checkpoint: Any, *rest: Any) -> Any:
        """The same in an event loop."""
        await asyncio.to_thread(self._wait, checkpoint)
        return await super().aput(config, checkpoint, *rest)

    def _wait(self, checkpoint: Any) -> None:
        if any(m.type == "ai" and m.tool_calls for m in checkpoint["channel_values"].get("messages", [])):
            self.asked_to.set()
            assert self.let.wait(20)


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize("limit", [None, 1])
def test_a_call_waits_for_its_checkpoint(place: Place, shape: str, asynchronous: bool, limit: int | None) -> None:
    """Under `async` durability the tool would start before the message that asks for it is stored; it does not."""
    body = InBody(place)
    config: Any = {**CONFIG, "max_concurrency": limit} if limit else CONFIG
    with SlowDisk(place.root / "sessions") as saver:
        graph = place.graph(shape, saver=saver, bodies={"charge": body})
        effects: list[int] = []

        def let() -> None:
            saver.asked_to.wait(20)
            effects.append(place.effects("charge"))
            saver.let.set()

        disk = threading.Thread(target=let)
        disk.start()
        go(graph, PAY, config, asynchronous=asynchronous, durability="async")
        disk.join()
    assert effects == [0]
    requested = next(record for record in body.records if record["type"] == "tool")
    assert requested["checkpoint"] in [r["id"] for r in body.records if r["type"] == "checkpoint"]
    assert body.statuses == ["requested", "started"]


@SHAPES
@BOTH_WAYS
def test_under_exit_a_call_does_not_wait(place: Place, shape: str, asynchronous: bool) -> None:
    """The checkpoint comes when the run ends, so the call is recorded with all its arguments, and runs."""
    body = InBody(place)
    graph = place.graph(shape, bodies={"charge": body}, timeout=20.0)
    result = go(graph, PAY, asynchronous=asynchronous, durability="exit")
    assert told(result["messages"]) == {"charge-1": "charged 40 EUR"}
    assert [record["type"] for record in body.records if record["type"] == "checkpoint"] == []
    (requested,) = [r for r in body.records if r["type"] == "tool" and r["status"] == "requested"]
    assert (requested["name"], requested["args"]) == ("charge", {"euros": 40})


@SHAPES
@BOTH_WAYS
def test_a_checkpoint_that_does_not_come_stops_the_run(place: Place, shape: str, asynchronous: bool) -> None:
    """After `timeout` seconds: the tool is not run, no retry or model gets the error, the call is never started."""
    with SlowDisk(place.root / "sessions") as saver:
        graph = place.graph(shape, saver=saver, timeout=0.05)
        timer = threading.Timer(1.0, saver.let.set)  # LangGraph waits for its puts when it stops
        timer.start()
        with pytest.raises(ToolLogError, match="not stored within"):
            go(graph, PAY, asynchronous=asynchronous, durability="async")
        timer.join()
    assert (len(place.model.requests), place.effects("charge")) == (1, 0)
    assert [r for r in records(place.log) if r["type"] == "tool"] == []
    graph = place.graph(shape)
    result = go(graph, None, asynchronous=asynchronous)
    assert (told(result["messages"]), place.effects("charge")) == ({"charge-1": "charged 40 EUR"}, 1)


@BOTH_WAYS
@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
def test_what_only_reads_waits_for_nothing(place: Place, shape: str, asynchronous: bool) -> None:
    """A read-only call starts at once: no checkpoint has to be there."""
    with SlowDisk(place.root / "sessions") as saver:
        graph = place.graph(
            shape, saver=saver, rounds=[[LOOKUP]], policy={"read_only": ["lookup"]}, bodies={"lookup": saver.let.set}
        )
        result = go(graph, PAY, asynchronous=asynchronous, durability="async")
    assert told(result["messages"]) == {"lookup-1": "order 7: 40 EUR"}


@BOTH_WAYS
def test_another_checkpointers_checkpoint_is_not_waited_for(place: Place, asynchronous: bool) -> None:
    """A guard with a saver of its own, in a graph on another checkpointer, records the calls all the same."""
    saver = place.saver()
    agent = create_agent(
        Model(rounds=[[CHARGE]]),
        place.effects.tools,
        middleware=[SessionMiddleware(saver, memory=False)],
        checkpointer=InMemorySaver(),
    )
    go(agent, PAY, asynchronous=asynchronous)
    (call,) = saver.resume_state("t").tool_calls
    assert (call.status, call.args, call.result_text) == ("completed", {"euros": 40}, "charged 40 EUR")


@BOTH_WAYS
def test_a_hook_that_finds_no_log_stops_the_run(place: Place, asynchronous: bool) -> None:
    """On another checkpointer and without a saver nothing could be recorded, so nothing is run."""
    agent = create_agent(
        Model(rounds=[[CHARGE]]), place.effects.tools, middleware=[SessionMiddleware()], checkpointer=InMemorySaver()
    )
    with pytest.raises(ToolLogError, match="InMemorySaver"):
        go(agent, PAY, asynchronous=asynchronous)
    assert place.effects("charge") == 0
