"""The warm program of the guard tests, whose processes die in a tool, or wait in one.

An order is the options of `work`. The answer is how its process ended and what it reported, or what it reported
until then when it waits in a tool. Such a process goes on meanwhile; its id is an order to wait for its end.
"""

from __future__ import annotations

import functools
import sys
import threading
from pathlib import Path
from typing import Any

import warm
from langgraph.types import Command, interrupt

from guard.scene import CONFIG, PAY, Effects, Finished, Model, agents_as_tools, build, go
from langgraph_jsonl_checkpoint import JsonlSaver, SessionRecorder, ToolPolicy, decide

WAITS = "waits"


def work(
    report: warm.Report,
    *,
    root: str,
    rounds: list[list[dict[str, Any]]],
    dies: dict[str, list[str]],
    raises: list[str],
    holds: list[str],
    asks: dict[str, list[str]],
    keeps: list[str],
    records: bool,
    policy: dict[str, list[str]],
    resumes: bool,
    answer: Any,
    decisions: dict[str, Any],
    way: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Run the agent.

    Args:
        report: Tells the test something.
        root: The folder.
        rounds: What the model asks for.
        dies: The tools in which the process dies, when all of them are there, and the calls that must be over before.
        raises: The tools that raise when they have had their effect.
        holds: The tools that then wait until somebody writes to the pipe beside their effects.
        asks: The tools that ask a human before they have their effect, and the calls that must be over before that.
        keeps: The tools whose calls never come to the guard.
        records: Whether a SessionRecorder is there.
        policy: For ToolPolicy.
        resumes: Whether the thread goes on by its id.
        answer: What a human says to the one question that there is.
        decisions: What a human says about uncertain calls.
        way: For `go`.
        options: For `build`.
    """
    finished = Finished(keeps)
    folder = Path(root)

    there = threading.Barrier(max(len(dies), 1), timeout=20)

    inside = {tool: threading.Event() for tool in dies}

    def die(tool: str, after: list[str]) -> None:
        inside[tool].set()
        there.wait()
        for other in after:
            finished.wait_for(other)
        warm.die()

    def ask(tool: str, after: list[str]) -> Any:
        for other in after:
            finished.wait_for(other)
        # ToolNode gives up the calls that have not begun when one of them asks.
        for other, event in inside.items():
            if other != tool and not event.wait(20):
                raise TimeoutError(other)
        return interrupt(f"{tool}?")

    def fail() -> None:
        raise RuntimeError("the bank hung up")

    def hold() -> None:
        report(WAITS)
        with open(folder / "pipe", "rb") as pipe:
            pipe.read(1)

    bodies = {tool: functools.partial(die, tool, after) for tool, after in dies.items()}
    bodies |= {f"before {tool}": functools.partial(ask, tool, after) for tool, after in asks.items()}
    effects = Effects(folder, bodies | dict.fromkeys(raises, fail) | dict.fromkeys(holds, hold))
    model = Model(rounds=rounds, fresh_ids=options.pop("fresh_ids", False))
    with JsonlSaver(folder / "sessions") as saver:
        graph = build(
            options.pop("shape"),
            saver,
            effects.tools,
            model,
            finished=finished,
            policy=ToolPolicy(**policy),
            **options,
        )
        given: Any = None if resumes else PAY
        if decisions:
            given = decide(graph, CONFIG, decisions)
        elif answer is not None:
            given = Command(resume=answer)
        recorder = [SessionRecorder(saver, policy=ToolPolicy(**policy))] if records else []
        go(graph, given, {**CONFIG, "callbacks": recorder}, **way)
    sys.exit()  # a process that ends in good order gives its lock back


def die_in_an_agent(_: warm.Report, *, agents: str, deep: bool) -> None:
    """Die in `mail`, which one agent called as a tool runs, before the other has begun; `agents` is the folder."""
    effects = Effects(Path(agents), {"mail": warm.die})
    with JsonlSaver(Path(agents) / "sessions") as saver:
        go(agents_as_tools(effects, saver, late="alpha", until=threading.Event().wait, deep=deep), PAY)


def obey(order: dict[str, Any]) -> dict[str, Any]:
    """Start a process, or wait for one."""
    if "pid" in order:
        return {"code": warm.end(order["pid"])}
    pid, coming = warm.fork(die_in_an_agent if "agents" in order else work, order)
    reports = []
    for report in coming:
        reports.append(report)
        if report["kind"] == WAITS:
            return {"pid": pid, "code": None, "reports": reports}
    return {"pid": pid, "code": warm.end(pid), "reports": reports}


if __name__ == "__main__":
    warm.serve(obey)
