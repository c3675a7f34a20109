"""The benchmarks run, and compare with every saver that needs no server."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
NAMES = (
    *("chat", "saver_time", "latency", "reads", "many_threads", "growth"),
    *("concurrency", "memory", "guard", "chain", "json_library"),
)
ALONE = {"guard", "chain", "json_library"}  # they compare the package with itself, or its libraries


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs_and_fills_its_tables(name: str, tmp_path: Path) -> None:
    """Short threads and few rounds; the numbers themselves say nothing here."""
    env = {k: v for k, v in os.environ.items() if k not in ("POSTGRES_DSN", "PYTHONPATH")} | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "run.py", "quick", name], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"\nSeconds: {name} " in done.stdout
    tables = done.stdout.split("\n## ")[1:]
    assert tables
    for table in tables:
        title, _, head, _, *rows = table.strip().splitlines()
        cells = [[cell.strip() for cell in row.strip()[1:-1].split("|")] for row in [head, *rows] if "|" in row]
        assert len(cells) > 1, title
        assert [len(row) for row in cells] == [len(cells[0])] * len(cells), title
    if name not in ALONE:
        assert {"JsonlSaver", "SqliteSaver"} <= {word.strip(" |,") for word in done.stdout.replace(",", " ").split()}


def test_no_benchmark_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names above are those that `make bench` runs."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    assert runpy.run_path(str(BENCHMARKS / "run.py"))["BENCHMARKS"] == NAMES
