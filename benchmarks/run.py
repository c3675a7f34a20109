"""Runs the benchmarks and prints their tables: `python benchmarks/run.py [growth] [speed] [guard] [json_library]`.

Nothing is written but temporary files. TMPDIR says where, and so which disk is synced.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
import tempfile
import time
from importlib.metadata import version
from statistics import median
from typing import Any

BENCHMARKS = ("json_library", "speed", "guard", "growth")
PACKAGES = (
    "langgraph-jsonl-checkpoint",
    "langgraph",
    "langgraph-checkpoint",
    "langgraph-checkpoint-sqlite",
    "langchain-core",
    "msgspec",
    "orjson",
    "zstandard",
)


def sync() -> float:
    """Milliseconds that this disk takes to append and sync 1 KB, now."""
    taken = []
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(50):
            started = time.perf_counter()
            file.write(os.urandom(1024))
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - started)
    return 1e3 * median(taken)


def machine() -> str:
    """What the numbers were measured on."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            processor = next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        processor = platform.processor() or platform.machine()
    return (
        f"{platform.system()} {platform.release()}, {processor}, {os.cpu_count()} cores; "
        f"Python {platform.python_version()}; a sync of 1 KB takes {sync():.2f} ms"
    )


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Prints a table that is Markdown, too."""
    lines = [list(rows[0]), *([_text(value) for value in row.values()] for row in rows)]
    columns = []
    for cells, value in zip(zip(*lines, strict=True), rows[0].values(), strict=True):
        width = max(map(len, cells))
        align = str.ljust if isinstance(value, str) else str.rjust
        rule = "-" * width if isinstance(value, str) else "-" * (width - 1) + ":"
        columns.append([align(cells[0], width), rule, *(align(cell, width) for cell in cells[1:])])
    print(f"\n## {title}\n")
    for line in zip(*columns, strict=True):
        print(f"| {' | '.join(line)} |")
    sys.stdout.flush()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def main(names: list[str]) -> None:
    """Runs the named benchmarks, or all."""
    if unknown := set(names) - set(BENCHMARKS):
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    print(machine())
    print(", ".join(f"{package} {version(package)}" for package in PACKAGES))
    for name in names or BENCHMARKS:
        for title, rows in importlib.import_module(name).tables():
            show(title, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
