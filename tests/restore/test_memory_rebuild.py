"""The memory is taken further record by record, and is at any time what reading the whole log anew gives."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.types import Command

from langgraph_jsonl_checkpoint import JsonlSaver, MemoryDeriver, SessionMemory
from langgraph_jsonl_checkpoint.folds.memory import Deriver, Item
from restore.scene import THREAD, agent, config, fails, gives, hand_written, named, said, waits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from langgraph_jsonl_checkpoint import ToolCall
    from restore.conftest import Program

WORDS = st.sampled_from(["x", "y", "z" * 300, "two\nlines", "</session-memory>", "ünïcödé", ""])
TODOS = st.lists(
    st.builds(
        lambda content, status: {"content": content, "status": status},
        WORDS,
        st.sampled_from(["pending", "in_progress", "completed"]),
    ),
    max_size=3,
)
CALL = st.one_of(
    st.tuples(st.sampled_from(["edit", "compile", "run_tests", "lookup", "flaky", "nothing"]), WORDS),
    st.tuples(st.just("write_todos"), TODOS),
    st.tuples(st.just("ask"), WORDS),
)
ANSWER = st.lists(CALL, max_size=3, unique_by=lambda call: call[0])
TURN = st.tuples(
    st.sampled_from(["go on", "please do this", "please write the parser of the shop", "w" * 6000]),
    st.lists(ANSWER, max_size=3),
    st.sampled_from(["go on", "reopen", "remove", "prune"]),
)
DECISIONS = st.sampled_from(["approve", "respond", "reject"])


class Story:
    """A thread whose memory is looked at whenever its model is asked, and compared with a rebuild."""

    def __init__(self, root: str, shape: str) -> None:
        self.root = root
        self.shape = shape
        self.saver = JsonlSaver(root)
        self.script: list[Any] = []
        self.number = 0
        self.looks = 0
        self.flaky = 0

    def look(self) -> None:
        """The memory that this saver has derived so far is the one that it derives anew.

        Not that of a new saver: a call that this one saw raise is uncertain to anybody else.
        """
        memory = self.saver.session_memory(THREAD)
        self.saver._sessions.peek(THREAD).recall = None
        rebuilt = self.saver.session_memory(THREAD)
        assert memory == rebuilt
        assert str(memory) == str(rebuilt)
        assert len(str(memory)) <= 4000
        self.looks += 1

    def answer(self, calls: list[tuple[str, Any]]) -> Any:
        """An answer of the model, at which the memory is looked at."""
        asked = []
        for name, what in calls:
            self.number += 1
            args = {"todos": what} if name == "write_todos" else {"what": what}
            asked.append({"id": f"call-{self.number}", "name": name, "args": args})

        def give() -> AIMessage:
            self.look()
            return AIMessage("" if asked else "done", tool_calls=asked)

        return give

    def graph(self) -> Any:
        """The agent, over the saver of now."""

        def flaky(what: str) -> str:
            # Twice in a row it does not fail: then also a task ends that runs it again when it has its answer.
            self.flaky += 1
            if self.flaky % 3 == 1:
                raise OSError(what)
            return f"did {what}"

        tools = [named("edit", lambda what: what), fails("compile", "syntax error"), gives("run_tests", "2 failed")]
        tools += [gives("lookup", "40 EUR"), named("flaky", flaky), waits("ask")]
        if self.shape == "create_agent":
            return agent(self.saver, self.script, tools, middleware=[TodoListMiddleware()])
        return hand_written(
            self.saver, self.script, [*tools, gives("write_todos", "ok")], hooked=self.shape == "guard"
        )

    def turn(self, text: str, answers: list[Any], then: str, decide: Any) -> None:
        """A user's message, the run that it leads to, and what is done to the thread behind it."""
        self.script += [self.answer(answer) for answer in answers if answer] + [self.answer([])]
        given: Any = said(text, f"u{len(self.script)}")
        for _ in range(30):
            try:
                result = self.graph().invoke(given, config(), durability="sync")
            except OSError:
                self.reopen()
                for call in self.saver.uncertain(THREAD):
                    self.saver.resolve(THREAD, call.tool_call_id, {"type": decide(), "message": text[:9]})
                    self.look()
                given = None
                continue
            self.look()
            if "__interrupt__" not in result:
                break

            def told(question: Any) -> Any:
                if not isinstance(question, dict):  # the tool's own
                    return text[:9]
                calls = [call["tool_call_id"] for call in question["calls"]]
                return {"decisions": {call: {"type": decide(), "message": text[:9]} for call in calls}}

            given = Command(resume={each.id: told(each.value) for each in result["__interrupt__"]})
        else:
            pytest.fail("the run does not end")
        if then == "reopen":
            self.reopen()
        elif then == "prune":
            self.saver.prune([THREAD])
        elif then == "remove":
            first = self.saver.resume_state(THREAD).messages[0]
            edit = [RemoveMessage(first.id or ""), HumanMessage("I mean something else, please")]
            self.graph().update_state(config(), {"messages": edit})
            self.script.insert(0, None) if isinstance(first, AIMessage) else None
        self.look()

    def reopen(self) -> None:
        """A new writer goes on."""
        self.saver.close()
        self.saver = JsonlSaver(self.root)
        self.look()


@pytest.mark.parametrize(
    "shape", [*(pytest.param(hooked, marks=pytest.mark.slow) for hooked in ("create_agent", "guard")), "no hook"]
)
@settings(max_examples=25, deadline=None)
@given(turns=st.lists(TURN, min_size=1, max_size=3), data=st.data())
def test_each_record_takes_it_to_where_a_rebuild_is(shape: str, turns: list[Any], data: st.DataObject) -> None:
    """Over any history of an agent, also through failures, decisions, other writers, edits and prunes."""
    with tempfile.TemporaryDirectory() as root:
        story = Story(root, shape)
        try:
            for text, answers, then in turns:
                story.turn(text, answers, then, lambda: data.draw(DECISIONS))
            assert story.looks >= 2 * len(turns)
        finally:
            story.saver.close()


class Counts:
    """A deriver of one's own: the goal is how many events of each kind there were."""

    def start(self) -> dict[str, int]:
        """Nothing was seen."""
        return {}

    def apply(self, state: dict[str, int], event: Any) -> None:
        """One more."""
        kind = type(event).__name__
        state[kind] = state.get(kind, 0) + 1

    def memory(self, state: dict[str, int], uncertain: Sequence[ToolCall]) -> SessionMemory:
        """The counts."""
        text = ", ".join(f"{kind} {state[kind]}" for kind in sorted(state))
        return SessionMemory(current_goal=Item(f"{text}, uncertain {len(uncertain)}", (0,)))


def test_a_deriver_of_ones_own_is_asked(program: Program, root: Path) -> None:
    """`JsonlSaver(memory=…)` takes its memory everywhere: in the state, in the request, when it is lent."""
    program.kill("die_in_tool", root)
    mine: MemoryDeriver = Counts()
    expected = "MessageEvent 4, ToolEvent 8, uncertain 1"
    requests: list[Any] = []
    with JsonlSaver(root, memory=mine) as saver:
        goal = saver.session_memory(THREAD).current_goal
        assert goal is not None
        assert goal.text == expected
        assert saver.resume_state(THREAD).memory.current_goal == goal
        stored = saver.get_tuple(config())
        assert stored is not None
        assert expected in stored.checkpoint["channel_values"]["messages"][0].text
        graph = agent(saver, [None, None, "ok"], requests=requests)
        graph.invoke(said("did it work?"), config(), durability="sync")
    assert "MessageEvent 5, ToolEvent 8, uncertain 1" in requests[0][0].text


def test_the_default_deriver_can_be_built_upon(saver: JsonlSaver, tmp_path: Path) -> None:
    """A subclass of it sees the same events and may say more."""

    class Loud(Deriver):
        def memory(self, state: Any, uncertain: Sequence[ToolCall]) -> SessionMemory:
            found = super().memory(state, uncertain)
            assert found.current_goal is not None
            return SessionMemory(current_goal=Item(found.current_goal.text.upper(), found.current_goal.seqs))

    with JsonlSaver(tmp_path / "loud", memory=Loud()) as loud:
        for each in (saver, loud):
            hand_written(each, ["ok"], hooked=False).invoke(said("please do something useful"), config())
        goals = [each.session_memory(THREAD).current_goal for each in (saver, loud)]
    assert [goal and goal.text for goal in goals] == ["please do something useful", "PLEASE DO SOMETHING USEFUL"]
