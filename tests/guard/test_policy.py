"""What running a tool does: the order of who is asked, and what is said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from cases.logs import records
from langchain_core.tools import tool

from guard.scene import CONFIG, NODES, PAY, go
from langgraph_jsonl_checkpoint import SessionMiddleware, SessionRecorder, ToolGuard, ToolPolicy

if TYPE_CHECKING:
    from guard.conftest import Place


def hinted(metadata: Any) -> Any:
    """A tool with this metadata."""

    @tool
    def charge(euros: int) -> str:
        """Charge the card."""
        return f"charged {euros} EUR"

    charge.metadata = metadata
    return charge


READ: Any = {"readOnlyHint": True}


@pytest.mark.parametrize(
    ("options", "effect"),
    [
        # The user's word stands over the tool's hint, and the more careful word over the other.
        ({"side_effects": ["charge"], "idempotent": ["charge"], "read_only": ["charge"]}, "side_effects"),
        ({"idempotent": ["charge"], "read_only": ["charge"]}, "idempotent"),
        ({"read_only": ["charge"]}, "read_only"),
        ({"side_effects": ["charge"]}, "side_effects"),
        ({"idempotent": ["charge"]}, "idempotent"),
        ({"side_effects": ["other"], "default": "idempotent"}, "read_only"),
        ({"default": "side_effects"}, "read_only"),
    ],
)
def test_the_users_word_stands_over_the_tools_hint(options: Any, effect: str) -> None:
    """side_effects, idempotent, read_only, then the metadata, then the default: the first answer wins."""
    assert ToolPolicy(**options).effect("charge", {}, hinted(READ)) == effect


@pytest.mark.parametrize(
    ("metadata", "effect"),
    [
        ({"readOnlyHint": True}, "read_only"),
        ({"read_only_hint": True}, "read_only"),
        ({"annotations": {"readOnlyHint": True}}, "read_only"),
        ({"annotations": {"read_only_hint": True}}, "read_only"),
        ({"annotations": SimpleNamespace(readOnlyHint=True, idempotentHint=None)}, "read_only"),
        ({"idempotentHint": True}, "idempotent"),
        ({"idempotent_hint": True}, "idempotent"),
        ({"readOnlyHint": False, "idempotentHint": True, "destructiveHint": True}, "idempotent"),
        ({"readOnlyHint": True, "idempotentHint": True}, "read_only"),
        ({"readOnlyHint": False}, "side_effects"),
        ({"idempotent_hint": False}, "side_effects"),
        ({"destructiveHint": True}, "side_effects"),
        ({"destructive_hint": True}, "side_effects"),
        # None says nothing: the next is asked.
        ({"readOnlyHint": None}, "default"),
        ({"readOnlyHint": None, "read_only_hint": True}, "read_only"),
        ({"readOnlyHint": None, "annotations": {"readOnlyHint": True}}, "read_only"),
        ({"readOnlyHint": None, "idempotentHint": None, "destructiveHint": None}, "default"),
        ({"readOnlyHint": None, "idempotentHint": True}, "idempotent"),
        # To add something twice is no harmless thing, and nothing more than that is said.
        ({"destructiveHint": False}, "default"),
        ({"annotations": None}, "default"),
        ({"readOnlyHint": "yes"}, "default"),
        ({}, "default"),
        (None, "default"),
    ],
)
@pytest.mark.parametrize("default", ["side_effects", "idempotent", "read_only"])
def test_a_tools_hint_stands_over_the_default(metadata: Any, effect: str, default: Any) -> None:
    """MCP's hints, in camel case or snake case, at the top or under `annotations`; None says nothing."""
    found = ToolPolicy(default=default).effect("charge", {}, hinted(metadata))
    assert found == (default if effect == "default" else effect)


def test_nothing_said_is_side_effects() -> None:
    """A tool that nobody says anything about is never taken for harmless."""
    assert ToolPolicy().effect("charge", {}, hinted(None)) == "side_effects"
    assert ToolPolicy().effect("charge", {}, None) == "side_effects"


def test_a_predicate_sees_the_arguments() -> None:
    """The same tool may be harmless with some arguments."""
    policy = ToolPolicy(read_only=lambda name, args: name == "charge" and args["euros"] == 0, checks={"test"})
    assert policy.effect("charge", {"euros": 0}, None) == "read_only"
    assert policy.effect("charge", {"euros": 1}, None) == "side_effects"
    assert (policy.is_check("test", {}), policy.is_check("charge", {})) == (True, False)


@pytest.mark.parametrize("option", ["read_only", "idempotent", "side_effects", "checks"])
def test_a_single_string_is_refused(option: str) -> None:
    """`read_only="search"` would be the tools `s`, `e` and so on."""
    with pytest.raises(TypeError, match=option):
        ToolPolicy(**{option: "search"})


def test_an_unknown_default_is_refused() -> None:
    """A misspelt class must not pass for a harmless one."""
    with pytest.raises(ValueError, match="default"):
        ToolPolicy(default="readonly")  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", ["create_agent", *NODES])
def test_the_running_tools_hint_is_found(place: Place, shape: str) -> None:
    """The guard asks the tool that is called, whatever shape the graph has."""
    go(place.graph(shape, tools=[hinted({"annotations": {"idempotentHint": True}})]), PAY)
    requested = next(r for r in records(place.log) if r["type"] == "tool")
    assert requested["effect"] == "idempotent"


@pytest.mark.parametrize("hook", [SessionMiddleware, ToolGuard, SessionRecorder])
def test_a_hook_refuses_what_is_none_of_its_options(place: Place, hook: Any) -> None:
    """When it is made, and not when the first tool runs."""
    with pytest.raises(TypeError, match="saver is a JsonlSaver"):
        hook("sessions")
    with pytest.raises(TypeError, match="saver is a JsonlSaver"):
        hook(ToolPolicy())
    with pytest.raises(TypeError, match="policy is a ToolPolicy"):
        hook(place.saver(), policy={"read_only": ["charge"]})
    with pytest.raises(TypeError, match="is no name"):
        hook(place.saver(), policy=ToolPolicy(read_only=[hinted(READ)]))


@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
def test_a_recorder_is_told_a_tools_hints(place: Place, shape: str) -> None:
    """It has no tool, but the metadata that a callback is given."""
    saver = place.saver()
    graph = place.graph(shape, saver=saver, hook=False, tools=[hinted(READ)])
    graph.invoke(PAY, {**CONFIG, "callbacks": [SessionRecorder(saver)]})
    assert [call.effect for call in saver.resume_state("t").tool_calls] == ["read_only"]
