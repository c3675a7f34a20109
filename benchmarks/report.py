"""Where the numbers come from, and tables of them that are Markdown."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import tempfile
from importlib.metadata import version
from statistics import median
from typing import TYPE_CHECKING, Any

import postgres
import savers
import workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


def _sync() -> float:
    """Milliseconds that this disk takes to append and sync 1 KB, now."""
    taken = []
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(50):
            file.write(os.urandom(1024))
            taken.append(workload.seconds(lambda: os.fsync(file.fileno())))
    return 1e3 * median(taken)


def _file_system() -> str:
    """The type of the file system that holds the temporary files."""
    place, found = os.path.realpath(tempfile.gettempdir()), ("", "a disk")
    try:
        with open("/proc/mounts", encoding="utf-8") as mounts:
            for line in mounts:
                _, mounted, kind, *_ = line.split()
                if os.path.commonpath([place, mounted]) == mounted and len(mounted) >= len(found[0]):
                    found = mounted, kind
    except OSError:
        pass
    return found[1]


def machine() -> str:
    """What the numbers were measured on."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            processor = next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        processor = platform.processor() or platform.machine()
    return (
        f"{platform.system()} {platform.release()}, {processor}, {os.cpu_count()} cores; "
        f"Python {platform.python_version()}; {_file_system()}, where a sync of 1 KB takes {_sync():.2f} ms"
    )


def versions() -> str:
    found = [f"{package} {version(package)}" for package in PACKAGES]
    found.append(f"SQLite {sqlite3.sqlite_version}")
    if not savers.LEFT_OUT:
        found += [f"langgraph-checkpoint-postgres {version('langgraph-checkpoint-postgres')}", postgres.version()]
    return ", ".join(found)


def ratios(measured: Mapping[str, float | None], to: Iterable[str]) -> dict[str, float | None]:
    """JsonlSaver's measure, divided by that of each of the others."""
    own, found = measured.get("JsonlSaver"), {}
    for other in to:
        base = measured.get(other)
        found[f"JsonlSaver / {other}"] = own / base if own is not None and base else None
    return found


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Prints a table."""
    lines = [list(rows[0]), *([_text(value) for value in row.values()] for row in rows)]
    columns = []
    for number, cells in enumerate(zip(*lines, strict=True)):
        width = max(map(len, cells))
        words = all(isinstance(list(row.values())[number], str) for row in rows)
        align = str.ljust if words else str.rjust
        rule = "-" * width if words else "-" * (width - 1) + ":"
        columns.append([align(cells[0], width), rule, *(align(cell, width) for cell in cells[1:])])
    print(f"\n## {title}\n")
    for line in zip(*columns, strict=True):
        print(f"| {' | '.join(line)} |")
    sys.stdout.flush()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
