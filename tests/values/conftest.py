"""What the tests of values share: a thread over an empty directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .thread import Thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[Thread]:
    """A thread over an empty directory."""
    with Thread(tmp_path) as thread:
        yield thread
