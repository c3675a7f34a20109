"""Threads whose tool calls no hook recorded: what their messages and writes alone tell of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import Command

from langgraph_jsonl_checkpoint import JsonlSaver, decide
from restore.jobs import hand_off, nested, transfer
from restore.scene import THREAD, agent, asks, config, gives, hand_written, named, said, waits

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from langgraph_jsonl_checkpoint import ToolCall
    from restore.conftest import Program


def statuses(calls: Iterable[ToolCall]) -> dict[str, str]:
    """The status of each tool's call."""
    return {call.name: call.status for call in calls}


def read(root: Path) -> Any:
    """What a new saver reads."""
    with JsonlSaver(root) as saver:
        return saver.resume_state(THREAD)


@pytest.mark.parametrize("build", [agent, hand_written], ids=["create_agent", "ToolNode"])
def test_an_answered_call_is_over(root: Path, build: Any) -> None:
    """A call with a result is completed, and failed if the result is an error."""
    script = [asks(("c1", "act", {"what": "x"}), ("c2", "nothing", {"what": "y"})), "done"]
    with JsonlSaver(root) as saver:
        build(saver, script, [gives("act", "ok")], hooked=False).invoke(said("do it"), config())
        state = saver.resume_state(THREAD)
    assert statuses(state.tool_calls) == {"act": "completed", "nothing": "failed"}
    done, failed = state.tool_calls
    assert (done.tool_call_id, done.args, done.attempt, done.result_text) == ("c1", {"what": "x"}, 0, "ok")
    assert "nothing is not a valid tool" in failed.result_text
    assert state.uncertain == ()


@pytest.mark.parametrize(
    ("shape", "lookup"), [("create_agent", "completed"), ("plain", "uncertain"), ("delta", "uncertain")]
)
def test_a_scheduled_call_of_a_killed_process_is_uncertain(
    program: Program, root: Path, shape: str, lookup: str
) -> None:
    """Nobody can say whether it started; a finished sibling's stored result is known, where its task was its own."""
    program.kill("die_unwatched", root, shape=shape)
    state = read(root)
    assert statuses(state.tool_calls) == {"lookup": lookup, "charge_card": "uncertain"}
    assert [call.args for call in state.tool_calls] == [{"what": "order 7"}, {"what": "40 EUR"}]
    assert statuses(state.uncertain)["charge_card"] == "uncertain"
    assert state.crashed
    assert state.checkpoint is not None
    assert {call.checkpoint_id for call in state.tool_calls} == {state.checkpoint.id}


def test_a_call_with_an_id_that_was_given_before_has_its_own_result(program: Program, root: Path) -> None:
    """An earlier call's result is not its own: it is as uncertain as any other."""
    program.kill("die_in_an_id_given_twice", root)
    state = read(root)
    assert [(c.tool_call_id, c.status) for c in state.tool_calls] == [
        ("call_0", "completed"),
        ("call_0", "uncertain"),
    ]
    assert statuses(state.uncertain) == {"charge_card": "uncertain"}
    assert "outcome unknown: charge_card(what='40 EUR')" in str(state.memory)


@pytest.mark.parametrize(("how", "status"), [("closed", "pending"), ("killed", "uncertain")])
def test_a_call_behind_a_pause_never_started(program: Program, root: Path, how: str, status: str) -> None:
    """Stopped before the tools by a writer that closed, nothing was started; of a killed one nobody can say that."""
    act = program.kill if how == "killed" else program.run
    act("pause_unwatched", root, how=how)
    state = read(root)
    assert set(statuses(state.tool_calls).values()) == {status}
    assert state.crashed == (how == "killed")


def test_a_call_of_a_living_writer_runs(program: Program, root: Path) -> None:
    """Another process sees it run, not uncertain."""
    seen: list[Any] = []
    with JsonlSaver(root) as saver:
        act = gives("act", "")
        act.func = lambda what="": seen.extend(program.run("read", root)) or "ok"
        graph = agent(saver, [asks(("c", "act", {"what": "?"})), "done"], [act], hooked=False)
        graph.invoke(said("do it"), config(), durability="sync")
    assert [each["calls"] for each in seen] == [{"c": "running"}]


def test_a_call_that_raised_is_uncertain(root: Path) -> None:
    """The error came out of the tool or before it: the log does not tell."""
    with JsonlSaver(root) as saver:
        graph = agent(saver, [asks(("c", "act", {"what": "?"}))], [gives("act", OSError("no space"))], hooked=False)
        with pytest.raises(OSError, match="no space"):
            graph.invoke(said("do it"), config(), durability="sync")
    state = read(root)
    assert (state.ended, statuses(state.uncertain)) == ("failed", {"act": "uncertain"})


def test_a_call_that_waits_for_a_human_is_waiting(root: Path) -> None:
    """It is not uncertain; answered, it is completed."""
    with JsonlSaver(root) as saver:
        graph = agent(saver, [asks(("c", "ask", {"what": "?"})), "done"], [waits("ask")], hooked=False)
        graph.invoke(said("do it"), config())
        assert statuses(saver.resume_state(THREAD).tool_calls) == {"ask": "waiting"}
        assert saver.uncertain(THREAD) == ()
        graph.invoke(Command(resume="yes"), config())
        assert statuses(saver.resume_state(THREAD).tool_calls) == {"ask": "completed"}


def test_a_hook_that_comes_later_says_more(program: Program, root: Path) -> None:
    """When the thread goes on with a hook, its record takes the place of what the messages told."""
    program.kill("die_unwatched", root, shape="create_agent")
    with JsonlSaver(root) as saver:
        saver.resolve(THREAD, "call-2", {"type": "approve"})
        tools = [gives("lookup", "40 EUR"), gives("charge_card", "charged")]
        script = [asks(("call-1", "lookup", {"what": ""}), ("call-2", "charge_card", {"what": ""})), "paid"]
        agent(saver, script, tools).invoke(None, config())
        state = saver.resume_state(THREAD)
    assert statuses(state.tool_calls) == {"lookup": "completed", "charge_card": "completed"}
    assert len(state.tool_calls) == 2


def test_a_decision_about_one_leaves_the_others_uncertain(program: Program, root: Path) -> None:
    """To decide is not to go on: what another writer left is what it was."""
    program.kill("die_unwatched", root, shape="plain")
    with JsonlSaver(root) as saver:
        saver.resolve(THREAD, "call-1", {"type": "reject"})
        assert statuses(saver.resume_state(THREAD).tool_calls) == {"lookup": "resolved", "charge_card": "uncertain"}
        saver.resolve(THREAD, "call-2", {"type": "reject"})
        assert saver.uncertain(THREAD) == ()
    assert set(statuses(read(root).tool_calls).values()) == {"resolved"}


@pytest.mark.parametrize("hooked", [False, True], ids=["no hook", "hook"])
def test_a_hook_says_nothing_of_an_agent_that_has_none(program: Program, root: Path, hooked: bool) -> None:
    """An agent with a hook called one without, whose tool was killed: nobody says that it never started."""
    program.kill("die_in_a_subagent", root, hooked=hooked)
    state = read(root)
    assert statuses(state.tool_calls) == {"delegate": "uncertain", "charge_card": "uncertain"}
    assert {call.name: call.attempt for call in state.tool_calls} == {"delegate": 1, "charge_card": int(hooked)}
    # With a hook from now on, it is asked about, too.
    ran: list[str] = []
    with JsonlSaver(root) as saver:
        graph = nested(saver, named("charge_card", lambda what: ran.append(what) or "charged"), hooked=True)
        asked = [graph.invoke(None, config())]
        asked.append(graph.invoke(decide(graph, config(), {"outer-1": {"type": "approve"}}), config()))
        names = [[c["name"] for i in each["__interrupt__"] for c in i.value["calls"]] for each in asked]
        assert (names, ran) == ([["delegate"], ["charge_card"]], [])
        result = graph.invoke(decide(graph, config(), {"inner-1": {"type": "respond", "message": "paid"}}), config())
    assert (result["messages"][-1].text, ran) == ("done", [])


def test_a_call_that_never_started_is_told_though_its_id_is_recorded(root: Path) -> None:
    """A hook recorded the call that had the id before, and not this one."""
    script = [asks(("call_0", "act", {"what": "x"})), asks(("call_0", "act", {"what": "x"})), "done"]
    with JsonlSaver(root) as saver:
        graph = agent(saver, script, [gives("act", "ok")])
        for given in (said("do it"), None):
            graph.invoke(given, config(), interrupt_before=["tools"])
        state = saver.resume_state(THREAD)
        assert [(c.tool_call_id, c.status) for c in state.tool_calls] == [
            ("call_0", "completed"),
            ("call_0", "pending"),
        ]
        graph.invoke(None, config())
        assert [c.status for c in saver.resume_state(THREAD).tool_calls] == ["completed", "completed"]


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_call_of_an_agent_that_handed_off_is_over(program: Program, root: Path, durability: str) -> None:
    """Its result is not among its own messages: the graph around has gone on with it."""
    program.kill("die_behind_a_hand_off", root, way={"durability": durability})
    state = read(root)
    assert {call.status for call in state.tool_calls} == {"completed"}
    assert (state.uncertain, state.crashed) == ((), False)
    assert "outcome unknown" not in str(state.memory)


def test_a_call_of_an_agent_whose_task_was_left_stays_uncertain(program: Program, root: Path) -> None:
    """A new message goes on without it: nobody knows what it came to."""
    program.kill("die_in_a_hand_off", root)
    with JsonlSaver(root) as saver:
        hand_off(saver, named("transfer", transfer)).invoke(said("once more"), config())
    assert [call.name for call in read(root).uncertain] == ["transfer"]


def test_a_call_that_a_new_message_left_stays_uncertain(program: Program, root: Path) -> None:
    """The thread goes on without it, and nobody knows more of it than before."""
    program.kill("die_unwatched", root, shape="plain")
    with JsonlSaver(root) as saver:
        tools = [gives("lookup", ""), gives("charge_card", "")]
        hand_written(saver, ["", "never mind"], tools, hooked=False).invoke(said("forget it"), config())
    state = read(root)
    assert statuses(state.uncertain) == {"lookup": "uncertain", "charge_card": "uncertain"}
    assert "outcome unknown: charge_card(what='40 EUR')" in str(state.memory)
    with JsonlSaver(root) as saver:
        saver.resolve(THREAD, "call-2", {"type": "respond", "message": "paid"})
        assert statuses(saver.uncertain(THREAD)) == {"lookup": "uncertain"}
