"""A warm program: it imports once, and each of its orders is done by a process of its own, forked from it.

A process costs a second of imports, and the tests need hundreds. So a warm program reads orders on stdin (one JSON
line each) and answers on stdout. It starts no thread itself, so that forking is safe. The first half of this module
is for the program, the second for the test that orders.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import RawIOBase

    Report = Callable[..., None]

LIMIT = 60  # seconds: a process that hangs fails its own test only


def serve(obey: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer each order with what `obey` returns for it, until there are no more."""
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line))), flush=True)  # noqa: T201 (stdout is how it answers)


def run(
    work: Callable[..., None], order: dict[str, Any], on_report: Callable[[int, int], None] = lambda pid, count: None
) -> dict[str, Any]:
    """Have an order worked on to its end; how its process ended, and what it had reported until then.

    Args:
        work: Called in that process with a function that reports, and with the order as its options.
        order: The order.
        on_report: Called with the process and the number of its reports, when there is one more.
    """
    pid, coming = fork(work, order)
    reports = []
    for report in coming:
        reports.append(report)
        on_report(pid, len(reports))
    return {"code": end(pid), "reports": reports}


def fork(work: Callable[..., None], order: dict[str, Any]) -> tuple[int, Iterator[dict[str, Any]]]:
    """Fork a process that works on an order; the process, and its reports as they come.

    It runs exit handlers only if `work` calls `sys.exit`. If `work` raises, that is its last report.
    """
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(reader)
        signal.alarm(LIMIT)
        # Not `os.write`, which the program may have under watch. Without a buffer what is shorter than PIPE_BUF
        # arrives whole or not at all.
        with open(writer, "wb", buffering=0) as pipe:
            os._exit(_code(work, order, pipe))
    os.close(writer)
    return pid, _lines(reader)


def _code(work: Callable[..., None], order: dict[str, Any], pipe: RawIOBase) -> int:
    def report(kind: str, **fields: Any) -> None:
        pipe.write(json.dumps({"kind": kind, **fields}).encode() + b"\n")

    try:
        work(report, **order)
    except SystemExit:
        raise
    except BaseException as error:
        with contextlib.suppress(BrokenPipeError):
            report("raised", error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        return 1
    return 0


def _lines(reader: int) -> Iterator[dict[str, Any]]:
    with open(reader, "rb") as lines:
        for line in lines:
            yield json.loads(line)


def end(pid: int) -> int:
    """Wait for a process to end; how it did."""
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def die() -> None:
    """End this process as an out-of-memory killer does."""
    os.kill(os.getpid(), signal.SIGKILL)


class Run(NamedTuple):
    """How a process ended, and what it had reported until then."""

    code: int
    reports: list[dict[str, Any]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The reports of one kind."""
        return [report for report in self.reports if report["kind"] == kind]

    @property
    def killed(self) -> bool:
        """Whether it was killed; it never fails."""
        assert self.code in (0, -signal.SIGKILL), self
        return self.code != 0


class Program:
    """A warm program, as a test sees it.

    Args:
        module: What it runs; a name as seen from the folder of all tests.
    """

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=Path(__file__).parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def order(self, **order: Any) -> dict[str, Any]:
        """Give an order, and wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End it: the orders are over."""
        self._process.communicate()
