"""The warm program of the crash tests; an order is what one process says to the agent, and where it dies."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import warm
from langgraph.errors import EmptyInputError

from crash.scene import CONFIG, Places, build, plain, watched
from langgraph_jsonl_checkpoint import ToolPolicy, adecide, decide


def work(report: warm.Report, **order: Any) -> None:
    """Ask the agent something, or go on by the thread's id alone, or answer what it asked."""
    root, durability = Path(order["root"]), order["durability"]
    own_task = order["shape"] != "tool_node"  # a ToolNode of one's own stores the results of all calls at once
    before = []
    if not (order["decisions"] and own_task):  # otherwise lookup is not called again
        before.append("lookup returned")
    if durability != "exit" and own_task and not order["decisions"]:
        before.append("result stored")
    if durability != "exit" and order["place"] == "requested":  # charge_card itself waits for that before it starts
        before.append("request stored")
    late = (
        durability == "async"
        and bool(order["place"])
        and not order["decisions"]
        and order["lookup"] != "side_effects"
    )
    places = Places(order["place"], before, late=late)
    policy = ToolPolicy(**{order["lookup"]: ["lookup"]})

    async def arun(graph: Any, given: Any) -> Any:
        given = await adecide(graph, CONFIG, order["decisions"]) if order["decisions"] else given
        return await graph.ainvoke(given, CONFIG, durability=durability)

    def run(graph: Any, given: Any) -> Any:
        given = decide(graph, CONFIG, order["decisions"]) if order["decisions"] else given
        return graph.invoke(given, CONFIG, durability=durability)

    with watched(places, root / "sessions") as saver:
        graph = build(order["shape"], saver, root, places, policy, report)
        given = {"messages": [("user", order["message"])]} if order["message"] else None
        try:
            result = asyncio.run(arun(graph, given)) if order["asynchronous"] else run(graph, given)
        except EmptyInputError:
            report("nothing stored")
            return
        if questions := result.get("__interrupt__"):
            report("asked", questions=[question.value for question in questions])
        else:
            report("end", messages=[plain(message) for message in result["messages"]])


if __name__ == "__main__":
    warm.serve(functools.partial(warm.run, work))
