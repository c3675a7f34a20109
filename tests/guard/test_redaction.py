"""`redact=`: what it leaves out is in no `tool` record and in no memory, and the guard says what it lacks."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from guard.scene import CHARGE, CONFIG, LOOKUP, MAIL, NODES, PAY, go
from langgraph_jsonl_checkpoint import JsonlSaver, SessionRecorder, ToolLogError

if TYPE_CHECKING:
    from pathlib import Path

    from guard.conftest import Place

SECRET = "4111-1111"
TENANT: ContextVar[str] = ContextVar("tenant")


def mask(name: str, value: Any) -> Any:
    """Leaves the secret out, wherever it stands."""
    if isinstance(value, dict):
        return {k: mask(name, v) for k, v in value.items()}
    if isinstance(value, list):
        return [mask(name, v) for v in value]
    return value.replace(SECRET, "****") if isinstance(value, str) else value


def gone(name: str, value: Any) -> Any:
    """Leaves all out."""
    return {} if isinstance(value, dict) else "gone"


def lines(path: Path) -> list[dict[str, Any]]:
    """The records of a log."""
    with path.open("rb") as log:
        text = zstandard.ZstdDecompressor().stream_reader(log, read_across_frames=True).read()
    return [json.loads(line) for line in text.splitlines()]


def tool_records(path: Path) -> str:
    """The `tool` records of a log, and the messages and values that they refer to."""
    everything = lines(path)
    numbered = {r["n"]: r["message"] for r in everything if r["type"] == "message"}
    numbered |= {n: v for r in everything if r["type"] == "value" for n, v in enumerate(r["values"], r["n"])}

    def resolved(tree: Any) -> Any:
        if isinstance(tree, dict):
            return (
                resolved(numbered[tree["$ref"]])
                if tree.keys() == {"$ref"}
                else {k: resolved(t) for k, t in tree.items()}
            )
        return [resolved(t) for t in tree] if isinstance(tree, list) else tree

    return json.dumps([resolved(r) for r in everything if r["type"] == "tool"])


class State(TypedDict, total=False):
    """A state that holds nothing of what the tools are given."""

    done: bool


@tool
def pay(card: str, note: str) -> str:
    """Pays, and tells too much."""
    return f"paid with {card}: {note}"


@tool
def fail(card: str) -> str:
    """Fails, and tells too much."""
    raise ValueError(f"no such card {card}")


def test_what_is_redacted_never_reaches_the_disk(tmp_path: Path) -> None:
    """Arguments, results and errors: of a graph whose state does not hold them no byte of any file does."""

    def node(state: State) -> State:
        assert (
            pay.invoke({"card": SECRET, "note": f"{SECRET} " * 100}) == f"paid with {SECRET}: " + f"{SECRET} " * 100
        )
        with pytest.raises(ValueError, match=SECRET):
            fail.invoke({"card": SECRET})
        return {"done": True}

    for redact in (None, mask):
        saver = JsonlSaver(tmp_path / str(redact is None), redact=redact)
        builder = StateGraph(State)
        builder.add_node("node", node)
        builder.add_edge(START, "node")
        config = {**CONFIG, "callbacks": [SessionRecorder(saver)]}
        builder.compile(checkpointer=saver).invoke({"done": False}, config)
        memory, calls = str(saver.session_memory("t")), saver.resume_state("t").tool_calls
        saver.close()
        text = json.dumps(lines(saver.path("t")))
        assert (SECRET in text, SECRET in memory) == (redact is None, redact is None)
        if redact:
            assert [(c.args["card"], c.status) for c in calls] == [("****", "completed"), ("****", "failed")]
            assert "no such card ****" in memory


@pytest.mark.parametrize("shape", ["create_agent", "tool_node"])
def test_the_memory_holds_nothing_that_is_redacted(place: Place, shape: str) -> None:
    """Not by way of the messages either, in which the state has it; and the tool gets what the model asked for."""
    seen: list[str] = []

    def mail(to: str) -> str:
        """Send a mail."""
        seen.append(to)
        return f"mailed {to}"

    saver = place.saver(redact=mask)
    rounds = [[{**MAIL, "args": {"to": SECRET}}]]
    graph = place.graph(shape, rounds=rounds, tools=[mail], saver=saver)
    graph.invoke(PAY, CONFIG)
    assert seen == [SECRET]
    assert "mail(to='****'): mailed ****" in str(saver.session_memory("t"))
    assert SECRET not in str(saver.session_memory("t"))
    assert SECRET not in tool_records(saver.path("t"))
    assert SECRET in str(lines(saver.path("t")))  # the state is the graph's own


@pytest.mark.parametrize("ends", [True, False])
def test_what_was_recorded_before_redact_was_given_is_not_in_the_memory(place: Place, ends: bool) -> None:
    """A log is never changed; its records come to the memory through the function, those of open calls, too."""
    rounds = [[{**MAIL, "args": {"to": SECRET}}]]
    saver = place.saver()
    graph = place.graph("create_agent", rounds=rounds, saver=saver, bodies={} if ends else {"mail": _stop})
    if ends:
        graph.invoke(PAY, CONFIG)
    else:
        with pytest.raises(KeyboardInterrupt):
            graph.invoke(PAY, CONFIG)
    assert SECRET in str(saver.session_memory("t"))
    saver.close()
    memory = str(place.saver(redact=mask).session_memory("t"))
    assert "mail(to='****')" in memory
    assert SECRET not in memory


def test_a_thread_is_opened_without_its_memory_while_redact_raises(place: Place) -> None:
    """The lent memory is all that fails; mended, the memory is what a new saver derives, and the run goes on."""
    is_broken = [True]

    def redact(name: str, value: Any) -> Any:
        if is_broken[0]:
            raise RuntimeError("no such rule")
        return mask(name, value)

    rounds = [[{**MAIL, "args": {"to": SECRET}}]]
    place.crash("create_agent", "mail", rounds=rounds)
    saver = place.saver(redact=redact)
    graph = place.graph("create_agent", saver=saver, rounds=rounds, memory=False)
    for _ in range(2):
        assert [m.type for m in graph.get_state(CONFIG).values["messages"]] == ["human", "ai"]
        with pytest.raises(ToolLogError, match="redact raised"):
            saver.session_memory("t")
    is_broken[0] = False
    memory = str(saver.session_memory("t"))
    assert memory == str(place.saver(redact=mask).session_memory("t"))
    assert "mail(to='****')" in memory
    assert graph.get_state(CONFIG).values["messages"][0].text == memory
    graph.invoke(None, CONFIG)
    graph.invoke(Command(resume={"type": "approve"}), CONFIG)
    assert str(saver.session_memory("t")) == str(place.saver(redact=mask).session_memory("t"))


def test_calls_that_no_hook_recorded_are_redacted_in_the_memory(tmp_path: Path) -> None:
    """Known from messages, todos, or a log that was written without `redact`."""
    call = {"name": "pay", "args": {"card": SECRET}, "id": "1"}
    todo = {"name": "write_todos", "args": {"todos": [{"content": f"use {SECRET}", "status": "pending"}]}, "id": "2"}
    open_call = {"name": "pay", "args": {"card": f"{SECRET}-open"}, "id": "3"}
    messages = [
        HumanMessage("hello"),
        AIMessage("", tool_calls=[call, todo]),
        ToolMessage(f"paid with {SECRET}", tool_call_id="1"),
        ToolMessage("ok", tool_call_id="2"),
        AIMessage("", tool_calls=[open_call]),
    ]
    texts = []
    for redact in (None, mask):
        with JsonlSaver(tmp_path, redact=redact) as saver:
            if redact is None:
                _put_messages(saver, messages)
            texts.append(str(saver.session_memory("t")))
    assert SECRET in texts[0]
    assert texts[1] == texts[0].replace(SECRET, "****")


def _put_messages(saver: JsonlSaver, messages: list[Any]) -> None:
    version = saver.get_next_version(None, None)
    checkpoint = {
        "v": 4,
        "id": "1f000000-0000-6000-8000-000000000001",
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": {
            "messages": messages,
            "todos": messages[1].tool_calls[1]["args"]["todos"],
            "branch:to:n": None,
        },
        "channel_versions": dict.fromkeys(("messages", "todos", "branch:to:n"), version),
        "versions_seen": {},
    }
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver.put(
        config, checkpoint, {"source": "loop", "step": 1}, dict.fromkeys(checkpoint["channel_versions"], version)
    )


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("shape", ["create_agent", *NODES])
def test_redact_sees_the_context_of_the_run(place: Place, shape: str, asynchronous: bool) -> None:
    """Whose call it is may stand in a context variable; in an event loop it is put in worker threads, too."""
    seen = []

    def look(name: str, value: Any) -> Any:
        seen.append(TENANT.get("nobody"))
        return value

    token = TENANT.set("ann")
    try:
        go(place.graph(shape, saver=place.saver(redact=look)), PAY, asynchronous=asynchronous)
    finally:
        TENANT.reset(token)
    assert seen == ["ann"] * 2  # the arguments and the result


@pytest.mark.parametrize("shape", NODES)
def test_a_redact_that_raises_keeps_the_tool_from_starting(place: Place, shape: str) -> None:
    """The run stops, whatever handles errors around it; mended, it goes on, and the tool runs once."""

    def broken(name: str, value: Any) -> Any:
        raise KeyError(SECRET)

    saver = place.saver(redact=broken)
    with pytest.raises(ToolLogError, match="redact raised KeyError for the tool 'charge'"):
        place.graph(shape, saver=saver).invoke(PAY, CONFIG)
    saver.close()
    assert place.effects("charge") == 0
    assert SECRET not in str(lines(place.log))
    saver = place.saver(redact=mask)
    place.graph(shape, saver=saver).invoke(None, CONFIG)
    assert place.effects("charge") == 1


@pytest.mark.parametrize("shape", NODES)
def test_a_redact_that_raises_for_the_result_leaves_the_call_uncertain(place: Place, shape: str) -> None:
    """Its effect is there and its result cannot be kept: the run stops, and the next one asks."""

    def broken(name: str, value: Any) -> Any:
        if not isinstance(value, dict):
            raise KeyError(SECRET)
        return value

    saver = place.saver(redact=broken)
    with pytest.raises(ToolLogError, match="redact raised"):
        place.graph(shape, saver=saver).invoke(PAY, CONFIG)
    saver.close()
    assert SECRET not in str(lines(place.log))
    saver = place.saver(redact=mask)
    answer = place.graph(shape, saver=saver).invoke(None, CONFIG)
    assert answer["__interrupt__"][0].value["calls"][0]["tool_call_id"] == CHARGE["id"]
    assert place.effects("charge") == 1


def _stop() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("way", ["keeps", "masks", "read only"])
def test_a_redacted_result_is_not_given_for_the_tools_own(place: Place, way: str) -> None:
    """On resume a call that is over does not run again, and the model is told what is left; a harmless one runs."""
    redact = gone if way != "keeps" else lambda name, value: value
    policy = {"read_only": ["lookup"]} if way == "read only" else None
    saver = place.saver(redact=redact)
    graph = place.graph("tool_node", rounds=[[LOOKUP, CHARGE]], saver=saver, policy=policy, bodies={"charge": _stop})
    with pytest.raises(KeyboardInterrupt):
        graph.invoke(PAY, CONFIG)
    saver.close()
    saver = place.saver(redact=redact)
    graph = place.graph("tool_node", rounds=[[LOOKUP, CHARGE]], saver=saver, policy=policy)
    graph.invoke(None, CONFIG)
    asked = saver.uncertain("t")
    assert [call.name for call in asked] == ["charge"]
    done = graph.invoke(Command(resume={"type": "approve"}), CONFIG)
    said = {m.tool_call_id: m.text for m in done["messages"] if isinstance(m, ToolMessage)}
    if way == "masks":
        assert said[LOOKUP["id"]] == (
            "lookup ended before the run was stopped, and was not run again. The record of its result is redacted; "
            "what is left of it: gone"
        )
    else:
        assert said[LOOKUP["id"]] == "order 7: 40 EUR"
    assert said[CHARGE["id"]] == "charged 40 EUR"
    assert place.effects("lookup") == (2 if way == "read only" else 1)


def test_a_question_and_an_answer_are_redacted(place: Place) -> None:
    """Who is asked sees what the log has; what a human says stays in no record either."""
    call = {**CHARGE, "args": {"euros": 40}}
    saver = place.saver(redact=gone)
    graph = place.graph("tool_node", rounds=[[call]], saver=saver, bodies={"charge": _stop})
    with pytest.raises(KeyboardInterrupt):
        graph.invoke(PAY, CONFIG)
    saver.close()
    saver = place.saver(redact=gone)
    graph = place.graph("tool_node", rounds=[[call]], saver=saver)
    asked = graph.invoke(None, CONFIG)
    assert asked["__interrupt__"][0].value["calls"][0]["args"] == {}
    done = graph.invoke(Command(resume={"type": "respond", "message": SECRET}), CONFIG)
    assert done["messages"][-2].text == SECRET
    assert SECRET not in tool_records(saver.path("t"))
    assert '"gone"' in tool_records(saver.path("t"))


def test_redact_cannot_change_what_the_tool_gets(place: Place) -> None:
    """It is given a copy."""

    def spoil(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            value.clear()
        return value

    saver = place.saver(redact=spoil)
    done = place.graph("create_agent", saver=saver).invoke(PAY, CONFIG)
    assert done["messages"][-2].text == "charged 40 EUR"
    assert saver.resume_state("t").tool_calls[0].args == {}


def test_commands_and_artifacts_are_redacted_in_each_part(tmp_path: Path) -> None:
    """A tool may return a Command that updates the state, with messages in it, or a message with an artifact."""
    message = ToolMessage(f"a {SECRET}", tool_call_id="1", artifact={"card": SECRET}, additional_kwargs={"k": SECRET})
    saver = JsonlSaver(tmp_path, redact=mask)
    value = saver.ledger("t").redaction.value
    kept = value("pay", message)
    assert (kept.content, kept.artifact, kept.additional_kwargs) == ("a ****", {"card": "****"}, {})
    command = Command(update={"messages": [message], "card": SECRET, "n": 1}, goto="n")
    kept = value("pay", [command, message])
    assert SECRET not in str(kept)
    assert (kept[0].update["card"], kept[0].update["n"], kept[0].goto) == ("****", 1, "n")
    assert SECRET in str([command, message])
