"""The program whose processes die in a tool: imports once, reads orders on stdin, forks a process for each.

It starts no thread itself, so that forking is safe. An order is one line of JSON, the options of `work`. The answer
is what the process reported first, or how it ended; a process that waits in a tool goes on meanwhile.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from langgraph.types import Command, interrupt

from guard.scene import CONFIG, PAY, Effects, Finished, Model, build, go
from langgraph_jsonl_checkpoint import JsonlSaver, SessionRecorder, ToolPolicy, decide

READY = "ready"


def work(
    report: Any,
    *,
    root: str,
    rounds: list[list[dict[str, Any]]],
    dies: dict[str, list[str]],
    raises: list[str],
    holds: list[str],
    asks: list[str],
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
        asks: The tools that ask a human before they have their effect.
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
        os.kill(os.getpid(), signal.SIGKILL)

    def ask(tool: str) -> Any:
        # ToolNode gives up the calls that have not begun when one of them asks.
        for other, event in inside.items():
            if other != tool and not event.wait(20):
                raise TimeoutError(other)
        return interrupt(f"{tool}?")

    def fail() -> None:
        raise RuntimeError("the bank hung up")

    def hold() -> None:
        report(READY)
        with open(folder / "pipe", "rb") as pipe:
            pipe.read(1)

    bodies = {tool: functools.partial(die, tool, after) for tool, after in dies.items()}
    bodies |= {f"before {tool}": functools.partial(ask, tool) for tool in asks}
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


def obey(order: dict[str, Any]) -> dict[str, Any]:
    """Fork a process for an order; what it reports first."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(reader)

        def report(what: str) -> None:
            os.write(writer, what.encode() + b"\n")

        try:
            work(report, **order)
        except BaseException as error:
            traceback.print_exc()
            report(f"{type(error).__name__}: {error}")
            os._exit(1)
        # Not `_exit`: a process that ends in good order gives its lock back.
        sys.exit(0)
    os.close(writer)
    with open(reader) as lines:
        line = lines.readline().strip()
    return {"pid": pid, "said": line, "code": None if line == READY else end(pid)}


def end(pid: int) -> int:
    """Wait for a process to end; how it did."""
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    for line in sys.stdin:
        order = json.loads(line)
        answer = {"code": end(order["pid"])} if "pid" in order else obey(order)
        print(json.dumps(answer), flush=True)  # noqa: T201 (stdout is how it answers)
