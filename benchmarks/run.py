"""Runs the benchmarks and prints their tables: `python benchmarks/run.py [quick] [chat] [saver_time] …`.

Without names it runs all, and a run that is not `quick` draws the figures of docs/. Nothing else is written but
temporary files: TMPDIR says where, and so which disk is synced.
"""

from __future__ import annotations

import importlib
import sys
import time

import report
import savers

BENCHMARKS = (
    "chat",
    "saver_time",
    "latency",
    "reads",
    "many_threads",
    "growth",
    "concurrency",
    "memory",
    "guard",
    "chain",
    "json_library",
)
WORDS = (*BENCHMARKS, "quick")


def main(words: list[str]) -> None:
    """Runs the named benchmarks, or all."""
    if unknown := set(words) - set(WORDS):
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(WORDS)}")
    quick = "quick" in words
    print(report.machine())
    print(report.versions())
    if savers.LEFT_OUT:
        print(f"PostgresSaver was left out: {savers.LEFT_OUT}")
    savers.warm()
    took = {}
    for name in BENCHMARKS:
        if name in words or not {*words} - {"quick"}:
            begun = time.perf_counter()
            for title, rows in importlib.import_module(name).tables(quick=quick):
                report.show(title, rows)
            took[name] = time.perf_counter() - begun
    print("\nSeconds: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in took.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
