"""The program that the kill tests kill.

A process costs a second of imports, and the tests need hundreds. So this program imports once, reads orders
on stdin (one JSON line each), forks a process for each, and answers on stdout how that process ended and what
it had reported until then. It starts no thread itself, so that forking is safe.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

import kernel

kernel.watch()

from script import CONFIG, INPUT, build, plain  # noqa: E402 (the points come first)

from langgraph_jsonl_checkpoint import JsonlSaver  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def reporting(order: dict[str, Any], report: Callable[..., None]) -> JsonlSaver:
    """The saver, except that each call is a point to die at and is reported when it has returned."""

    def put_returned(checkpoint: Any) -> None:
        report("put", id=checkpoint["id"], messages=plain(checkpoint["channel_values"].get("messages")))

    def put_writes_returned(config: Any, writes: Any, task_id: str) -> None:
        report("writes", id=config["configurable"]["checkpoint_id"], task=task_id, writes=plain(list(writes)))

    class Reporting(JsonlSaver):
        def put(self, config: Any, checkpoint: Any, *rest: Any) -> Any:
            kernel.die_at("before put")
            saved = super().put(config, checkpoint, *rest)
            put_returned(checkpoint)
            return saved

        def put_writes(
            self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
        ) -> None:
            kernel.die_at("before put_writes")
            super().put_writes(config, writes, task_id, task_path)
            put_writes_returned(config, writes, task_id)

        async def aput(self, config: Any, checkpoint: Any, *rest: Any) -> Any:
            kernel.die_at("before put")
            saved = await super().aput(config, checkpoint, *rest)
            put_returned(checkpoint)
            return saved

        async def aput_writes(
            self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
        ) -> None:
            kernel.die_at("before put_writes")
            await super().aput_writes(config, writes, task_id, task_path)
            put_writes_returned(config, writes, task_id)

    return Reporting(order["root"], fsync=order["fsync"], restore_memory="never")


def work(order: dict[str, Any], pipe: int) -> None:
    """Start the thread, or go on with it by its id alone; or make the one call of the saver that is ordered."""

    def report(kind: str, **fields: Any) -> None:
        # Shorter than PIPE_BUF: it arrives whole or not at all.
        kernel.write(pipe, json.dumps({"kind": kind, **fields}).encode() + b"\n")

    def synced(status: os.stat_result) -> None:
        report("synced", inode=status.st_ino, size=status.st_size)

    kernel.arm(order["point"], order["number"], synced)
    with reporting(order, report) as saver:
        if order["call"]:
            name, *args = order["call"]
            getattr(saver, name)(*args)
            return
        agent = build(saver, report)
        start: Any = INPUT if saver.get_tuple(CONFIG) is None else None
        if order["asynchronous"]:
            result = asyncio.run(agent.ainvoke(start, CONFIG, durability=order["durability"]))
        else:
            result = agent.invoke(start, CONFIG, durability=order["durability"])
        report("end", messages=plain(result["messages"]))


def obey(order: dict[str, Any]) -> dict[str, Any]:
    """Fork a process for an order, kill it if the order names a moment, and tell how it ended."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(reader)
        try:
            work(order, writer)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    reports = []
    with open(reader, "rb") as lines:
        for line in lines:
            reports.append(json.loads(line))
            if len(reports) == order["kill_after"]:
                time.sleep(order["delay"])
                os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return {"code": os.waitstatus_to_exitcode(status), "reports": reports}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line))), flush=True)  # noqa: T201 (stdout is how it answers)
