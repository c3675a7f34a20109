"""An end that whatever stands around a call has told the model: the run went on with it, and nobody is asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import ToolMessage

from guard.scene import CHARGE, CONFIG, MAIL, PAY, Finished, asked, go, told
from langgraph_jsonl_checkpoint import JsonlSaver, decide

if TYPE_CHECKING:
    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", ["create_agent", "tool_node", "subgraph"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
DURABILITIES = pytest.mark.parametrize("durability", ["sync", "async", "exit"])
ONCE_MORE = {"messages": [("user", "the bank is up again, try it once more")]}
AGAIN = {**CHARGE, "id": "charge-2"}


class Tells(Finished):
    """Tells the model of what a tool raised, and of one that takes too long; it stands outside of the guard."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run the call."""
        try:
            return super().wrap_tool_call(request, handler)
        except ConnectionError as error:
            return ToolMessage(f"sorry: {error}", tool_call_id=request.tool_call["id"])

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """The same in an event loop."""
        try:
            return await asyncio.wait_for(super().awrap_tool_call(request, handler), 0.5)
        except (ConnectionError, TimeoutError) as error:
            return ToolMessage(f"sorry: {error}", tool_call_id=request.tool_call["id"])


def fail() -> None:
    """What a tool does."""
    raise ConnectionError("no bank")


def uncertain(place: Place) -> list[str]:
    """The calls that another saver takes for uncertain."""
    with JsonlSaver(place.root / "sessions") as saver:
        return [call.tool_call_id for call in saver.uncertain("t")]


@SHAPES
@BOTH_WAYS
@DURABILITIES
def test_an_error_that_the_model_was_told_is_asked_about_no_more(
    place: Place, shape: str, asynchronous: bool, durability: Any
) -> None:
    """Neither is an equal call that it makes later, in whatever process."""
    rounds = [[CHARGE, MAIL], [AGAIN]]
    saver = place.saver()
    graph = place.graph(
        shape, saver=saver, rounds=rounds[:1], finished=Tells(), bodies={"charge": fail, "mail": fail}
    )
    go(graph, PAY, asynchronous=asynchronous, durability=durability)
    assert (uncertain(place), saver.uncertain("t")) == ([], ())
    with JsonlSaver(place.root / "sessions") as other:
        assert {c.status for c in other.resume_state("t").tool_calls} == {"failed"}
        assert "outcome unknown" not in str(other.session_memory("t"))
    saver.close()
    graph = place.graph(shape, rounds=rounds, finished=Tells())
    result = go(graph, ONCE_MORE, asynchronous=asynchronous, durability=durability)
    assert (asked(result), told(result["messages"])["charge-2"]) == ([], "charged 40 EUR")


@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
@DURABILITIES
async def test_a_stop_that_the_model_was_told_is_asked_about_no_more(
    place: Place, shape: str, durability: Any
) -> None:
    """A deadline outside of the guard cancels the tool and says so."""

    async def charge(euros: int) -> str:
        """Charge the card."""
        place.effects._have("charge", "")
        await asyncio.Event().wait()
        return "never"

    saver = place.saver()
    graph = place.graph(shape, saver=saver, tools=[charge], finished=Tells())
    await graph.ainvoke(PAY, CONFIG, durability=durability)
    assert await asyncio.to_thread(uncertain, place) == []
    state = await saver.aresume_state("t")
    assert ([c.status for c in state.tool_calls], state.uncertain) == (["cancelled"], ())
    assert "sorry" in str(state.memory)


@SHAPES
@BOTH_WAYS
@DURABILITIES
@pytest.mark.parametrize("goes_on", ["not at all", "input", "update", "fork"])
def test_what_comes_behind_an_error_that_ended_the_run_tells_nobody_of_it(
    place: Place, shape: str, asynchronous: bool, durability: Any, goes_on: str
) -> None:
    """Another input, a change from outside and a fork are no superstep that went on with the call."""
    graph = place.graph(shape, bodies={"charge": fail})
    with pytest.raises(ConnectionError):
        go(graph, PAY, asynchronous=asynchronous, durability=durability)
    place.effects.bodies.clear()
    if goes_on == "input":
        go(graph, ONCE_MORE, asynchronous=asynchronous, durability=durability)
    elif goes_on != "not at all":
        (node,) = graph.get_state(CONFIG).next
        at = graph.get_state(CONFIG).config if goes_on == "fork" else CONFIG
        after = graph.update_state(at, {"messages": [("ai", "never mind")]}, as_node=node)
        if shape != "subgraph":
            go(graph, None, after if goes_on == "fork" else CONFIG, asynchronous=asynchronous, durability=durability)
    assert uncertain(place) == ["charge-1"]


@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
@BOTH_WAYS
def test_an_input_behind_a_retry_that_raised_tells_nobody_of_it(place: Place, shape: str, asynchronous: bool) -> None:
    """Under "exit" the next checkpoint that is stored follows the call's, and is of the input's run."""
    graph = place.graph(shape, bodies={"charge": fail})
    for given, durability in ((PAY, "sync"), (None, "exit")):
        with pytest.raises(ConnectionError):
            go(graph, given, asynchronous=asynchronous, durability=durability)
    assert place.effects("charge") == 2
    go(graph, ONCE_MORE, asynchronous=asynchronous, durability="exit")
    assert uncertain(place) == ["charge-1"]


@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
@BOTH_WAYS
def test_what_was_told_stays_so_in_a_pruned_log(place: Place, shape: str, asynchronous: bool) -> None:
    """The checkpoint that showed it is gone, and the call with it."""
    for rounds in ([[CHARGE]], []):
        with JsonlSaver(place.root / "sessions") as saver:
            graph = place.graph(shape, saver=saver, rounds=rounds, finished=Tells(), bodies={"charge": fail})
            go(graph, PAY, asynchronous=asynchronous, durability="exit")
    saver = place.saver()
    saver.prune(["t"])
    assert uncertain(place) == []


@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
@BOTH_WAYS
def test_what_is_asked_about_can_be_resolved_by_the_id_that_is_shown(
    place: Place, shape: str, asynchronous: bool
) -> None:
    """The question names the new call, and is about an older one with the same tool and arguments."""
    place.crash(shape)
    saver = place.saver()
    graph = place.graph(shape, saver=saver, rounds=[[CHARGE], [AGAIN]])
    (question,) = asked(go(graph, ONCE_MORE, asynchronous=asynchronous))
    assert [call["tool_call_id"] for call in question["calls"]] == ["charge-2"]
    saver.resolve("t", "charge-2", {"type": "respond", "message": "it went through"})
    assert saver.uncertain("t") == ()
    result = go(graph, None, asynchronous=asynchronous)
    assert (asked(result), told(result["messages"])["charge-2"]) == ([], "it went through")
    with pytest.raises(ValueError, match="nothing is asked"):
        decide(graph, CONFIG, {"charge-2": {"type": "approve"}})
    assert place.effects("charge") == 1
