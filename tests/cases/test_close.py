"""A saver that is closed: nothing is left to do for it."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

from cases.graphs import at, chain, config, ids, put
from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.sessions import pool

if TYPE_CHECKING:
    from pathlib import Path


def test_a_closed_saver_that_is_collected_runs_nothing(root: Path) -> None:
    """Garbage is collected anywhere, also where the stack ends: a finalizer would fail there, unheard."""
    saver: Any = JsonlSaver(root)
    chain(saver, 3)
    saver.close()
    gc.collect()
    ran: list[str] = []

    def see(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename == pool.__file__:
            ran.append(frame.f_code.co_name)

    sys.setprofile(see)
    try:
        del saver
        gc.collect()
    finally:
        sys.setprofile(None)
    assert ran == []
    with JsonlSaver(root) as saver:
        put(saver, at(3), {"n": 3})
        assert ids(saver.list(config())) == [at(3), at(2), at(1), at(0)]
