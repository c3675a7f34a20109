"""ResumeState: what a thread is about to go on from, read from its log alone."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from langgraph_jsonl_checkpoint import JsonlSaver, NoSessionError
from restore.jobs import CALLS, ORDER, order
from restore.scene import THREAD, agent, asks, config, gives, said, talk, waits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langgraph_jsonl_checkpoint import ResumeState
    from restore.conftest import Program


def read(root: Path, thread: str = THREAD) -> ResumeState:
    """What a new saver reads."""
    with JsonlSaver(root) as saver:
        return saver.resume_state(thread)


def test_each_field_says_what_the_log_holds(program: Program, root: Path) -> None:
    """A killed thread's state: where it was, what it said, what each tool call came to, which input it had."""
    program.kill("die_in_tool", root, input_id="mail-1")
    with JsonlSaver(root, restore_memory="never") as saver:
        state = saver.resume_state(THREAD)
        stored = saver.get_tuple(config())
        snapshot = order(saver, "create_agent").get_state(config())
    assert stored is not None
    assert state.thread_id == THREAD
    assert state.header == {
        "format": "langgraph-jsonl-checkpoint",
        "version": 1,
        "thread_id": THREAD,
        "workspace": "default",
        "generation": 0,
        "delegation_depth": 0,
        "parent": None,
        "forked_from": None,
    }
    assert state.checkpoint is not None
    assert dataclasses.asdict(state.checkpoint) == {
        "id": stored.checkpoint["id"],
        "step": stored.metadata["step"],
        "source": "loop",
        "created": stored.checkpoint["ts"],
    }
    assert set(state.next) == set(snapshot.next) == {"tools"}
    assert list(state.messages) == stored.checkpoint["channel_values"]["messages"]
    assert [message.type for message in state.messages] == ["human", "ai", "tool", "ai"]
    assert state.inputs == frozenset({"mail-1"})
    assert (state.ended, state.error, state.crashed, state.recovered) == (None, None, True, ())
    assert state.memory.current_goal is not None
    assert state.memory.current_goal.text == "please pay order 7"


@pytest.mark.parametrize("shape", ["create_agent", "plain", "delta", "subgraph"])
def test_each_call_has_its_status(program: Program, root: Path, shape: str) -> None:
    """A finished call is completed, the one in which the process died uncertain, in every shape of graph."""
    program.kill("die_in_tool", root, shape=shape)
    state = read(root)
    tests, lookup, charge = state.tool_calls
    assert [(c.tool_call_id, c.name, c.args) for c in state.tool_calls] == [
        ("call-0", "run_tests", {"what": "shop"}),
        ("call-1", "lookup", {"what": "order 7"}),
        ("call-2", "charge_card", {"what": "40 EUR"}),
    ]
    assert [c.status for c in state.tool_calls] == ["completed", "completed", "uncertain"]
    assert [c.effect for c in state.tool_calls] == ["read_only", "read_only", "side_effects"]
    assert [c.attempt for c in state.tool_calls] == [1, 1, 1]
    assert [c.check for c in state.tool_calls] == [True, False, False]
    assert [c.result_text for c in state.tool_calls] == ["3 passed", "40 EUR", ""]
    assert isinstance(lookup.result, ToolMessage)
    assert (charge.ended, charge.error, charge.decision) == ("", None, None)
    assert charge.started_at is not None
    assert charge.task_id != tests.task_id
    assert state.uncertain == (charge,)
    if shape == "subgraph":
        assert {c.ns.partition(":")[0] for c in state.tool_calls} == {"buyer"}
    else:
        assert state.checkpoint is not None
        assert {c.ns for c in state.tool_calls} == {""}
        assert charge.checkpoint_id == state.checkpoint.id
        assert charge.checkpoint_id != tests.checkpoint_id
    with JsonlSaver(root) as saver:
        assert saver.uncertain(THREAD) == state.uncertain
    assert "charge_card" in state.memory.verification_status[0].text


def test_a_call_without_its_message_is_told(program: Program, root: Path) -> None:
    """Where only the tool's record is stored, as under durability="exit", the call is there in full."""
    program.kill("die_in_tool", root, durability="exit")
    state = read(root)
    assert (state.checkpoint, state.next, state.messages) == (None, (), ())
    assert [(c.name, c.args, c.status) for c in state.uncertain] == [("charge_card", {"what": "40 EUR"}, "uncertain")]
    assert [c.status for c in state.tool_calls] == ["completed", "completed", "uncertain"]


def test_each_attempt_and_decision_is_told(program: Program, root: Path) -> None:
    """A decision is in the state, with its message and the attempt that it is about; the call is resolved."""
    program.kill("die_in_tool", root)
    with JsonlSaver(root) as saver:
        saver.resolve(THREAD, "call-2", {"type": "respond", "message": "it was charged"})
        call = saver.resume_state(THREAD).tool_calls[-1]
        assert saver.uncertain(THREAD) == ()
    assert call.status == "resolved"
    assert call.decision == {"type": "respond", "message": "it was charged", "attempt": 1}


@pytest.mark.parametrize("how", ["completed", "interrupted", "failed"])
def test_the_end_of_the_last_run_is_told(root: Path, how: str) -> None:
    """A run is completed, waits for a human, or failed with an error."""
    tools = {
        "completed": gives("act", "ok"),
        "interrupted": waits("act"),
        "failed": gives("act", OSError("no space")),
    }
    with JsonlSaver(root) as saver:
        graph = agent(saver, [asks(("c", "act", {"what": "?"})), "done"], [tools[how]])
        if how == "failed":
            with pytest.raises(OSError, match="no space"):
                graph.invoke(said("do it"), config())
        else:
            graph.invoke(said("do it"), config())
        state = saver.resume_state(THREAD)
    assert (state.ended, state.crashed) == (how, False)
    assert read(root).ended == how
    (call,) = state.tool_calls
    assert call.status == {"completed": "completed", "interrupted": "waiting", "failed": "failed"}[how]
    if how == "failed":
        assert "no space" in (state.error or "")
        assert call.error == "OSError: no space"
        assert [c.status for c in read(root).tool_calls] == ["uncertain"]
    else:
        assert state.error is None


@pytest.mark.parametrize("how", ["interrupted", "failed", "completed"])
def test_the_end_of_a_fast_run_is_told(root: Path, how: str) -> None:
    """LangGraph stores a question, an error and an answer beside the checkpoints, and not in their order."""
    ends = {
        "interrupted": lambda: interrupt("?"),
        "failed": lambda: 1 / 0,
        "completed": lambda: interrupt("?") and {},
    }
    graph = StateGraph(MessagesState).add_node("begin", lambda _: {}).add_node("end", lambda _: ends[how]())
    graph.add_edge(START, "begin").add_edge("begin", "end")
    for number in range(20):
        with JsonlSaver(root) as saver:
            compiled, where = graph.compile(checkpointer=saver), config(f"thread {number}")
            with pytest.raises(ZeroDivisionError) if how == "failed" else contextlib.nullcontext():
                compiled.invoke({"messages": [HumanMessage("go")]}, where)
            if how == "completed":
                compiled.invoke(Command(resume={"messages": []}), where)
            assert saver.resume_state(f"thread {number}").ended == how


def test_a_run_that_goes_on_has_not_ended(root: Path) -> None:
    """While a tool runs the run has no end, and the answer that a human gave is no end either."""
    seen: list[Any] = []
    with JsonlSaver(root) as saver:
        act = gives("look", "")
        act.func = lambda what="": seen.append(saver.resume_state(THREAD)) or "ok"
        script = [asks(("a", "ask", {"what": "?"})), asks(("b", "look", {"what": "!"})), "done"]
        graph = agent(saver, script, [waits("ask"), act])
        graph.invoke(said("do it"), config())
        graph.invoke(Command(resume="yes"), config())
        assert saver.resume_state(THREAD).ended == "completed"
    (state,) = seen
    assert (state.ended, state.crashed) == (None, False)
    assert [c.status for c in state.tool_calls] == ["completed", "running"]


def test_another_process_reads_a_living_run(program: Program, root: Path) -> None:
    """The call that a live writer runs is running for everybody, and uncertain for nobody; nothing crashed."""
    seen: list[Any] = []
    with JsonlSaver(root) as saver:
        act = gives("act", "")
        act.func = lambda what="": seen.extend(program.run("read", root)) or "ok"
        agent(saver, [asks(("c", "act", {"what": "?"})), "done"], [act]).invoke(said("do it"), config())
        seen += program.run("read", root)
    assert seen == [
        {"kind": "thread", "calls": {"c": "running"}, "crashed": False, "ended": None},
        {"kind": "thread", "calls": {"c": "completed"}, "crashed": False, "ended": "completed"},
    ]


ALIVE = {"kind": "thread", "calls": {}, "crashed": False, "ended": None}


def _await(saver: JsonlSaver, channel: str, value: Any) -> None:
    """Wait until a write is in the log: LangGraph stores them while tasks run."""
    while not [w for found in saver.list(config()) for w in found.pending_writes or [] if w[1:] == (channel, value)]:
        time.sleep(0.01)


def _two_tasks(fast: Callable[[], Any], slow: Callable[[], Any]) -> StateGraph[Any]:
    """Two tasks of one superstep, behind another."""
    builder = StateGraph(MessagesState)
    builder.add_node("begin", lambda _: {})
    builder.add_node("fast", lambda _: fast() or {"messages": [AIMessage("fast")]})
    builder.add_node("slow", lambda _: slow() or {"messages": [AIMessage("slow")]})
    return builder.add_edge(START, "begin").add_edge("begin", "fast").add_edge("begin", "slow")


def test_a_run_whose_process_has_stored_writes_alone_is_alive(program: Program, root: Path) -> None:
    """It goes on with a run that was left: one task of a superstep has ended, and the other takes long."""
    seen: list[Any] = []

    def slow() -> None:
        _await(saver, "messages", [AIMessage("fast")])
        seen.extend(program.run("read", root))

    graph = _two_tasks(lambda: None, slow)
    with JsonlSaver(root) as first:
        paused = graph.compile(checkpointer=first, interrupt_before=["fast", "slow"])
        paused.invoke({"messages": [HumanMessage("go")]}, config())
    with JsonlSaver(root) as saver:
        graph.compile(checkpointer=saver).invoke(None, config())
    assert seen == [ALIVE]


def test_a_run_whose_process_has_stored_an_answer_alone_is_alive(program: Program, root: Path) -> None:
    """A human's answer is the first that a new process stores, and what comes of it takes long."""
    seen: list[Any] = []

    def slow() -> None:
        answer = interrupt("?")
        _await(saver, "__resume__", answer)
        seen.extend(program.run("read", root))

    graph = _two_tasks(lambda: None, slow)
    with JsonlSaver(root) as first:
        graph.compile(checkpointer=first).invoke({"messages": [HumanMessage("go")]}, config())
    with JsonlSaver(root) as saver:
        graph.compile(checkpointer=saver).invoke(Command(resume="yes"), config())
    assert seen == [ALIVE]


def test_a_run_is_alive_behind_the_change_that_another_process_made(program: Program, root: Path) -> None:
    """Somebody changes the state in the middle of a superstep, and is gone; then a task of the run ends."""
    seen: list[Any] = []

    def fast() -> None:
        with JsonlSaver(root) as other:
            graph.compile(checkpointer=other).update_state(config(), {"messages": []}, as_node="begin")

    def slow() -> None:
        _await(saver, "messages", [AIMessage("fast")])
        seen.extend(program.run("read", root))

    graph = _two_tasks(fast, slow)
    with JsonlSaver(root) as saver:
        graph.compile(checkpointer=saver).invoke({"messages": [HumanMessage("go")]}, config())
    assert seen == [ALIVE]


@pytest.mark.parametrize("then", ["removed", "moved", "put back"])
def test_a_run_is_alive_in_a_root_that_was_replaced_under_its_saver(root: Path, then: str) -> None:
    """The saver goes on at the root's path: who looks there finds its run alive, and at its end no lock is left."""
    seen: list[bool] = []

    def node(_: Any) -> dict:
        seen.append(read(root).crashed)
        return {"messages": [("ai", "Here.")]}

    builder = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
    with JsonlSaver(root) as saver:
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": [("user", "Where?")]}, config(), durability="sync")
        shutil.copytree(root / "default", root.with_name("copy") / "default")
        if then == "moved":
            root.rename(root.with_name("old"))
        else:
            shutil.rmtree(root)
        if then == "put back":
            root.with_name("copy").rename(root)
        graph.invoke({"messages": [("user", "And now?")]}, config(), durability="sync")
        assert seen == [False, False]
    assert not (root / ".writers").exists()


def test_a_run_is_alive_behind_the_end_of_its_subgraph(program: Program, root: Path) -> None:
    """A new process goes on inside a subgraph, whose end is all that it has stored."""
    seen: list[Any] = []
    inner = StateGraph(MessagesState).add_node("ask", lambda _: {"messages": [AIMessage("asked")]})
    subgraph = inner.add_edge(START, "ask").compile(interrupt_before=["ask"])
    graph = StateGraph(MessagesState).add_node("inner", lambda state: subgraph.invoke(state) and look())
    graph.add_edge(START, "inner")

    def look() -> dict[str, Any]:
        seen.extend(program.run("read", root))
        return {}

    with JsonlSaver(root) as first:
        graph.compile(checkpointer=first).invoke({"messages": [HumanMessage("go")]}, config())
        assert seen == []
    with JsonlSaver(root) as saver:
        graph.compile(checkpointer=saver).invoke(None, config())
    assert seen == [ALIVE]


def test_it_is_frozen(program: Program, root: Path) -> None:
    """Nobody can change what was read."""
    program.kill("die_in_tool", root)
    state = read(root)
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.crashed = False  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.tool_calls[0].status = "failed"  # type: ignore[misc]
    with pytest.raises(TypeError):
        state.header["version"] = 2  # type: ignore[index]
    for name in ("next", "messages", "tool_calls", "uncertain", "recovered"):
        assert type(getattr(state, name)) is tuple


def test_it_can_be_read_by_a_human(program: Program, root: Path) -> None:
    """As text and in a notebook it says what happened; what tools and models wrote cannot become markup."""
    program.kill("die_in_tool", root, input_id="mail-1")
    text, html = str(read(root)), read(root)._repr_html_()
    for each in (text, html):
        for word in (THREAD, "crashed", "tools", "lookup", "completed", "charge_card", "uncertain", "mail-1"):
            assert word in each
    with JsonlSaver(root) as saver:
        script = [asks(("<b>", "act", {"what": "<script>alert(1)</script>"})), "done"]
        agent(saver, script, [gives("act", "<i>")]).invoke(said("<u>do</u>"), config("<h1>"))
        html = saver.resume_state("<h1>")._repr_html_()
    for tag in ("<script>", "<b>", "<i>", "<h1>", "<u>"):
        assert tag not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_the_same_log_gives_the_same_state(program: Program, root: Path, tmp_path: Path, durability: str) -> None:
    """Read twice, by one saver or two, or from a copy in another place: the same."""
    program.kill("die_in_tool", root, durability=durability)
    with JsonlSaver(root) as saver:
        states = [saver.resume_state(THREAD), saver.resume_state(THREAD)]
    shutil.copytree(root, tmp_path / "copy")
    states += [read(root), read(tmp_path / "copy")]
    assert states == [states[0]] * 4
    assert len({str(state) for state in states}) == 1
    assert len({str(state.memory) for state in states}) == 1


def test_reading_changes_no_byte(program: Program, root: Path) -> None:
    """All that can be asked is answered without a write, from a torn log, too."""
    program.kill("die_in_tool", root)
    with JsonlSaver(root) as saver:
        log = saver.path(THREAD)
    log.write_bytes(log.read_bytes() + b"\x28\xb5\x2f\xfd torn")
    before, changed = log.read_bytes(), log.stat().st_mtime_ns
    with JsonlSaver(root) as saver:
        saver.resume_state(THREAD)
        saver.uncertain(THREAD)
        saver.session_memory(THREAD)
        saver.accepts(THREAD, "mail-1")
        order(saver, "create_agent").get_state(config())
    assert (log.read_bytes(), log.stat().st_mtime_ns) == (before, changed)
    assert [path.name for path in log.parent.iterdir()] == [log.name]


def test_a_torn_end_that_was_moved_aside_is_told(program: Program, root: Path) -> None:
    """What recovery cut is in the state of everyone who reads the log later."""
    program.kill("die_in_model", root)
    with JsonlSaver(root) as saver:
        log = saver.path(THREAD)
        size = log.stat().st_size
        log.write_bytes(log.read_bytes() + b"\x28\xb5\x2f\xfd torn")
        assert saver.resume_state(THREAD).recovered == ()
        talk(saver, ["hello", "found"]).invoke(None, config())
    state = read(root)
    ((found,),) = (state.recovered,)
    assert (found["offset"], found["bytes"]) == (size, 9)
    assert (log.parent / found["file"]).read_bytes() == b"\x28\xb5\x2f\xfd torn"
    assert found["file"] in str(state)


def test_an_unknown_thread_has_no_state(root: Path) -> None:
    """It is an error that says where its log would be, and nothing is made; short questions have an empty answer."""
    with JsonlSaver(root) as saver:
        talk(saver, ["hello"]).invoke(said("hi"), config("known"))
        with pytest.raises(NoSessionError, match="unknown"):
            saver.resume_state("unknown")
        assert saver.uncertain("unknown") == ()
        assert str(saver.session_memory("unknown")) == ""
        assert saver.accepts("unknown", "mail-1")
        assert not saver.path("unknown").parent.exists()


async def test_an_event_loop_reads_the_same(program: Program, root: Path) -> None:
    """`aresume_state` is `resume_state`, and so for all that reads."""
    program.kill("die_in_tool", root)
    with JsonlSaver(root) as saver:
        assert await saver.aresume_state(THREAD) == saver.resume_state(THREAD)
        assert await saver.auncertain(THREAD) == saver.uncertain(THREAD) != ()
        assert await saver.asession_memory(THREAD) == saver.session_memory(THREAD)
        assert await saver.aaccepts(THREAD, "mail-1")


def test_a_sealed_thread_is_read_by_its_serde(root: Path) -> None:
    """With an EncryptedSerializer the state is the same, and nothing of it is in the log in the clear."""
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    states = []
    for place, given in (("sealed", serde), ("clear", None)):
        with JsonlSaver(root / place, serde=given) as saver:
            script = [asks(("c", "act", {"what": "secret"})), "done"]
            graph = agent(saver, script, [gives("act", "treasure")])
            graph.invoke(said("dig for it", "u1"), config(input_id="in"))
        with JsonlSaver(root / place, serde=given) as saver:
            states.append(saver.resume_state(THREAD))
    sealed, clear = states
    assert [(c.name, c.args, c.status, c.result_text) for c in sealed.tool_calls] == [
        ("act", {"what": "secret"}, "completed", "treasure")
    ]
    assert [(m.type, m.text) for m in sealed.messages] == [(m.type, m.text) for m in clear.messages]
    assert str(sealed.memory) == str(clear.memory)
    assert (sealed.inputs, sealed.ended) == (frozenset({"in"}), "completed")


def test_messages_are_those_of_the_newest_checkpoint(root: Path) -> None:
    """Edited and removed messages are told as they are now."""
    with JsonlSaver(root) as saver:
        graph = talk(saver, ["one", "two"])
        graph.invoke(said("first", "u1"), config())
        graph.update_state(config(), {"messages": [HumanMessage("changed", id="u1")]})
        state = saver.resume_state(THREAD)
    assert [m.text for m in state.messages] == ["changed", "one"]
    assert isinstance(state.messages[1], AIMessage)


def test_the_script_is_the_one_that_is_asked() -> None:
    """The calls that these tests expect are those of the scene."""
    assert [call["id"] for call in CALLS.tool_calls] == ["call-1", "call-2"]
    assert ORDER[1] is CALLS
