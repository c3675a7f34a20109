"""What a process of its own does in the restore tests, most of them until they are killed."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware, TodoListMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict
from warm import die

from langgraph_jsonl_checkpoint import JsonlSaver, resume_or_invoke
from restore.scene import (
    THREAD,
    Delta,
    Plain,
    agent,
    asks,
    config,
    dies,
    fails,
    gives,
    hand_written,
    named,
    plain,
    said,
    talk,
    waits,
)

if TYPE_CHECKING:
    from warm import Report

    from restore.scene import Graph

CALLS = asks(("call-1", "lookup", {"what": "order 7"}), ("call-2", "charge_card", {"what": "40 EUR"}))
ORDER = [asks(("call-0", "run_tests", {"what": "shop"}), text="I test first."), CALLS, "paid"]
STATES = {"plain": Plain, "delta": Delta}


def order(saver: JsonlSaver, shape: str, **options: Any) -> Graph:
    """The agent that tests the shop, looks an order up and dies when it charges the card."""
    tools = [gives("run_tests", "3 passed"), gives("lookup", "40 EUR"), dies("charge_card")]
    if shape == "create_agent":
        return agent(saver, ORDER, tools, **options)
    if shape == "subgraph":
        inner = agent(None, ORDER, tools, name="buyer", **options)
        return StateGraph(Plain).add_node("buyer", inner).add_edge(START, "buyer").compile(checkpointer=saver)
    return hand_written(saver, ORDER, tools, state=STATES[shape], **options)


def die_in_tool(
    _: Report, root: str, shape: str = "create_agent", durability: str = "sync", input_id: str = "", **options: Any
) -> None:
    """Die in charge_card, when lookup, which the model asked for with it, has ended."""
    given = config(input_id=input_id) if input_id else config()
    given["max_concurrency"] = 1
    order(JsonlSaver(root), shape, **options).invoke(said("please pay order 7", "u1"), given, durability=durability)


def die_with_much(_: Report, root: str) -> None:
    """Die in charge_card, behind a long goal and 200 failures of each kind of text."""
    failing = [(f"f{n}", "fail", {"what": f"part {n} of the shop"}) for n in range(200)]
    todos = {"todos": [{"content": f"todo {n}", "status": "pending"} for n in range(100)]}
    script = [asks(("t", "write_todos", todos)), asks(*failing), CALLS, "paid"]
    tools = [fails("fail", "x" * 500), gives("lookup", "40 EUR"), dies("charge_card")]
    graph = agent(JsonlSaver(root), script, tools, middleware=[TodoListMiddleware()])
    graph.invoke(said("please build the shop. " + "word " * 1200), {**config(), "max_concurrency": 1})


class Watched(JsonlSaver):
    """Tells when the writes of a finished tool are stored."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.written = threading.Event()

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """A task's writes."""
        super().put_writes(config, writes, task_id, task_path)
        if any(isinstance(m, ToolMessage) for _, value in writes if isinstance(value, list) for m in value):
            self.written.set()


def die_unwatched(_: Report, root: str, shape: str) -> None:
    """Die in charge_card, of which no hook records anything; lookup's task is over, where it has one of its own."""
    saver = Watched(root)

    def charge(what: str) -> str:
        if shape == "create_agent":
            assert saver.written.wait(20)
        die()
        return what

    tools = [named("lookup", lambda what: "40 EUR"), named("charge_card", charge)]
    build = agent if shape == "create_agent" else hand_written
    options = {} if shape == "create_agent" else {"state": STATES[shape]}
    graph = build(saver, [CALLS, "paid"], tools, hooked=False, **options)
    graph.invoke(said("please pay order 7", "u1"), config(), durability="sync")


def die_in_an_id_given_twice(_: Report, root: str) -> None:
    """Die in charge_card, whose call has the id that lookup's had; no hook records anything."""
    script = [asks(("call_0", "lookup", {"what": "order 7"})), asks(("call_0", "charge_card", {"what": "40 EUR"}))]
    graph = agent(JsonlSaver(root), script, [gives("lookup", "40 EUR"), dies("charge_card")], hooked=False)
    graph.invoke(said("please pay order 7", "u1"), config(), durability="sync")


def hand_off(saver: JsonlSaver, tool: Any) -> Graph:
    """An agent whose tool hands off to another node; no hook records anything."""
    graph = StateGraph(Plain)
    graph.add_node("a", hand_written(None, [asks(("c1", tool.name, {"what": "b"}))], [tool], hooked=False))
    graph.add_node("b", lambda _: {"messages": [AIMessage("done")]})
    return graph.add_edge(START, "a").compile(checkpointer=saver)


def transfer(what: str) -> Any:
    """Hand off."""
    return Command(goto=what, graph=Command.PARENT, update={"messages": [ToolMessage("ok", tool_call_id="c1")]})


def die_behind_a_hand_off(_: Report, root: str, way: dict[str, Any]) -> None:
    """Die when all is done."""
    hand_off(JsonlSaver(root), named("transfer", transfer)).invoke(said("do it"), config(), **way)
    die()


def die_in_a_hand_off(_: Report, root: str) -> None:
    """Die in the tool that hands off."""
    hand_off(JsonlSaver(root), dies("transfer")).invoke(said("do it"), config(), durability="sync")


def pause_unwatched(_: Report, root: str, how: str) -> None:
    """Stop before the tools and end in good order, or die there."""
    with JsonlSaver(root) as saver:
        graph = agent(
            saver,
            [CALLS, "paid"],
            [gives("lookup", ""), gives("charge_card", "")],
            hooked=False,
            interrupt_before=["tools"],
        )
        graph.invoke(said("please pay order 7", "u1"), config(), durability="sync")
        if how == "killed":
            die()


def read(report: Report, root: str) -> None:
    """Look at the thread from another process."""
    with JsonlSaver(root) as saver:
        state = saver.resume_state(THREAD)
    calls = {call.tool_call_id: call.status for call in state.tool_calls}
    report("thread", calls=calls, crashed=state.crashed, ended=state.ended)


def die_in_model(
    _: Report, root: str, thread: str = THREAD, restore_memory: str = "crashed", state: str = "plain"
) -> None:
    """Answer once, then die in the answer to a second message."""
    with JsonlSaver(root, restore_memory=restore_memory) as saver:  # type: ignore[arg-type]
        graph = talk(saver, ["hello", die], state=STATES[state])
        graph.invoke(said("find the bug in the parser", "u1"), config(thread), durability="sync")
        graph.invoke(said("go on with the lexer, please", "u2"), config(thread), durability="sync")


def wait_and_die(_: Report, root: str) -> None:
    """Let a tool ask a human, then die."""
    graph = agent(JsonlSaver(root), [asks(("call-1", "ask", {"what": "sure?"})), "done"], [waits("ask")])
    graph.invoke(said("please ask me first"), config(), durability="sync")
    die()


def wait_at_once_and_die(_: Report, root: str) -> None:
    """Ask a human so soon that the question is stored before the checkpoints that led to it, then die."""
    graph = StateGraph(Plain).add_node("begin", lambda _: {}).add_node("ask", lambda _: interrupt("sure?"))
    graph.add_edge(START, "begin").add_edge("begin", "ask")
    graph.compile(checkpointer=JsonlSaver(root)).invoke(said("please ask me first"), config())
    die()


def wait_beside_a_subgraph_and_die(_: Report, root: str) -> None:
    """Ask a human while a subgraph in another task goes on, to its end; then die."""
    steps = StateGraph(Plain).add_node("one", lambda _: time.sleep(0.2)).add_node("two", lambda _: {})
    graph = StateGraph(Plain).add_node("ask", lambda _: interrupt("sure?"))
    graph.add_node("beside", steps.add_edge(START, "one").add_edge("one", "two").compile())
    graph.add_edge(START, "ask").add_edge(START, "beside")
    graph.compile(checkpointer=JsonlSaver(root)).invoke(said("please ask me first"), config())
    die()


class Late(AgentMiddleware):
    """Keeps one tool back for a while."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run the call."""
        time.sleep(0.3 if request.tool_call["name"] == "lookup" else 0)
        return handler(request)


def wait_beside_a_tool_and_die(_: Report, root: str) -> None:
    """Ask a human before another tool of the message starts, which comes to its end; then die."""
    calls = asks(("call-1", "ask", {"what": "sure?"}), ("call-2", "lookup", {"what": "order 7"}))
    tools = [waits("ask"), gives("lookup", "40 EUR")]
    agent(JsonlSaver(root), [calls], tools, middleware=[Late()]).invoke(said("please ask me first"), config())
    die()


def die_in_a_subagent(_: Report, root: str, *, hooked: bool) -> None:
    """An agent with a hook calls another as a tool, which has one or not, and dies in its tool."""
    graph = nested(JsonlSaver(root), dies("charge_card"), hooked=hooked)
    graph.invoke(said("please pay order 7"), config(), durability="sync")


def nested(saver: JsonlSaver, tool: Any, *, hooked: bool) -> Graph:
    """An agent whose tool is an agent that charges a card."""
    inner = agent(None, [asks(("inner-1", "charge_card", {"what": "40 EUR"})), "paid"], [tool], hooked=hooked)
    outer = [asks(("outer-1", "delegate", {"what": "order 7"})), "done"]
    return agent(saver, outer, [named("delegate", lambda what: inner.invoke(said(what))["messages"][-1].text)])


def die_unhooked(_: Report, root: str) -> None:
    """Die in a run that nothing is recorded of but its checkpoints."""
    talk_and(die, JsonlSaver(root)).invoke(said("please do something useful"), config(), durability="sync")


def talk_and(do: Any, saver: JsonlSaver) -> Graph:
    """A graph whose one node does something."""
    return StateGraph(Plain).add_node("node", lambda _: do()).add_edge(START, "node").compile(checkpointer=saver)


class Counting(JsonlSaver):
    """Dies around its n-th append."""

    place = ("", 0)
    count = 0
    counting = threading.Lock()

    def put(self, *given: Any) -> Any:
        """A checkpoint."""
        return self._counted(super().put, *given)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Writes."""
        self._counted(super().put_writes, config, writes, task_id, task_path)

    def _counted(self, append: Any, *given: Any) -> Any:
        with self.counting:
            self.count += 1
            number = self.count
        if self.place == ("before", number):
            die()
        stored = append(*given)
        if self.place == ("after", number):
            die()
        return stored


class Unfinished(JsonlSaver):
    """Dies before the checkpoint that ends a run, when all that leads to it is stored."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.written = threading.Event()

    def put(self, config: Any, checkpoint: Any, *given: Any) -> Any:
        """A checkpoint."""
        if plain(checkpoint["channel_values"].get("messages", []))[-1:] == [("ai", "found 1")]:
            assert self.written.wait(20)
            die()
        return super().put(config, checkpoint, *given)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Writes."""
        super().put_writes(config, writes, task_id, task_path)
        if any(plain(value) == [("ai", "found 1")] for channel, value in writes if channel == "messages"):
            self.written.set()


def die_before_the_end(_: Report, root: str) -> None:
    """Die when all tasks of a run have stored their writes."""
    resume_or_invoke(buyer(Unfinished(root)), said("buy 1"), config(), input_id="1", durability="sync")


def apply_input(_: Report, root: str, text: str, input_id: str, durability: str, when: str, count: int) -> None:
    """Have an input applied by an agent with a tool; die before or after the count-th append."""
    with Counting(root) as saver:
        saver.place = (when, count)
        graph = buyer(saver)
        resume_or_invoke(graph, said(text), config(), input_id=input_id, durability=durability)


def buyer(saver: JsonlSaver) -> Graph:
    """An agent that calls a tool that only reads, for each of two messages."""
    script = [asks(("a", "lookup", {"what": "1"})), "found 1", asks(("b", "lookup", {"what": "2"})), "found 2"]
    return agent(saver, script, [named("lookup", lambda what: f"found {what}")])


def crash_often(report: Report, root: str, turn: int) -> None:
    """One more turn; if its number is odd it dies in the model's answer, if not it tells what the model was asked."""
    requests: list[Any] = []
    with JsonlSaver(root) as saver:
        graph = talk(saver, [die if turn % 2 else f"answer {n}" for n in range(turn + 1)], requests=requests)
        given = {"messages": [HumanMessage(f"message {turn} has some words", id=f"u{turn}")]}
        graph.invoke(given, config(), durability="sync")
    report("requests", memories=sum("<session-memory>" in m.text for request in requests for m in request))


def resume_and_die(_: Report, root: str) -> None:
    """Go on with a killed thread, and die in the same place."""
    with JsonlSaver(root) as saver:
        talk(saver, ["hello", die]).invoke(None, config())


def die_without_messages(_: Report, root: str) -> None:
    """Die in a graph whose `messages` are no messages."""

    class State(TypedDict):
        messages: list[str]
        other: Any

    graph = StateGraph(State).add_node("die", lambda _: die()).add_edge(START, "die")
    given = {"messages": ["plain text"], "other": {"messages": []}}
    graph.compile(checkpointer=JsonlSaver(root)).invoke(given, config(), durability="sync")
