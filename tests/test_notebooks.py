"""The notebooks run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

OUR_WORDS = {"crash_and_resume"}  # the other one shows a log's records, whose order is LangGraph's
VARIES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+Z]+|[0-9a-f]{8}(-[0-9a-f]{4,12}){4}|[0-9a-f]{32}|\d{2,}(,\d{3})*")
NOTEBOOKS = sorted(Path(__file__).parent.parent.joinpath("notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_without_an_error(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each notebook runs from first to last in an empty directory, and shows what it was committed with."""
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    committed = shown(notebook)
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert path.stem not in OUR_WORDS or shown(notebook) == committed


def shown(notebook: Any) -> list[str]:
    """What a reader sees of each cell's output, but for times, ids and other long numbers."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    said = [output.get("data", {}) | {"text": output.get("text")} for output in outputs]
    return [VARIES.sub("#", str(each.get("text/html") or each.get("text/plain") or each["text"])) for each in said]
