"""Packed frames that are small, so that a short log has many; the warm program of the guard's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from guard.conftest import place, program

from langgraph_jsonl_checkpoint.log import packing

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["place", "program"]


@pytest.fixture
def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed frame is full at one kilobyte."""
    monkeypatch.setattr(packing, "_TEXT", 1000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder that the tests' savers share."""
    return tmp_path / "sessions"
