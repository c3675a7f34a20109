"""Bytes on disk against supersteps: does a thread cost what is new, or all of it again at each step?

Four kinds of state, each of which gets 1 KB of new text in a superstep. The exponent is that of the last
doubling: 1 is a line, 2 a square. The savers that store the whole state at each step stop at 800. *Live* is a log
that its writer has open; *packed* a copy of it after `pack`.
"""

from __future__ import annotations

import math
import operator
import shutil
from typing import TYPE_CHECKING, Annotated, Any

import figures
import savers
from langchain_core.messages import AIMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from typing_extensions import TypedDict
from workload import config, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MARKS = (50, 100, 200, 400, 800, 1600, 3200)
UP_TO = {"JsonlSaver": 3200}


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


def bytes_at(marks: tuple[int, ...], kind: str, name: str) -> Iterator[dict[str, int]]:
    """The bytes on disk after so many supersteps."""
    channel, add = KINDS[kind]
    source = texts()
    left = steps = 0

    def one() -> dict[str, Any]:
        nonlocal left, steps
        left, steps = left - 1, steps + 1
        return {"x": add(steps, next(source))}

    graph = StateGraph(TypedDict("State", {"x": channel}))
    graph.add_node("work", lambda _: one())
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda _: "work" if left else END)
    with savers.folder() as folder, savers.unsynced(name, folder) as saver:
        compiled = graph.compile(checkpointer=saver)
        for before, mark in zip((0, *marks), marks, strict=False):
            # A turn stores its input and then its start: two supersteps, one addition.
            left = mark - before - 1
            compiled.invoke(one(), config(), durability="sync")
            size = savers.size(saver, folder)
            if name == "JsonlSaver":
                yield {"JsonlSaver, live": size, "JsonlSaver, packed": _packed(folder)}
            else:
                yield {name: size}


def _packed(live: Path) -> int:
    with savers.folder() as folder:
        shutil.copytree(live, folder, dirs_exist_ok=True)
        with savers.STORED["JsonlSaver"](folder) as saver:
            saver.pack("bench")
            return savers.size(saver, folder)


def tables(*, quick: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Bytes and exponents, and what is left of the peers' bytes."""
    most = 200 if quick else 3200
    rows: list[dict[str, Any]] = []
    ratios: list[dict[str, Any]] = []
    found: dict[str, dict[str, dict[int, int]]] = {}
    for kind in KINDS:
        sizes = found[kind] = {}
        for name in savers.STORED:
            marks = tuple(mark for mark in MARKS if mark <= min(most, UP_TO.get(name, 800)))
            for mark, each in zip(marks, bytes_at(marks, kind, name), strict=True):
                for shown, size in each.items():
                    sizes.setdefault(shown, {})[mark] = size
        for shown, at in sizes.items():
            *_, half, last = at
            exponent = math.log2(at[last] / at[half])
            columns = {f"{mark:,}": at.get(mark) for mark in MARKS if mark <= most}
            rows.append({"state": kind, "saver": shown, **columns, "exponent": exponent})
        mark = min(most, 800)
        peers = [name for name in sizes if not name.startswith("JsonlSaver")]
        for shown in sizes:
            if shown not in peers:
                shares = {f"% of {peer}": 100 * sizes[shown][mark] / sizes[peer][mark] for peer in peers}
                ratios.append({"state": kind, "saver": shown, "bytes": sizes[shown][mark], **shares})
    yield "Bytes on disk against supersteps of 1 KB", rows
    yield f"Bytes after {mark} supersteps of 1 KB", ratios
    if not quick:
        figures.growth(found)
