"""LangGraph's conformance suite for checkpointers, on JsonlSaver: each capability is there, and passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

# The suite's tests of each capability. A release of it with more or fewer is to be looked at.
TESTS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


def test_the_suite_is_the_one_that_is_known():
    """The suite has 8 capabilities with 81 tests; none is left out here."""
    assert set(TESTS) == {capability.value for capability in Capability}
    assert sum(TESTS.values()) == 81


@pytest.mark.parametrize("capability", TESTS)
async def test_capability_is_detected_and_passes(capability: str, tmp_path: Path):
    """The capability is implemented, and each of its tests passes on a saver that is opened synchronously."""

    @checkpointer_test(name=f"JsonlSaver, {capability}")
    async def opened() -> AsyncIterator[JsonlSaver]:
        with JsonlSaver(tmp_path / "sessions") as saver:
            yield saver

    report = await validate(opened, capabilities={capability})
    result = report.results[capability]
    assert result.detected
    assert result.failures == []
    assert (result.tests_passed, result.tests_failed, result.tests_skipped) == (TESTS[capability], 0, 0)
