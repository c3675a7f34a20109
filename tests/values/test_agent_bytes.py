"""What a real agent leaves in the log: each message and each tool result once."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.channels import DeltaChannel
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.runnables import RunnableConfig

    from .thread import Thread

TURNS = 12
CALLS = 3


class ScriptedModel(GenericFakeChatModel):
    """Answers from a script, whatever tools it is given."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> ScriptedModel:  # noqa: D102 - the model's own
        return self


def script() -> Iterator[AIMessage]:
    """Turns of parallel tool calls, then an answer."""
    for turn in range(TURNS):
        calls = [
            {"name": "read", "args": {"path": f"ARG-{turn}-{i}-" + "p" * 300}, "id": f"call-{turn}-{i}"}
            for i in range(CALLS)
        ]
        yield AIMessage(f"THOUGHT-{turn}-" + "t" * 300, tool_calls=calls)
    yield AIMessage("ANSWER")


@tool
def read(path: str) -> str:
    """Read a file."""
    return f"RESULT-{path.split('-p', maxsplit=1)[0]}-" + "r" * 500


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_an_agents_messages_are_stored_once(thread: Thread, durability: str) -> None:
    """create_agent sends each tool call as a task with the whole state: references, not copies."""
    agent = create_agent(ScriptedModel(messages=script()), [read], checkpointer=thread.saver)
    config: RunnableConfig = {"configurable": {"thread_id": thread.thread_id}, "recursion_limit": 100}
    # With an id: a message that gets one is changed, and so is another message.
    question = HumanMessage("QUESTION" + "q" * 300, id="question")
    result = agent.invoke({"messages": [question]}, config, durability=durability)
    counts = {
        "question": thread.count("QUESTION"),
        "thoughts": [thread.count(f"THOUGHT-{t}-") for t in range(TURNS)],
        "results": [thread.count(f"RESULT-ARG-{t}-{i}-") for t in range(TURNS) for i in range(CALLS)],
        "answer": thread.count("ANSWER"),
    }
    once = {"question": 1, "thoughts": [1] * TURNS, "results": [1] * TURNS * CALLS, "answer": 1}
    assert counts == once
    # The arguments stand in the AIMessage, and once more in the task that the call became.
    arguments = [thread.count(f'"ARG-{t}-{i}-') for t in range(TURNS) for i in range(CALLS)]
    assert max(arguments) <= 2
    thread.reopen()
    assert thread.values()["messages"] == result["messages"]
    history = [t.checkpoint["channel_values"].get("messages", []) for t in thread.saver.list(config)]
    assert all(h == result["messages"][: len(h)] for h in history)


class Fan(MessagesState):
    """A fan-out that hands the history to each task."""

    notes: Annotated[list[str], operator.add]


def test_a_fan_out_of_the_history_adds_references(thread: Thread) -> None:
    """Thirty `Send`s with all messages cost less than one copy of them."""
    messages: list[AnyMessage] = [HumanMessage(f"MARK-{n:03}-" + "h" * 1000, id=str(n)) for n in range(30)]
    graph = StateGraph(Fan)
    graph.add_node("work", lambda state: {"notes": [f"NOTE-{state['i']}-{len(state['messages'])}"]})
    graph.add_conditional_edges(
        START, lambda s: [Send("work", {"messages": s["messages"], "i": i}) for i in range(30)], ["work"]
    )
    graph.add_edge("work", END)
    app = graph.compile(checkpointer=thread.saver)
    config: RunnableConfig = {"configurable": {"thread_id": thread.thread_id}}
    result = app.invoke({"messages": messages}, config)
    assert [thread.count(f"MARK-{n:03}-") for n in range(30)] == [1] * 30
    thread.reopen()
    assert thread.values()["notes"] == result["notes"] == [f"NOTE-{i}-30" for i in range(30)]


def appended(state: list, writes: list[list]) -> list:
    """The reducer of a channel that only grows."""
    return [*state, *(element for write in writes for element in write)]


class Growing(MessagesState):
    """A channel that stores what is new, with a snapshot now and then."""

    log: Annotated[list, DeltaChannel(appended, snapshot_frequency=5)]


def test_a_delta_channel_and_its_snapshots_share(thread: Thread) -> None:
    """Each element of a DeltaChannel is stored once, also when snapshots of all of it are taken."""
    graph = StateGraph(Growing)
    graph.add_node("grow", lambda s: {"log": [HumanMessage(f"MARK-{len(s['log']):03}-" + "d" * 500)]})
    graph.add_edge(START, "grow")
    graph.add_conditional_edges("grow", lambda s: END if len(s["log"]) >= 40 else "grow", ["grow", END])
    app = graph.compile(checkpointer=thread.saver)
    config: RunnableConfig = {"configurable": {"thread_id": thread.thread_id}, "recursion_limit": 100}
    result = app.invoke({"log": []}, config, durability="sync")
    assert [thread.count(f"MARK-{n:03}-") for n in range(40)] == [1] * 40
    assert b'"$delta"' in thread.text()
    thread.reopen()
    app.checkpointer = thread.saver
    assert app.get_state(config).values["log"] == result["log"]
    assert len(result["log"]) == 40
