"""Cost: the work and the memory of a call follow what it is about, and pruned bytes go back to the disk."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any, Self

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from cases.graphs import (
    DeltaChatState,
    at,
    chain,
    checkpoint,
    config,
    prose,
    put,
    sequence,
)
from cases.logs import frames
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from pathlib import Path


def _read_by_this_process() -> int:
    with open("/proc/self/io", encoding="ascii") as counters:
        return next(int(line.split()[1]) for line in counters if line.startswith("rchar"))


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="needs /proc")
def test_a_list_of_a_hundred_reads_the_log_once(root: Path) -> None:
    """langgraph#7263: not once per checkpoint; and on a thread that is open nothing is read again."""
    with JsonlSaver(root, fsync="never") as saver:
        for place in range(300):
            values = {"text": prose(place, 2000)}
            put(saver, at(place), values, parent=at(place - 1) if place else None)
            saver.put_writes(config(checkpoint_id=at(place)), [("x", place)], "task")
        size = saver.path("t").stat().st_size
    with JsonlSaver(root) as saver:
        before = _read_by_this_process()
        assert len([*saver.list(config(), limit=100)]) == 100
        cold = _read_by_this_process()
        assert len([*saver.list(config(), limit=100)]) == 100
        assert saver.get_tuple(config(checkpoint_id=at(3))).checkpoint["channel_values"] == {"text": prose(3, 2000)}
        warm = _read_by_this_process()
    assert cold - before < 1.5 * size
    assert warm - cold < 0.5 * size


class Costly:
    """A value of which it is counted how often a saver builds it."""

    built = 0

    def __init__(self, **fields: Any) -> None:
        Costly.built += 1

    def dict(self) -> dict[str, Any]:
        """What the serializer stores of it, as of a model of pydantic's first version."""
        return {"text": "long enough to be stored on its own, " * 12}


@pytest.mark.parametrize("channels", [1, 40])
def test_a_walk_over_ancestors_builds_no_value_that_nobody_asks_for(root: Path, channels: int) -> None:
    """A DeltaChannel's history is read from the ancestors, and so is the state of a thread without messages."""
    with JsonlSaver(root, fsync="never") as saver:
        for place in range(30):
            values = {f"a channel among many {n}": [Costly(), place] for n in range(channels)}
            put(saver, at(place), values, parent=at(place - 1) if place else None)
        Costly.built = 0
        saver.resume_state("t")
        saver.get_delta_channel_history(config=config(), channels=["delta"])
        assert Costly.built == 0


@pytest.mark.parametrize("subgraphs", [False, True], ids=["nodes", "subgraphs"])
def test_a_tasks_writes_cost_the_same_however_many_tasks_ran_beside_it(root: Path, subgraphs: bool) -> None:
    """A fan-out of a thousand tasks, each a node, or a subgraph with checkpoints of its own."""
    peaks: list[int] = []
    with JsonlSaver(root, fsync="never") as saver:
        parent = put(saver, at(0), {"text": "x"})
        for task in range(1000):
            if subgraphs:
                saver.put_writes(put(saver, at(1), {"text": "y"}, ns=f"sub:{task}"), [("z", 1)], "inner")
            if task % 900 != 99:
                saver.put_writes(parent, [("rows", [task])], f"task {task}")
                continue
            tracemalloc.start()
            saver.put_writes(parent, [("rows", [task])], f"task {task}")
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    early, late = peaks
    assert late < 2 * early


BIG = """
import random, resource, sys
from cases.graphs import at, config, put
from langgraph_jsonl_checkpoint import JsonlSaver
root, kind = sys.argv[1:]
megabyte = 2**20
source = random.Random(1)
value = source.randbytes(64 * megabyte) if kind == "bytes" else source.randbytes(32 * megabyte).hex()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
base = peak()
with JsonlSaver(root) as saver:
    put(saver, at(0), {"big": value})
wrote = peak()
with JsonlSaver(root) as saver:
    found = saver.get_tuple(config()).checkpoint["channel_values"]["big"]
assert found == value and type(found) is type(value)
print((wrote - base) / megabyte, (peak() - base) / megabyte)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux")
@pytest.mark.parametrize("kind", ["text", pytest.param("bytes", marks=pytest.mark.slow)])
def test_a_value_of_64_megabytes_takes_a_few_times_its_size(root: Path, kind: str) -> None:
    """LibreChat PR#14157: there and back in a process of its own, whose peak memory is measured."""
    child = subprocess.run(
        [sys.executable, "-c", BIG, str(root), kind],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    wrote, read = map(float, child.stdout.split())
    # Bytes are base64 in JSON: a third more, in each of the forms that a value passes through.
    assert wrote <= (6 if kind == "text" else 8) * 64
    assert read <= (6 if kind == "text" else 8) * 64


class SystemCalls:
    """Counts what this thread asks of the system, as the interpreter's profiler sees it."""

    def __enter__(self) -> Self:
        self.syncs = self.writes = 0
        sys.setprofile(self._saw)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _saw(self, _: Any, event: str, function: Any) -> None:
        if event == "c_call":
            self.syncs += function in (os.fsync, getattr(os, "fdatasync", None))
            self.writes += function in (os.write, os.pwrite, os.writev, getattr(os, "pwritev", None))


@pytest.mark.parametrize(("fsync", "put_writes", "puts"), [("always", 1, 1), ("checkpoint", 0, 1), ("never", 0, 0)])
def test_fifty_writes_are_one_append_and_one_sync(root: Path, fsync: str, put_writes: int, puts: int) -> None:
    """aws#766: fifty writes in one call, fifty channels in one checkpoint: one frame and one sync each."""
    with JsonlSaver(root, fsync=fsync) as saver:
        chain(saver, 2)
        log = saver.path("t")
        before = len(frames(log))
        writes = [("x", {"n": n, "text": prose(n, 900)}) for n in range(50)]
        stored = checkpoint(at(2), {f"c{n}": [prose(n + 100, 900)] for n in range(50)})
        with SystemCalls() as calls:
            saver.put_writes(config(checkpoint_id=at(1)), writes, "t")
        assert (len(frames(log)) - before, calls.writes, calls.syncs) == (1, 1, put_writes)
        with SystemCalls() as calls:
            saver.put(config(checkpoint_id=at(1)), stored, {}, stored["channel_versions"])
        assert (len(frames(log)) - before, calls.writes, calls.syncs) == (2, 1, puts)
        assert len(saver.get_tuple(config(checkpoint_id=at(1))).pending_writes) == 50


def test_a_pruned_thread_of_ten_thousand_steps_gives_its_space_back(root: Path) -> None:
    """deer-flow#3011, alkemio#1972: what is left is what the newest step needs."""
    source = random.Random(3)
    with JsonlSaver(root, fsync="never") as saver:
        base = prose("kept", 4000)
        for place in range(10_000):
            values = {"kept": base, "scratch": f"{place} {source.randbytes(250).hex()}", "n": place}
            put(saver, at(place), values, parent=at(place - 1) if place else None)
        log = saver.path("t")
        before = log.stat().st_size
        newest = saver.get_tuple(config())
        saver.prune(["t"])
        assert log.stat().st_size < 8000 < before / 100
        assert sum(item.stat().st_size for item in log.parent.iterdir()) == log.stat().st_size
        assert saver.get_tuple(config()) == newest._replace(parent_config=None)
    with JsonlSaver(root) as saver:
        assert saver.get_tuple(config()) == newest._replace(parent_config=None)
        put(saver, at(10_001), {"n": 1}, parent=at(9999))
        assert len([*saver.list(config())]) == 2


def test_a_pruned_delta_thread_gives_its_space_back(root: Path) -> None:
    """alkemio#1972: a DeltaChannel thread too keeps what its state needs and not what every step was."""
    with JsonlSaver(root, fsync="never") as saver:
        reply = lambda values: {"messages": [AIMessage(prose(len(values["messages"]), 1000))]}
        graph = sequence(DeltaChatState, ("reply", reply)).compile(checkpointer=saver)
        for number in range(150):
            graph.invoke({"messages": [HumanMessage(prose(-number, 1000))]}, config())
        before = graph.get_state(config()).values
        full = saver.path("t").stat().st_size
        saver.prune(["t"])
        needed = sum(len(message.content) for message in before["messages"])
        assert graph.get_state(config()).values == before
        assert saver.path("t").stat().st_size < min(full, needed)
