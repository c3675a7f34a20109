"""A record that the session memory needs, and cannot be read, costs the memory: not the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hostile.forger import ID, Record, checkpoint, forge
from langgraph_jsonl_checkpoint import CorruptSessionError, JsonlSaver

if TYPE_CHECKING:
    from pathlib import Path

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
CALL = {"task": "t1", "call": "c1"}
TREES = {"unknown tag": {"$nonsense": 1}, "missing number": {"$ref": 9}}


def call(args: Any) -> list[Record]:
    """A call with side effects that nobody ended."""
    requested = {"status": "requested", "ns": "", "checkpoint": ID, "name": "x", "args": args}
    started = {"status": "started", "attempt": 1, "by": "00000000"}
    return [("tool", {**CALL, **requested, "effect": "side_effects"}), ("tool", {**CALL, **started})]


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("leads_to", [[], ["node"]], ids=["over", "open"])
@pytest.mark.parametrize("restore_memory", ["crashed", "always", "never"])
def test_a_call_that_cannot_be_read_keeps_no_state_back(
    tmp_path: Path, tree: str, leads_to: list[str], restore_memory: Any
) -> None:
    """`get_tuple` gives the state without a memory; who asks for the calls is told; the thread goes on."""
    with JsonlSaver(tmp_path, restore_memory=restore_memory) as saver:
        opened: Record = ("open", {"writer": "00000000", "hook": True})
        forge(saver.path("t"), [opened], [checkpoint(1, next=leads_to)], call(TREES[tree]))
        assert saver.get_tuple(CONFIG).checkpoint["channel_values"] == {"v": 1}
        for read in (saver.resume_state, saver.session_memory, saver.uncertain):
            with pytest.raises(CorruptSessionError, match="cannot be read"):
                read("t")
        stored = {"configurable": {**CONFIG["configurable"], "checkpoint_id": ID}}
        saver.put_writes(stored, [("v", 2)], "t2")
        assert saver.get_tuple(CONFIG).pending_writes == [("t2", "v", 2)]
    with JsonlSaver(tmp_path, restore_memory=restore_memory) as saver:
        assert [found.pending_writes for found in saver.list(CONFIG)] == [[("t2", "v", 2)]]
