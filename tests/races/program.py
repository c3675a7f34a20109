"""The warm program of the races: it starts processes that do a job beside each other, and waits for them."""

from __future__ import annotations

import json
import os
import signal
import traceback
from typing import Any

import warm

from races import forks, jobs


def start(job: str, reports: str, options: dict[str, Any]) -> int:
    """Fork a process that does a job; its reports go to a file, where a kill does not reach them."""
    if (pid := os.fork()) == 0:
        signal.alarm(warm.LIMIT)
        code = 1
        with open(reports, "ab", buffering=0) as file:

            def report(kind: str, **fields: Any) -> None:
                file.write(json.dumps({"kind": kind, **fields}).encode() + b"\n")

            try:
                work = getattr(jobs, job, None) or getattr(forks, job)
                work(report, **options)
                code = 0
            except SystemExit:
                raise
            except BaseException as error:
                report("raised", error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
            os._exit(code)
    return pid


def obey(order: dict[str, Any]) -> dict[str, Any]:
    """Start a process, or wait for one."""
    if "wait" in order:
        return {"code": warm.end(order["wait"])}
    return {"pid": start(order["job"], order["reports"], order["options"])}


if __name__ == "__main__":
    warm.serve(obey)
