"""Threads that keep their messages in a DeltaChannel, whose value is rebuilt from the writes of the ancestors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import pytest
from cases.logs import text
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import _messages_delta_reducer
from scripted import ScriptedModel
from typing_extensions import TypedDict

from langgraph_jsonl_checkpoint import JsonlSaver
from restore.scene import POLICY, THREAD, Delta, Plain, asks, config, gives, hand_written, plain, said, talk

if TYPE_CHECKING:
    from pathlib import Path

    from restore.conftest import Program


class Short(TypedDict):
    """A snapshot every second update."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=2)]


SCRIPT: list[Any] = [
    asks(("1", "edit", {"what": "x"})),
    asks(("2", "run_tests", {"what": "x"}), ("3", "edit", {"what": "y"})),
    "done",
    "again",
]


@pytest.mark.parametrize("state", [Delta, Short], ids=["no snapshot", "snapshots"])
@pytest.mark.parametrize("hooked", [True, False], ids=["hook", "no hook"])
def test_it_is_told_as_a_plain_thread_is(root: Path, state: type, hooked: bool) -> None:
    """Messages, calls and memory are those of the same conversation in a plain channel, at every step of it."""
    told: list[list[Any]] = []
    for name, kind in (("delta", state), ("plain", Plain)):
        with JsonlSaver(root / name) as saver:
            tools = [gives("edit", "ok"), gives("run_tests", "passed")]
            graph = hand_written(saver, SCRIPT, tools, hooked=hooked, state=kind, interrupt_after=["agent", "tools"])
            steps: list[Any] = []
            for given in (
                said("please edit x and y", "u1"),
                None,
                None,
                None,
                None,
                said("please go on with z", "u2"),
            ):
                graph.invoke(given, config() | {"max_concurrency": 1})  # two tools that run at once end in any order
                thread = saver.resume_state(THREAD)
                calls = [(c.tool_call_id, c.name, c.status, c.result_text) for c in thread.tool_calls]
                steps.append((plain(thread.messages), calls, str(thread.memory), thread.next, thread.ended))
                assert list(thread.messages) == graph.get_state(config()).values["messages"]
            told.append(steps)
    assert told[0] == told[1]
    assert told[0][-1][0][-1] == ("ai", "again")


def test_a_crashed_thread_is_rebuilt_exactly(program: Program, root: Path) -> None:
    """Nothing is lent to it, as nothing could be taken out again; the state and the hook tell what happened."""
    program.kill("die_in_model", root, state="delta")
    with JsonlSaver(root) as saver:
        thread = saver.resume_state(THREAD)
        assert thread.crashed
        expected = [
            ("human", "find the bug in the parser"),
            ("ai", "hello"),
            ("human", "go on with the lexer, please"),
        ]
        assert plain(thread.messages) == expected
        graph = talk(saver, ["hello", "found"], state=Delta)
        assert plain(graph.get_state(config()).values["messages"]) == expected
        assert plain(graph.invoke(None, config())["messages"]) == [*expected, ("ai", "found")]
        assert b"session-memory" not in text(saver.path(THREAD))
        goal = saver.session_memory(THREAD).current_goal
        assert goal is not None
        assert goal.text == "go on with the lexer, please"


def test_open_calls_are_answered(program: Program, root: Path) -> None:
    """A new message after a crash: each call has its answer behind its AIMessage, and the memory is in front."""
    program.kill("die_in_tool", root, shape="delta")
    requests: list[Any] = []
    with JsonlSaver(root) as saver:
        graph = hand_written(saver, [None, None, "I see"], requests=requests, state=Delta)
        graph.invoke(said("did it work?"), config())
    ((system, *messages),) = requests
    assert "outcome unknown: charge_card(what='40 EUR')" in system.text
    assert [m.type for m in messages] == ["human", "ai", "tool", "ai", "tool", "tool", "human"]
    assert [m.tool_call_id for m in messages if m.type == "tool"] == ["call-0", "call-1", "call-2"]
    assert messages[4].text == "40 EUR"
    assert messages[5].text.startswith("Outcome unknown: charge_card was started")


# --- deep agents

SUB = {"name": "clerk", "description": "Buys things.", "system_prompt": "You are a clerk."}


def deep(saver: Any, script: list[Any], requests: list[Any], tools: list[Any], **options: Any) -> Any:
    """A deep agent with the hook, its model and its subagent's scripted."""
    deepagents = pytest.importorskip("deepagents")
    from langgraph_jsonl_checkpoint import SessionMiddleware

    return deepagents.create_deep_agent(
        model=ScriptedModel(script=script, requests=requests),
        tools=tools,
        system_prompt="You build shops.",
        middleware=[SessionMiddleware(policy=POLICY)],
        checkpointer=saver,
        **options,
    )


def deep_script() -> list[Any]:
    """It writes a file, tests, and publishes."""
    return [
        asks(("1", "lookup", {"what": "x"}), ("2", "write_file", {"file_path": "/shop.py", "content": "sell()"})),
        asks(("3", "run_tests", {"what": "shop"}), ("4", "publish", {"what": "shop"})),
        "done",
        "I see",
    ]


def deep_until_it_fails(root: Path) -> Any:
    """A deep agent that raises in its tool with the side effect; what a new saver reads then."""
    with JsonlSaver(root) as saver:
        tools = [gives("lookup", "40 EUR"), gives("run_tests", "3 passed"), gives("publish", OSError("no route"))]
        graph = deep(saver, deep_script(), [], tools)
        given = {**said("please build me a shop and publish it", "u1")}
        with pytest.raises(OSError, match="no route"):
            graph.invoke(given, {**config(), "max_concurrency": 1}, durability="sync")
    with JsonlSaver(root) as saver:
        return saver.resume_state(THREAD)


def test_a_deep_agents_thread_is_told(root: Path) -> None:
    """Its messages, tool calls and memory, with a tool of its own."""
    thread = deep_until_it_fails(root)
    assert [m.type for m in thread.messages] == ["human", "ai", "tool", "tool", "ai"]
    assert [(c.name, c.status) for c in thread.tool_calls] == [
        ("lookup", "completed"),
        ("write_file", "completed"),
        ("run_tests", "completed"),
        ("publish", "uncertain"),
    ]
    memory = thread.memory
    assert memory.current_goal.text == "please build me a shop and publish it"
    assert [item.text for item in memory.verification_status] == [
        "outcome unknown: publish(what='shop') raised an error (OSError: no route); check before it is done again",
        "run_tests(what='shop') said: 3 passed",
    ]
    assert any(item.text.startswith("write_file(file_path='/shop.py'") for item in memory.completed_work)


def test_a_deep_agents_open_calls_are_answered(root: Path) -> None:
    """With what the log knows, not "cancelled", which its own middleware would say; the memory is there once."""
    deep_until_it_fails(root)
    requests: list[Any] = []
    with JsonlSaver(root) as saver:
        graph = deep(saver, deep_script(), requests, [gives("run_tests", ""), gives("publish", "")])
        result = graph.invoke(said("did it work?"), config(), durability="sync")
        assert result["messages"][-1].text in ("done", "I see")
        assert b"session-memory" not in text(saver.path(THREAD))
    (request,) = requests
    assert str(request).count("<session-memory>") == 1
    assert request[0].content[-1]["text"].startswith("<session-memory>")
    answers = {m.tool_call_id: m.text for m in request if m.type == "tool"}
    assert answers["3"] == "3 passed"
    assert answers["4"].startswith("Outcome unknown: publish was started and raised an error")


def test_a_deep_agent_goes_on(root: Path) -> None:
    """Decided upon and resumed, the finished tools are not run again, and its files are there."""
    deep_until_it_fails(root)
    runs: list[str] = []

    def ran(name: str) -> Any:
        found = gives(name, "")
        found.func = lambda what="": runs.append(name) or "ok"
        return found

    with JsonlSaver(root) as saver:
        saver.resolve(THREAD, "4", {"type": "approve"})
        graph = deep(saver, deep_script(), [], [ran("run_tests"), ran("publish")])
        result = graph.invoke(None, config(), durability="sync")
    assert runs == ["publish"]
    assert result["messages"][-1].text == "done"
    assert "/shop.py" in result["files"]


def test_a_deep_agents_subagent_is_recorded(root: Path) -> None:
    """Its calls are told under their namespace, the call that started it among the root's."""
    asked = {"description": "buy a chair", "subagent_type": "clerk"}
    script = [asks(("1", "task", asked)), "done"]
    inner = [asks(("2", "pay", {"what": "chair"})), "bought"]
    from langgraph_jsonl_checkpoint import SessionMiddleware

    with JsonlSaver(root) as saver:
        sub = SUB | {
            "model": ScriptedModel(script=inner),
            "tools": [gives("pay", OSError("no money"))],
            "middleware": [SessionMiddleware()],
        }
        graph = deep(saver, script, [], [], subagents=[sub])
        with pytest.raises(OSError, match="no money"):
            graph.invoke(said("please buy me a chair for the shop"), config(), durability="sync")
    with JsonlSaver(root) as saver:
        thread = saver.resume_state(THREAD)
        assert [(c.name, c.status) for c in thread.uncertain] == [("task", "uncertain"), ("pay", "uncertain")]
        task, pay = thread.tool_calls
        assert task.ns == ""
        assert pay.ns.startswith("tools:")
        assert pay.ns.endswith(task.task_id)
        assert isinstance(thread.messages[-1], AIMessage)
