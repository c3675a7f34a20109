"""The warm process of the restore tests: imports once, reads orders on stdin, forks a process for each.

An order names a job of `restore.jobs` and what it is given; the answer, on stdout, is how its process ended and
what it had reported until then. It starts no thread itself, so that forking is safe.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

from restore import jobs


def obey(order: dict[str, Any]) -> dict[str, Any]:
    """Fork a process for an order and tell how it ended."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(reader)
        try:
            getattr(jobs, order["job"])(writer, **order["given"])
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
