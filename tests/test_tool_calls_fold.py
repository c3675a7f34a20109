"""What `tool` records come to, where no run writes them: a later version's, or a forged one's."""

from __future__ import annotations

import pytest

from langgraph_jsonl_checkpoint.folds.tool_calls import ToolCalls
from langgraph_jsonl_checkpoint.log import records


@pytest.mark.parametrize(
    ("effect", "status"),
    [
        ("read_only", "pending"),
        ("idempotent", "pending"),
        ("side_effects", "uncertain"),
        ("", "uncertain"),
        ("new", "uncertain"),
    ],
)
def test_only_what_is_known_to_be_harmless_runs_again(effect: str, status: str) -> None:
    """A call that was started by a dead writer, with an effect that this version may not know."""
    calls = ToolCalls()
    for step in (
        records.Tool(task="t", call="c", status="requested", name="pay", effect=effect),
        records.Tool(task="t", call="c", status="started", attempt=1, by="w"),
    ):
        calls.apply(step, 1, "2026-11-29T12:00:00.000Z")
    (call,) = calls
    assert call.status(lambda _: False) == status
