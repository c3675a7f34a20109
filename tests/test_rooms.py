"""The package's folders: what each may import."""

from __future__ import annotations

import ast
from pathlib import Path

import langgraph_jsonl_checkpoint

PACKAGE = Path(langgraph_jsonl_checkpoint.__file__).parent
ROOMS = ["log", "values", "folds", "sessions", "tool_calls", "restore", "upkeep", "saver", "agents", "cli"]
DOOR = ("saver", "restorer", "caretaker", "in_worker_threads", "versions")
EVERYWHERE = ("errors", "upstream", "workers")


def room(module: str) -> str:
    """The room that a module of the package is in."""
    return "saver" if module in DOOR else module


def imported(file: Path) -> set[str]:
    """The rooms whose code runs when a module is imported; what stands under TYPE_CHECKING does not."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
            path = (node.module or "").split(".")[1:]
            found |= {room(path[0])} if path else {room(name.name) for name in node.names}
    return found - set(EVERYWHERE)


def test_imports_run_only_downwards() -> None:
    """Each room imports those before it, and nothing but `agents` and `cli` imports the door."""
    seen = set()
    for file in PACKAGE.rglob("*.py"):
        own = room(file.relative_to(PACKAGE).parts[0].removesuffix(".py"))
        if own in ("__init__", "__main__"):
            continue
        if own in EVERYWHERE:
            assert not imported(file), f"{file} is used everywhere, and imports {imported(file)}"
            continue
        above = set(ROOMS[ROOMS.index(own) + 1 :])
        assert not imported(file) & above, f"{file} imports {imported(file) & above}"
        assert imported(file) <= set(ROOMS), f"{file} imports {imported(file) - set(ROOMS)}, which is no room"
        seen.add(own)
    assert seen == set(ROOMS)


def test_the_log_knows_bytes_and_records() -> None:
    """No module of `log/` imports LangGraph or LangChain."""
    for file in (PACKAGE / "log").glob("*.py"):
        names = [n.module or "" for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.ImportFrom)]
        names += [a.name for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Import) for a in n.names]
        assert not [n for n in names if n.split(".")[0] in ("langgraph", "langchain_core", "langchain")], file
