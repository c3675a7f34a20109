"""Bytes on disk against supersteps: does a thread cost what is new, or all of it again at each step?

Four kinds of state, each of which gets 1 KB of new text in a superstep. The exponent is that of the last
doubling: 1 is a line, 2 a square. SqliteSaver, which stores the whole state at each step, stops at 800.
"""

from __future__ import annotations

import math
import operator
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import workload
from langchain_core.messages import AIMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MARKS = (50, 100, 200, 400, 800, 1600, 3200)
SAVERS: dict[str, tuple[Callable[[Path], Any], int]] = {
    "JsonlSaver": (workload.jsonl("never"), 3200),
    "SqliteSaver": (workload.sqlite, 800),
}


def _message(step: int, text: str) -> list[AIMessage]:
    return [AIMessage(text, id=f"message-{step}")]


def _record(step: int, text: str) -> list[dict[str, Any]]:
    return [{"step": step, "tool": "read_file", "ok": True, "output": text}]


def _file(step: int, text: str) -> dict[str, str]:
    # Every other step writes one of the files anew, spread over all that there are.
    number = step if step % 2 else step * 7919 % (step + 1) | 1
    return {f"src/file_{number}.py": text}


# Kind of state: the type of its channel, and what a step adds to it.
KINDS: dict[str, tuple[Any, Callable[[int, str], Any]]] = {
    "messages": (Annotated[list, add_messages], _message),
    "list of dicts": (Annotated[list, operator.add], _record),
    "dict of files": (Annotated[dict, operator.or_], _file),
    "DeltaChannel": (Annotated[list, DeltaChannel(_messages_delta_reducer)], _message),
}


def bytes_at(marks: tuple[int, ...], kind: str, make: Callable[[Path], Any]) -> Iterator[int]:
    """The bytes on disk after so many supersteps. The saver is closed there: SQLite folds its journal in."""
    channel, add = KINDS[kind]
    source = workload.texts()
    left = steps = 0

    def one() -> dict[str, Any]:
        nonlocal left, steps
        left, steps = left - 1, steps + 1
        return {"x": add(steps, next(source))}

    graph = StateGraph(TypedDict("State", {"x": channel}))
    graph.add_node("work", lambda _: one())
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda _: "work" if left else END)
    with tempfile.TemporaryDirectory() as folder:
        for before, mark in zip((0, *marks), marks, strict=False):
            # A turn stores its input and then its start: two supersteps, one addition.
            left = mark - before - 1
            with make(Path(folder)) as saver:
                graph.compile(checkpointer=saver).invoke(one(), workload.THREAD, durability="sync")
            yield sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def tables() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Bytes and exponents, and what is left of SqliteSaver's bytes."""
    rows, ratios = [], []
    for kind in KINDS:
        found = {}
        for name, (make, most) in SAVERS.items():
            marks = tuple(mark for mark in MARKS if mark <= most)
            sizes = found[name] = dict(zip(marks, bytes_at(marks, kind, make), strict=True))
            exponent = math.log2(sizes[marks[-1]] / sizes[marks[-2]])
            rows.append({"state": kind, "saver": name, "exponent": exponent, **{str(m): sizes.get(m) for m in MARKS}})
        ours, theirs = (found[name][800] for name in SAVERS)
        ratios.append({"state": kind, "JsonlSaver": ours, "SqliteSaver": theirs, "ours, %": 100 * ours / theirs})
    yield "Bytes on disk against supersteps of 1 KB", rows
    yield "Bytes after 800 supersteps of 1 KB", ratios
