"""What `tool` records come to, where no run writes them: a later version's, or a forged one's."""

from __future__ import annotations

from typing import Any

import msgspec
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


def test_a_checkpoint_takes_no_results_of_a_namespace_whose_name_begins_alike() -> None:
    """`search_web` is not within `search`: what its calls came to waits for its own checkpoint, or the root's."""
    calls = ToolCalls()

    def take(*steps: records.Record) -> list[str]:
        for step in steps:
            calls.apply(step, 1, "2026-11-29T12:00:00.000Z")
        return [call.key[1] for call in calls.undelivered()]

    def checkpoint(ns: str) -> records.Checkpoint:
        names: dict[str, Any] = {"next": [], "changed": [], "step": 4, "source": "loop"}
        return records.Checkpoint(
            ns=ns, id="3", **names, **dict.fromkeys(("channels", "versions", "seen", "metadata"), records.NO_TEXT)
        )

    def call(name: str, ns: str) -> list[records.Record]:
        result = msgspec.Raw(b'"done"')
        return [
            records.Tool(task="t", call=name, status="requested", name="pay", ns=ns, checkpoint="1"),
            records.Tool(task="t", call=name, status="started", attempt=1, by=""),
            records.Tool(task="t", call=name, status="completed", result=result),
        ]

    assert take(*call("web", "search_web"), *call("in it", "search|tools:1")) == ["web", "in it"]
    assert take(checkpoint("search")) == ["web"]
    assert take(checkpoint("")) == []
