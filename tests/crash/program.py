"""The program that the crash tests kill: imports once, reads orders on stdin, forks a process for each.

An order is one line of JSON; the answer, on stdout, is how that process ended and what it had reported until then.
It starts no thread itself, so that forking is safe.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from langgraph.errors import EmptyInputError

from crash.scene import CONFIG, Places, build, plain, watched
from langgraph_jsonl_checkpoint import ToolPolicy, adecide, decide


def work(order: dict[str, Any], pipe: int) -> None:
    """Ask the agent something, or go on by the thread's id alone, or answer what it asked."""

    def report(kind: str, **fields: Any) -> None:
        os.write(pipe, json.dumps({"kind": kind, **fields}).encode() + b"\n")

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


def obey(order: dict[str, Any]) -> dict[str, Any]:
    """Fork a process for an order and tell how it ended."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(reader)
        signal.alarm(30)  # a process that hangs fails its own test only
        try:
            work(order, writer)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as lines:
        reports = [json.loads(line) for line in lines]
    _, status = os.waitpid(pid, 0)
    return {"code": os.waitstatus_to_exitcode(status), "reports": reports}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line))), flush=True)  # noqa: T201 (stdout is how it answers)
