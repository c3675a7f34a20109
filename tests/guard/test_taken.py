"""What calls came to, and whether a checkpoint took it: an agent's calls are lost with its task, if it is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt
from scripted import ScriptedModel
from typing_extensions import TypedDict

from guard.scene import CHARGE, CONFIG, MAIL, PAY, asked, go
from langgraph_jsonl_checkpoint import JsonlSaver, SessionMiddleware, ToolGuard, decide

if TYPE_CHECKING:
    from guard.conftest import Place

BOTH_WAYS = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
AGAIN = {"messages": [("user", "please try it once more")]}
LATER = {**CHARGE, "id": "charge-2"}


@BOTH_WAYS
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_what_an_agent_did_whose_task_was_left_is_asked_about(
    place: Place, asynchronous: bool, durability: Any
) -> None:
    """It died behind its first call; the user writes anew, and the agent, that knows nothing of it, asks again."""
    rounds = [[CHARGE], [MAIL]]
    place.crash("subgraph", "mail", rounds=rounds, way={"durability": durability})
    graph = place.graph("subgraph", rounds=rounds)
    (question,) = asked(go(graph, AGAIN, asynchronous=asynchronous, durability=durability))
    (call,) = question["calls"]
    assert (call["name"], "its result was lost" in call["description"]) == ("charge", True)
    answer = decide(graph, CONFIG, {"charge-1": {"type": "respond", "message": "receipt 1"}})
    (question,) = asked(go(graph, answer, asynchronous=asynchronous, durability=durability))
    assert [call["name"] for call in question["calls"]] == ["mail"]
    answer = decide(graph, CONFIG, {"mail-1": {"type": "approve"}})
    assert go(graph, answer, asynchronous=asynchronous, durability=durability)["messages"][-1].text == "done"
    assert (place.effects("charge"), place.effects("mail")) == (1, 2)


def test_what_was_decided_holds_for_an_agent_that_was_left_again(place: Place) -> None:
    """Left once more, behind the answer: what it asks for again does not run, and has that answer."""
    rounds = [[CHARGE], [MAIL]]
    place.crash("subgraph", "mail", rounds=rounds)
    with place.saver() as saver:
        graph = place.graph("subgraph", rounds=rounds, saver=saver)
        go(graph, AGAIN)
        go(graph, decide(graph, CONFIG, {"charge-1": {"type": "respond", "message": "receipt 1"}}))
    graph = place.graph("subgraph", rounds=rounds)
    (question,) = asked(go(graph, AGAIN))
    assert [call["name"] for call in question["calls"]] == ["mail"]
    assert place.effects("charge") == 1


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_what_an_agent_did_before_it_waited_is_lost_with_its_task(place: Place, durability: Any) -> None:
    """The checkpoint that its task comes from is stored behind it, and has nothing of it."""

    def wait() -> str:
        """Wait for a human."""
        return str(interrupt("ready?"))

    def graph(saver: JsonlSaver) -> Any:
        calls = [CHARGE, {"name": "wait", "args": {}, "id": "wait-1"}]
        model = ScriptedModel(script=[AIMessage("", tool_calls=calls), "done"])
        tools = [place.effects.tools[0], wait]
        graph = StateGraph(MessagesState).add_node("a", create_agent(model, tools, middleware=[SessionMiddleware()]))
        return graph.add_edge(START, "a").compile(checkpointer=saver)

    with place.saver() as saver:
        assert asked(go(graph(saver), PAY, durability=durability)) == ["ready?"]
    questions = asked(go(graph(place.saver()), AGAIN, durability=durability))
    assert [q["calls"][0]["name"] for q in questions if q != "ready?"] == ["charge"]
    assert place.effects("charge") == 1


def test_an_agent_that_went_on_has_lost_nothing(place: Place) -> None:
    """Resumed to its end by another process: the same call, the next day, is not asked about."""
    rounds = [[CHARGE], [MAIL], [LATER]]
    place.crash("subgraph", "mail", rounds=rounds[:2])
    graph = place.graph("subgraph", rounds=rounds[:2])
    go(graph, None)
    go(graph, decide(graph, CONFIG, {"mail-1": {"type": "approve"}}))
    graph = place.graph("subgraph", rounds=rounds, saver=place.saver())
    assert asked(go(graph, AGAIN)) == []
    assert place.effects("charge") == 2


def beside(place: Place, saver: Any) -> Any:
    """Two agents beside each other: one charges, the other asks a human, and then charges as much."""

    def wait() -> str:
        """Wait for a human."""
        return str(interrupt("ready?"))

    charge = place.effects.tools[0]
    hook = SessionMiddleware(memory=False)
    graph = StateGraph(MessagesState)
    waiting = AIMessage("", tool_calls=[{"name": "wait", "args": {}, "id": "wait-1"}])
    scripts = {
        "a": [AIMessage("", tool_calls=[CHARGE]), "done"],
        "b": [waiting, AIMessage("", tool_calls=[LATER]), "done"],
    }
    for name, script in scripts.items():
        graph.add_node(name, create_agent(ScriptedModel(script=script), [charge, wait], middleware=[hook]))
        graph.add_edge(START, name)
    return graph.compile(checkpointer=saver)


@BOTH_WAYS
def test_the_same_call_of_another_agent_is_its_own(place: Place, asynchronous: bool) -> None:
    """What one of two agents came to is not lost while both go on, so the other's call is not asked about."""
    with place.saver() as saver:
        assert asked(go(beside(place, saver), PAY, asynchronous=asynchronous)) == ["ready?"]
    graph = beside(place, place.saver())
    assert asked(go(graph, Command(resume="yes"), asynchronous=asynchronous)) == []
    assert place.effects("charge") == 2


def test_what_a_task_of_a_workflow_did_is_taken_by_its_workflow(place: Place) -> None:
    """Another process ends the workflow: the same call, in the next run, is not asked about."""
    guard = ToolGuard()
    tools = ToolNode([place.effects.tools[0]], wrap_tool_call=guard.wrap_tool_call)
    fails = [True, False, False]

    def workflow(saver: Any) -> Any:
        @task
        def act(call: dict[str, Any]) -> Any:
            return tools.invoke({"messages": [AIMessage("", tool_calls=[call])]})["messages"][0].text

        @entrypoint(checkpointer=saver)
        def flow(call: dict[str, Any]) -> Any:
            said = act(call).result()
            if fails.pop(0):
                raise RuntimeError("no more")
            return said

        return flow

    with place.saver() as saver, pytest.raises(RuntimeError, match="no more"):
        workflow(saver).invoke(CHARGE, CONFIG)
    with place.saver() as saver:
        assert workflow(saver).invoke(None, CONFIG) == "charged 40 EUR"
    with place.saver() as saver:
        assert workflow(saver).invoke(LATER, CONFIG) == "charged 40 EUR"
    assert place.effects("charge") == 2


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


class Full(JsonlSaver):
    """Stores no checkpoint but that of a run's begin."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store it."""
        if metadata.get("step", -2) >= 0:
            raise OSError("no space left")
        return super().put(config, checkpoint, metadata, new_versions)


def test_a_checkpoint_of_a_runs_begin_has_nothing_of_what_its_calls_came_to(place: Place) -> None:
    """With DeltaChannels under "exit" it is stored at the end, before the last one: died between, they are lost."""

    def graph(saver: JsonlSaver) -> Any:
        guard = ToolGuard()
        model = ScriptedModel(script=[AIMessage("", tool_calls=[CHARGE]), "done"])
        graph = StateGraph(Delta).add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
        graph.add_node("tools", ToolNode([place.effects.tools[0]], wrap_tool_call=guard.wrap_tool_call))
        graph.add_edge(START, "agent").add_conditional_edges("agent", tools_condition).add_edge("tools", "agent")
        return graph.compile(checkpointer=saver)

    with Full(place.root / "sessions") as saver, pytest.raises(OSError, match="no space"):
        graph(saver).invoke(PAY, CONFIG, durability="exit")
    assert place.effects("charge") == 1
    (question,) = asked(go(graph(place.saver()), PAY))
    assert "its result was lost" in question["calls"][0]["description"]
    assert place.effects("charge") == 1
