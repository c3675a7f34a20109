"""A log that cannot be written: nothing starts that it does not tell of, and what it cannot tell of is uncertain."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest
from cases.logs import records
from cases.test_full_disk import files_of_at_most
from langchain_core.tools import tool
from langgraph.types import Command

from guard.scene import AGENTS, CHARGE, CONFIG, NODES, PAY, Finished, Model, asked, build, go, told
from langgraph_jsonl_checkpoint import SessionError, ToolLogError, decide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from guard.conftest import Place

SHAPES = pytest.mark.parametrize("shape", [*AGENTS, *NODES, "subgraph"])
BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


class Disk:
    """The disk of a place: `fill` it, and what is appended to the thread's log from then on fails."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._full = contextlib.ExitStack()

    def fill(self) -> None:
        """No room from now on."""
        self._full.enter_context(files_of_at_most(self._place.log.stat().st_size))

    def clear(self) -> None:
        """Room again."""
        self._full.close()


@pytest.fixture
def disk(place: Place) -> Iterator[Disk]:
    """The disk."""
    disk = Disk(place)
    yield disk
    disk.clear()


class BeforeCalls(Finished):
    """Something happens when the first tool call comes, before the guard sees it."""

    def __init__(self, act: Any) -> None:
        super().__init__()
        self._act = act

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Before the call."""
        self._act()
        return super().wrap_tool_call(request, handler)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """The same in an event loop."""
        self._act()
        return await super().awrap_tool_call(request, handler)


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_start_that_cannot_be_written_stops_the_run(
    place: Place, disk: Disk, shape: str, asynchronous: bool, durability: str
) -> None:
    """No retry, handler or model gets the storage error; with room again the same saver runs the call."""
    saver = place.saver()
    if durability == "exit":  # which has no log to fill before it ends
        go(place.graph("create_agent", rounds=[], saver=saver), {"messages": [("user", "hello")]})
    graph = place.graph(shape, saver=saver, finished=BeforeCalls(disk.fill), timeout=5.0)
    with pytest.raises((ToolLogError, OSError)) as stopped:
        go(graph, PAY, asynchronous=asynchronous, durability=durability)
    # Under `async` it may be the checkpoint that has no room: LangGraph raises that, or the guard does.
    assert isinstance(stopped.value, ToolLogError) or durability == "async"
    assert "not stored within" not in str(stopped.value), "at once, and not when the timeout is over"
    assert (len(place.model.requests), place.effects("charge")) == (1, 0)
    disk.clear()
    graph = place.graph(shape, saver=saver)
    assert all((call.status, call.attempt) == ("pending", 0) for call in saver.resume_state("t").tool_calls)
    result = go(graph, PAY if durability == "exit" else None, asynchronous=asynchronous, durability=durability)
    assert (told(result["messages"]), place.effects("charge")) == ({"charge-1": "charged 40 EUR"}, 1)


@pytest.mark.parametrize("policy", ["read_only", "idempotent"])
@BOTH_WAYS
def test_a_start_of_a_harmless_call_is_written_too(place: Place, disk: Disk, policy: str, asynchronous: bool) -> None:
    """A log that cannot be written stops the run whatever the call does: its end could not be recorded either."""
    graph = place.graph("handling", finished=BeforeCalls(disk.fill), policy={policy: ["charge"]})
    with pytest.raises(ToolLogError):
        go(graph, PAY, asynchronous=asynchronous, durability="sync")
    assert place.effects("charge") == 0


@SHAPES
@BOTH_WAYS
def test_a_checkpoint_that_cannot_be_stored_starts_nothing(
    place: Place, disk: Disk, shape: str, asynchronous: bool
) -> None:
    """Under `async` durability the run learns late that its put failed; the call learns it before it starts."""

    class Filling(Model):
        def answer(self, messages: Any) -> Any:
            disk.fill()
            return super().answer(messages)

    saver = place.saver()
    model = Filling(rounds=[[CHARGE]])
    graph = build(shape, saver, place.effects.tools, model, timeout=5.0)
    with pytest.raises((ToolLogError, OSError)) as stopped:
        go(graph, PAY, asynchronous=asynchronous, durability="async")
    assert "not stored within" not in str(stopped.value), "at once, and not when the timeout is over"
    assert (len(model.requests), place.effects("charge")) == (1, 0)
    disk.clear()
    result = go(place.graph(shape, saver=saver), None, asynchronous=asynchronous)
    assert (told(result["messages"]), place.effects("charge")) == ({"charge-1": "charged 40 EUR"}, 1)


@SHAPES
@BOTH_WAYS
@pytest.mark.parametrize("same_saver", [True, False])
def test_an_end_that_cannot_be_written_makes_the_call_uncertain(
    place: Place, disk: Disk, shape: str, asynchronous: bool, same_saver: bool
) -> None:
    """The effect is there and the log does not know: the run stops, and a human is asked, by a living saver too."""
    saver = place.saver()
    graph = place.graph(shape, saver=saver, bodies={"charge": disk.fill})
    with pytest.raises(ToolLogError):
        go(graph, PAY, asynchronous=asynchronous, durability="sync")
    assert (len(place.model.requests), place.effects("charge")) == (1, 1)
    disk.clear()
    if not same_saver:
        saver.close()
        saver = place.saver()
    assert [call.status for call in saver.uncertain("t")] == ["uncertain"]
    graph = place.graph(shape, saver=saver)
    (question,) = asked(go(graph, None, asynchronous=asynchronous))
    assert [call["tool_call_id"] for call in question["calls"]] == ["charge-1"]
    go(graph, Command(resume={"type": "reject"}), asynchronous=asynchronous)
    assert place.effects("charge") == 1


@BOTH_WAYS
@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
def test_a_question_that_cannot_be_written_is_not_asked(
    place: Place, disk: Disk, shape: str, asynchronous: bool
) -> None:
    """Then nobody could tell later which answer is about it: the run stops, and asks when there is room."""
    place.crash(shape)
    saver = place.saver()
    graph = place.graph(shape, saver=saver, finished=BeforeCalls(disk.fill))
    with pytest.raises(ToolLogError):
        go(graph, None, asynchronous=asynchronous)
    disk.clear()
    graph = place.graph(shape, saver=saver)
    assert len(asked(go(graph, None, asynchronous=asynchronous))) == 1
    go(graph, Command(resume={"type": "reject"}), asynchronous=asynchronous)
    assert place.effects("charge") == 1


@BOTH_WAYS
@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
def test_an_approval_that_cannot_be_written_is_not_used(
    place: Place, disk: Disk, shape: str, asynchronous: bool
) -> None:
    """The decision and the start are one commit: without it nothing is run, and later once."""
    place.crash(shape)
    saver = place.saver()
    go(place.graph(shape, saver=saver), None, asynchronous=asynchronous)
    answer = decide(place.graph(shape, saver=saver), CONFIG, {"charge-1": {"type": "approve"}})
    graph = place.graph(shape, saver=saver, finished=BeforeCalls(disk.fill))
    with pytest.raises(ToolLogError):
        go(graph, answer, asynchronous=asynchronous, durability="sync")
    assert place.effects("charge") == 1
    disk.clear()
    graph = place.graph(shape, saver=saver)
    result = go(graph, None, asynchronous=asynchronous)
    if asked(result):
        result = go(graph, Command(resume={"type": "approve"}), asynchronous=asynchronous)
    assert (told(result["messages"]), place.effects("charge")) == ({"charge-1": "charged 40 EUR"}, 2)


def test_a_decision_from_outside_that_cannot_be_written_raises(place: Place, disk: Disk) -> None:
    """`resolve` says that it did not work; the call stays uncertain."""
    place.crash("create_agent")
    saver = place.saver()
    disk.fill()
    with pytest.raises(OSError, match="too large"):
        saver.resolve("t", "charge-1", {"type": "approve"})
    disk.clear()
    assert [call.status for call in saver.uncertain("t")] == ["uncertain"]
    saver.resolve("t", "charge-1", {"type": "respond", "message": "paid"})
    assert saver.uncertain("t") == ()


@BOTH_WAYS
def test_a_writer_that_cannot_show_that_it_lives_starts_nothing(place: Place, asynchronous: bool) -> None:
    """A file where the writers' folder belongs: nobody could tell a running call from a lost one."""
    (place.root / "sessions").mkdir()
    (place.root / "sessions" / ".writers").write_text("")
    graph = place.graph("handling")
    with pytest.raises(ToolLogError):
        go(graph, PAY, asynchronous=asynchronous, durability="exit")
    assert place.effects("charge") == 0
    (place.root / "sessions" / ".writers").unlink()
    go(graph, PAY, asynchronous=asynchronous, durability="exit")
    assert place.effects("charge") == 1


@SHAPES
@BOTH_WAYS
def test_a_result_that_cannot_be_stored_makes_the_call_uncertain(
    place: Place, shape: str, asynchronous: bool
) -> None:
    """It has had its effect, and a resume could not give its result: the run stops at once."""

    @tool(response_format="content_and_artifact")
    def charge(euros: int) -> tuple[str, Any]:
        """Charge the card."""
        place.effects._have("charge", "")
        return "charged", threading.Lock()

    graph = place.graph(shape, tools=[charge])
    with pytest.raises(ToolLogError, match="cannot be stored"):
        go(graph, PAY, asynchronous=asynchronous)
    assert place.effects("charge") == 1
    assert [call.status for call in place.saver().uncertain("t")] == ["uncertain"]


@BOTH_WAYS
def test_a_thread_that_others_delete_during_its_run_starts_nothing(place: Place, asynchronous: bool) -> None:
    """A call of a thread that is gone is not run, and does not bring the thread back."""
    other = place.saver()
    graph = place.graph("handling", finished=BeforeCalls(lambda: other.delete_thread("t")), timeout=5.0)
    with pytest.raises(ToolLogError, match="deleted"):
        go(graph, PAY, asynchronous=asynchronous, durability="sync")
    assert (place.effects("charge"), place.log.exists()) == (0, False)


@BOTH_WAYS
def test_the_end_of_a_call_does_not_bring_a_deleted_thread_back(place: Place, asynchronous: bool) -> None:
    """Deleted while a tool ran: nothing is left to record its end in, as with writes that come late."""
    saver = place.saver()
    graph = place.graph("tool_node", saver=saver, bodies={"charge": lambda: saver.delete_thread("t")})
    with contextlib.suppress(SessionError):
        go(graph, PAY, asynchronous=asynchronous, durability="sync")
    assert [r for r in (records(place.log) if place.log.exists() else []) if r["type"] == "tool"] == []
