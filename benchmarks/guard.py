"""What the guard costs: the time of a turn with one tool call, under a bare ToolNode and under a guarded one.

The graphs are the same but for the guard, each on a JsonlSaver of its own; their turns are interleaved in an order
that changes. The tool returns at once, so the ratios are the worst there are: a real tool, and a real model, take
their own time on both sides. The guard's own time is all that passes inside it and outside the tool. Under
`durability="async"` that includes waiting: a call with side effects for the checkpoint that asked for it, any call
for the log while that checkpoint is written. A bare graph waits for it at the end of its turn.
"""

from __future__ import annotations

import contextlib
import gc
import random
import tempfile
import time
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import savers
import workload
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from langgraph_jsonl_checkpoint import ToolGuard, ToolPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TURNS = 200
TURNS_OF_A_THREAD = 20
POLICIES: dict[str, ToolPolicy | None] = {
    "bare ToolNode": None,
    "read-only": ToolPolicy(read_only=["work"]),
    "side effects": ToolPolicy(side_effects=["work"]),
}


def outside(wrap: Callable[..., Any], taken: list[float]) -> Callable[..., Any]:
    """The same wrapper; the seconds that it takes without its tool are appended to `taken`."""

    def timed(request: Any, handler: Callable[[Any], Any]) -> Any:
        inside = 0.0

        def run(same: Any) -> Any:
            nonlocal inside
            started = time.perf_counter()
            result = handler(same)
            inside += time.perf_counter() - started
            return result

        started = time.perf_counter()
        result = wrap(request, run)
        taken.append(time.perf_counter() - started - inside)
        return result

    return timed


def turn(saver: Any, policy: ToolPolicy | None, durability: Any, own: list[float]) -> Callable[[], float]:
    """A graph that calls one tool for each question; each call is one turn, and returns its seconds."""
    source = workload.texts()
    calls = count()

    def work(path: str, start: int) -> str:  # noqa: ARG001 - the model's arguments
        """Does nothing, and has much to say about it."""
        return next(source)

    def model(_: MessagesState) -> dict[str, Any]:
        number = next(calls)
        arguments = {"path": f"src/module_{number % 97}.py", "start": number}
        call = {"name": "work", "id": f"call_{number:024}", "args": arguments}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    wrap = None if policy is None else outside(ToolGuard(saver, policy=policy).wrap_tool_call, own)
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([work], wrap_tool_call=wrap))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    graph.add_edge("tools", END)
    compiled = graph.compile(checkpointer=saver)
    turns = count()

    def say() -> float:
        config = {"configurable": {"thread_id": f"bench-{next(turns) // TURNS_OF_A_THREAD}"}}
        question = {"messages": [HumanMessage(next(source)[:300])]}
        started = time.perf_counter()
        compiled.invoke(question, config, durability=durability)
        return time.perf_counter() - started

    return say


def played(fsync: str, durability: str, turns: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of each turn, and of the guard in it."""
    taken: dict[str, list[float]] = {name: [] for name in POLICIES}
    own: dict[str, list[float]] = {name: [] for name in POLICIES}
    order = list(POLICIES)
    shuffle = random.Random(fsync + durability).shuffle
    with contextlib.ExitStack() as stack:
        chats = {}
        for name, policy in POLICIES.items():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            saver = stack.enter_context(savers.jsonl(fsync)(folder))
            chats[name] = turn(saver, policy, durability, own[name])
        # A collection would be charged to whoever runs then: it is made between the rounds, and of what is new only.
        gc.collect()
        gc.freeze()
        for _ in range(turns):
            gc.collect()
            shuffle(order)
            for name in order:
                taken[name].append(chats[name]())
        gc.unfreeze()
    return taken, own


def tables(*, quick: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Medians of turns with one call."""
    turns = TURNS // 4 if quick else TURNS
    rows = []
    for fsync in ("checkpoint", "never"):
        for durability in ("sync", "async"):
            taken, own = played(fsync, durability, turns)
            bare = median(taken["bare ToolNode"])
            rows += [
                {
                    "fsync": fsync,
                    "durability": durability,
                    "call": name,
                    "turn": 1e3 * median(times),
                    "turn / bare": median(times) / bare,
                    "guard's own": 1e3 * median(own[name]) if own[name] else None,
                    "guard's own / bare turn": median(own[name]) / bare if own[name] else None,
                }
                for name, times in taken.items()
            ]
    yield f"What the guard costs a turn with one tool call (medians of {turns} in ms)", rows
