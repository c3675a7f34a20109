"""How the session memory reaches the model: in the request, and nowhere else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from cases.logs import text
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig  # noqa: TC002 - LangGraph reads the annotation
from langgraph.graph import START, StateGraph
from scripted import ScriptedModel

from langgraph_jsonl_checkpoint import JsonlSaver, SessionMiddleware, ToolLogError, inject
from langgraph_jsonl_checkpoint.folds.memory import Deriver
from restore.scene import THREAD, Plain, agent, asks, config, gives, hand_written, plain, said

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from langchain_core.messages import BaseMessage

    from langgraph_jsonl_checkpoint.folds.memory import Event
    from restore.conftest import Program

BEGIN = "<session-memory>\n"
SCRIPT: list[Any] = [asks(("1", "edit", {"what": "x"})), asks(("2", "edit", {"what": "y"})), "done", "again"]


def arun(graph: Any, say: str, durability: str = "sync") -> Any:
    """`ainvoke`, as a plain function."""
    return asyncio.run(graph.ainvoke(said(say), config(), durability=durability))


def run(graph: Any, say: str, durability: str = "sync") -> Any:
    """`invoke`."""
    return graph.invoke(said(say), config(), durability=durability)


each_way = pytest.mark.parametrize("go", [run, arun], ids=["sync", "async"])


def blocks(message: BaseMessage) -> list[str]:
    """The text of each content block."""
    if isinstance(message.content, str):
        return [message.content]
    return [block["text"] for block in message.content]  # type: ignore[index]


def memory_in(request: Sequence[BaseMessage]) -> str:
    """The one memory in a request: in the last block of its first message, a system message."""
    found = [(m, block) for m in request for block in blocks(m) if BEGIN in block]
    ((message, block),) = found
    assert message is request[0]
    assert isinstance(message, SystemMessage)
    assert not any(isinstance(other, SystemMessage) for other in request[1:])
    assert block == blocks(message)[-1]
    assert block.count(BEGIN) == 1
    return block


@each_way
def test_the_memory_is_the_last_block_of_the_system_message(saver: JsonlSaver, go: Any) -> None:
    """The caller's prompt stays what it is, in front; the first request of a thread has a memory, too."""
    requests: list[Any] = []
    graph = agent(saver, SCRIPT, [gives("edit", "ok")], requests=requests, system_prompt="You are a clerk.")
    go(graph, "please edit x and y")
    assert [blocks(request[0])[:-1] for request in requests] == [["You are a clerk."]] * 3
    assert all("please edit x and y" in memory_in(request) for request in requests)
    assert [plain(request[1:]) for request in requests][-1] == [
        ("human", "please edit x and y"),
        ("ai", ""),
        ("tool", "ok"),
        ("ai", ""),
        ("tool", "ok"),
    ]


def test_without_a_system_message_the_memory_is_one(saver: JsonlSaver) -> None:
    """There is then no other block."""
    requests: list[Any] = []
    agent(saver, ["done"], requests=requests).invoke(said("please edit x and y"), config(), durability="sync")
    ((system, human),) = requests
    assert blocks(system) == [memory_in([system, human])]


@each_way
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_the_memory_knows_what_the_user_just_said(saver: JsonlSaver, go: Any, durability: str) -> None:
    """Also where LangGraph does not wait for the checkpoint that holds it: who is faster does not matter."""
    requests: list[Any] = []
    graph = agent(saver, ["one", "two"], requests=requests)
    for say in ("please edit x and y", "please edit the other one now"):
        go(graph, say, durability)
    for request, say in zip(requests, ("please edit x and y", "please edit the other one now"), strict=True):
        assert memory_in(request).splitlines()[3:] == ["Current goal:", f"- {say}", "</session-memory>"]


def test_blocks_of_the_caller_stay(saver: JsonlSaver) -> None:
    """A system message of several blocks, some with a cache mark, gets one more behind them."""
    given = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}]
    requests: list[Any] = []
    prompt = SystemMessage(list(given), id="s", name="caller")
    graph = agent(saver, ["done"], requests=requests, system_prompt=prompt)
    graph.invoke(said("please edit x and y"), config(), durability="sync")
    system = requests[0][0]
    assert system.content[:-1] == given
    assert system.content[-1] == {"type": "text", "text": memory_in(requests[0])}
    assert (system.id, system.name) == ("s", "caller")
    assert prompt.content == given


@each_way
def test_within_a_run_the_memory_does_not_change(saver: JsonlSaver, go: Any) -> None:
    """It is byte for byte that of the run's first request; the next run's tells what happened in between."""
    requests: list[Any] = []
    graph = agent(saver, SCRIPT, [gives("edit", "ok")], requests=requests)
    go(graph, "please edit x and y")
    go(graph, "go on")
    first, second, third, fourth = map(memory_in, requests)
    assert first == second == third
    assert "edit(what='x'): ok" not in first
    assert "edit(what='x'): ok" in fourth
    assert fourth == str(saver.session_memory(THREAD))


@each_way
@pytest.mark.parametrize("place", ["outside", "inside"])
def test_under_retries_the_memory_is_there_once(saver: JsonlSaver, go: Any, place: str) -> None:
    """Each attempt of a ModelRetryMiddleware, around the hook or within it, has it once, and the same."""
    attempts = iter([OSError("down"), OSError("down"), AIMessage("done")])

    def flaky() -> AIMessage:
        answer = next(attempts)
        if isinstance(answer, Exception):
            raise answer
        return answer

    requests: list[Any] = []
    retry = ModelRetryMiddleware(max_retries=3, initial_delay=0, jitter=False)
    given = [retry, SessionMiddleware()] if place == "outside" else [SessionMiddleware(), retry]
    graph = agent(saver, [flaky], requests=requests, hooked=False, middleware=given, system_prompt="You are a clerk.")
    result = go(graph, "please edit x and y")
    assert result["messages"][-1].text == "done"
    assert len(requests) == 3
    assert len({memory_in(request) for request in requests}) == 1
    assert [len(request[0].content) for request in requests] == [2, 2, 2]


@each_way
def test_the_memory_is_not_in_the_state(saver: JsonlSaver, go: Any) -> None:
    """Neither the result nor the log has it."""
    graph = agent(saver, SCRIPT, [gives("edit", "ok")], system_prompt="You are a clerk.")
    for say in ("please edit x and y", "go on"):
        result = go(graph, say)
        assert BEGIN.strip() not in str(result)
    assert b"session-memory" not in text(saver.path(THREAD))
    assert b"You are a clerk" not in text(saver.path(THREAD))


@each_way
def test_without_memory_only_the_answers_are_given(program: Program, root: Path, go: Any) -> None:
    """`memory=False` leaves the system message alone; open calls are answered all the same."""
    program.kill("die_in_tool", root)
    requests: list[Any] = []
    with JsonlSaver(root, restore_memory="never") as saver:
        graph = agent(saver, [*[None] * 2, "ok"], requests=requests, memory=False, system_prompt="You are a clerk.")
        go(graph, "did it work?")
    ((system, *messages),) = requests
    assert system.content == "You are a clerk."
    answers = {m.tool_call_id: m.text for m in messages if m.type == "tool"}
    assert answers["call-1"] == "40 EUR"
    assert answers["call-2"].startswith("Outcome unknown")


@each_way
def test_the_saver_may_be_the_hooks_own(root: Path, go: Any) -> None:
    """A hook that was given the saver does the same as one that finds the graph's."""
    requests: list[Any] = []
    with JsonlSaver(root) as saver:
        hook = SessionMiddleware(saver)
        graph = agent(saver, ["done"], requests=requests, hooked=False, middleware=[hook])
        go(graph, "please edit x and y")
    assert "please edit x and y" in memory_in(requests[0])


def test_another_middlewares_prompt_comes_before(saver: JsonlSaver) -> None:
    """The hook is the last of the list, so what others add to the system message is in front of the memory."""

    class Adds(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            blocks = [*request.system_message.content_blocks, {"type": "text", "text": "added"}]
            return handler(request.override(system_message=SystemMessage(blocks)))

    requests: list[Any] = []
    graph = agent(saver, ["done"], requests=requests, middleware=[Adds()], system_prompt="You are a clerk.")
    graph.invoke(said("please edit x and y"), config(), durability="sync")
    assert blocks(requests[0][0]) == ["You are a clerk.", "added", memory_in(requests[0])]


@each_way
def test_inject_does_it_for_a_node_of_ones_own(saver: JsonlSaver, go: Any) -> None:
    """The memory is in each request, the same within a run, and not in the state."""
    requests: list[Any] = []
    graph = hand_written(saver, SCRIPT, [gives("edit", "ok")], requests=requests)
    for say in ("please edit x and y", "go on"):
        result = go(graph, say)
        assert BEGIN.strip() not in str(result)
    first, second, third, fourth = map(memory_in, requests)
    assert first == second == third != fourth
    assert b"session-memory" not in text(saver.path(THREAD))


def test_inject_appends_to_a_system_message(saver: JsonlSaver) -> None:
    """The caller's message is not changed; memory=False leaves all as it is; the list is a new one."""
    seen: list[Any] = []
    system, human = SystemMessage("You are a clerk."), HumanMessage("hi")

    def node(state: Any, config: RunnableConfig) -> Any:
        given = [system, human]
        seen.append(inject(given, saver, config))
        seen.append(inject(given, None, config, memory=False))
        assert given == [system, human]
        return {"messages": [AIMessage("ok")]}

    graph = StateGraph(Plain).add_node("n", node).add_edge(START, "n").compile(checkpointer=saver)
    graph.invoke(said("please edit x and y"), config(), durability="sync")
    told, untold = seen
    assert blocks(told[0]) == ["You are a clerk.", memory_in(told)]
    assert told[1:] == [human]
    assert untold == [system, human]
    assert system.content == "You are a clerk."


def test_inject_outside_of_a_run_reads_the_thread(saver: JsonlSaver) -> None:
    """With a config that names a thread, and no run, it gives what the log says now; without a thread, nothing."""
    agent(saver, SCRIPT, [gives("edit", "ok")]).invoke(said("please edit x and y"), config(), durability="sync")
    told = inject([HumanMessage("hi")], saver, config())
    assert memory_in(told) == str(saver.session_memory(THREAD))
    assert inject([HumanMessage("hi")], saver, {}) == [HumanMessage("hi")]


def test_an_agent_without_a_saver_is_left_alone() -> None:
    """The hook does nothing where nothing can be resumed."""
    requests: list[Any] = []
    agent(None, SCRIPT, [gives("edit", "ok")], requests=requests).invoke(said("please edit x and y"))
    assert not any(isinstance(m, SystemMessage) for request in requests for m in request)
    assert len(requests) == 3


def test_the_model_of_the_scene_keeps_what_it_was_asked() -> None:
    """Otherwise the tests above would look at nothing."""
    requests: list[Any] = []
    ScriptedModel(script=["a"], requests=requests).invoke([HumanMessage("hi")])
    assert plain(requests[0]) == [("human", "hi")]


class Damaged(Deriver):
    """A deriver that comes to something that cannot be read."""

    def apply(self, state: Any, event: Event) -> None:
        """Take in the next event."""
        raise OSError("a bad sector")


@each_way
@pytest.mark.parametrize("build", [agent, hand_written])
def test_a_log_that_cannot_be_read_is_told_as_that(tmp_path: Path, build: Any, go: Any) -> None:
    """The model is not called, and nobody reads of a tool call that could not be recorded: there is none."""
    requests: list[Any] = []
    with JsonlSaver(tmp_path, memory=Damaged()) as saver:
        graph = build(saver, ["done"], requests=requests)
        with pytest.raises(
            ToolLogError, match=rf"thread '{THREAD}' could not be read from .*a bad sector"
        ) as stopped:
            go(graph, "hello")
    assert ("tool call" in str(stopped.value), requests) == (False, [])
