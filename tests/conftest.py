"""What the tests share: a saver over an empty directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[JsonlSaver]:
    """A saver over an empty directory, closed afterwards."""
    with JsonlSaver(tmp_path / "sessions") as saver:
        yield saver
