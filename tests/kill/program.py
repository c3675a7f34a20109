"""The warm program of the kill tests; an order is where its process dies, or when it is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import warm

from kill import kernel
from kill.script import CONFIG, INPUT, build, plain
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warm import Report


def reporting(order: dict[str, Any], report: Report) -> JsonlSaver:
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


def work(report: Report, **order: Any) -> None:
    """Start the thread, or go on with it by its id alone; or make the one call of the saver that is ordered."""
    kernel.arm(order["point"], order["number"])
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
    """Have an order worked on; kill its process if the order names a moment."""

    def on_report(pid: int, number: int) -> None:
        if number == order["kill_after"]:
            time.sleep(order["delay"])
            os.kill(pid, signal.SIGKILL)

    return warm.run(work, order, on_report)


if __name__ == "__main__":
    kernel.watch()
    warm.serve(obey)
