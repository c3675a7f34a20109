"""docs/guarantees.md names for each promise the tests that hold it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
GUARANTEES = (TESTS.parent / "docs" / "guarantees.md").read_text()
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def names(file: Path) -> set[str]:
    """The tests of a file: functions, and what is assigned, as hypothesis has its machines."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {name for name in found if name.lower().startswith("test")}


def test_every_test_that_is_named_is_there() -> None:
    """A test that is renamed or removed is renamed or removed in the promise, too."""
    named = NAMED.findall(GUARANTEES)
    assert len(named) > 50
    missing = [f"{file}::{name}" for file, name in named if name not in names(TESTS / file)]
    assert missing == []


def test_every_promise_names_a_test() -> None:
    """Each row of a table with a column "held by" has one in it."""
    tables = [part for part in re.split(r"\n\n", GUARANTEES) if part.startswith("| promise | depends on | held by |")]
    assert len(tables) >= 5
    for table in tables:
        for row in table.splitlines()[2:]:
            *_, held, _ = row.split("|")
            assert NAMED.search(held), row
