"""What `kill -9` does to a tool with a side effect: a table, SqliteSaver beside JsonlSaver.

One message of a model calls two tools: `lookup`, which only reads, and `charge_card`, which adds a charge to a file.
The process is killed in or behind `charge_card`; a new process goes on with the thread's id. How often is the card
charged in the end, and what does the model hear of it? The model is scripted, so no key and no network is needed. The
graphs, the processes and the kills are real.

    python examples/crash_table.py
"""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
import uuid
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import EmptyInputError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_jsonl_checkpoint import JsonlSaver, SessionMiddleware, ToolGuard, ToolPolicy, decide, inject

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from langchain_core.runnables import RunnableConfig

SHAPES = ("create_agent", "StateGraph and ToolNode", "create_agent as a node of a graph")
PLACES = {
    "started": "charge_card had begun and had not charged yet",
    "charged": "charge_card had charged and had not returned yet",
    "returned": "charge_card had returned and LangGraph had not stored its result yet",
}
REQUEST: Any = {"messages": [("user", "Order 7 is 40 euros. Look it up and charge the card.")]}
CONFIG: RunnableConfig = {"configurable": {"thread_id": "order-7"}}
POLICY = ToolPolicy(read_only=["lookup"])  # any other tool is taken to have side effects


class Case(NamedTuple):
    """What is killed, and where."""

    shape: str
    killed: str
    durability: Literal["sync", "async", "exit"]


class ScriptedModel(BaseChatModel):
    """Calls both tools at once, unless it sees that it has."""

    tell: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """The script knows its tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        heard = [each.text for each in messages if isinstance(each, ToolMessage) and each.name == "charge_card"]
        self.tell(("heard", heard[-1] if heard else "nothing"))
        wanted: dict[str, Any] = {"lookup": {"order": 7}, "charge_card": {"euros": 40}}
        calls = [{"name": tool, "args": args, "id": uuid.uuid4().hex} for tool, args in wanted.items()]
        answer = AIMessage("Done.") if AIMessage in map(type, messages) else AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def build(case: Case, saver: Any, file: Path, die_if: Callable[[str], None], tell: Any) -> Any:
    """The graph on a saver. What JsonlSaver has and SqliteSaver has not: a hook around the tools and the model."""

    def lookup(order: int) -> str:
        """Look an order up."""
        return f"order {order}: 40 euros"

    def charge_card(euros: int) -> str:
        """Charge the card."""
        die_if("started")
        with file.open("a", encoding="utf-8") as charges:
            charges.write(f"{euros} euros\n")
        die_if("charged")
        return f"charged {euros} euros"

    def outermost(request: Any, handler: Callable[[Any], Any]) -> Any:
        result = handler(request)
        if request.tool_call["name"] == "charge_card":
            die_if("returned")
        return result

    ours, model, tools = isinstance(saver, JsonlSaver), ScriptedModel(tell=tell), [lookup, charge_card]
    if case.shape == "StateGraph and ToolNode":
        return hand_written(model, tools, saver, outermost)
    middleware: list[Any] = [wrap_tool_call(outermost), *([SessionMiddleware(saver, policy=POLICY)] if ours else [])]
    if case.shape == "create_agent":
        return create_agent(model, tools, middleware=middleware, checkpointer=saver)
    graph = StateGraph(MessagesState)
    graph.add_node("agent", create_agent(model, tools, middleware=middleware))
    graph.add_edge(START, "agent")
    return graph.compile(checkpointer=saver)


def hand_written(model: Any, tools: Any, saver: Any, outermost: Any) -> Any:
    """The same agent without create_agent."""
    ours, guard = isinstance(saver, JsonlSaver), ToolGuard(policy=POLICY)

    def agent(state: MessagesState, config: RunnableConfig) -> dict[str, list[BaseMessage]]:
        return {"messages": [model.invoke(inject(state["messages"], saver, config) if ours else state["messages"])]}

    def guarded(request: Any, handler: Callable[[Any], Any]) -> Any:
        return outermost(request, lambda same: guard.wrap_tool_call(same, handler))

    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode(tools, wrap_tool_call=guarded if ours else outermost))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile(checkpointer=saver)


def work(case: Case, kind: str, folder: Path, dies: bool, pipe: Connection) -> None:  # noqa: FBT001
    """One process: it gets the request and dies of it, or it gets the thread's id and goes on."""

    def die_if(place: str) -> None:
        if dies and place == case.killed:
            signal.raise_signal(signal.SIGKILL)

    opened: Any = JsonlSaver(folder) if kind == "JsonlSaver" else SqliteSaver.from_conn_string(f"{folder}/sqlite.db")
    with opened as saver:
        agent = build(case, saver, folder / "charges", die_if, pipe.send)
        try:
            result = agent.invoke(REQUEST if dies else None, CONFIG, durability=case.durability)
        except EmptyInputError:  # nothing was stored: the user has to say it again
            pipe.send(("resumed", "asked again"))
            result = agent.invoke(REQUEST, CONFIG, durability=case.durability)
        if questions := result.get("__interrupt__"):  # the human does not know either
            calls = [call["tool_call_id"] for question in questions for call in question.value["calls"]]
            pipe.send(("asked", "yes"))
            rejections = decide(agent, CONFIG, {call: {"type": "reject", "message": ""} for call in calls})
            agent.invoke(rejections, CONFIG, durability=case.durability)


def crash(case: Case, kind: str, folder: Path) -> dict[str, str]:
    """Kill a process that works on the request, let the next one go on, and tell how that went."""
    forking = multiprocessing.get_context("fork")  # a fresh interpreter would spend a second on its imports
    said: dict[str, str] = {}
    charges = folder / "charges"
    charges.touch()
    for dies in (True, False):
        receiver, sender = forking.Pipe(duplex=False)
        process = forking.Process(target=work, args=(case, kind, folder, dies, sender))
        process.start()
        sender.close()
        said = {"resumed": "invoke(None)", "asked": "no", "heard": "nothing"}
        with suppress(EOFError):
            while True:
                said.update([receiver.recv()])
        process.join()
        if process.exitcode != (-signal.SIGKILL if dies else 0):
            raise RuntimeError(f"{case} on {kind}: exit code {process.exitcode}")
    heard = said["heard"].partition(":")[0].lower()
    return {**said, "heard": heard, "charges": str(charges.read_bytes().count(b"\n"))}


def main() -> None:
    """Print the table. Durabilities that make no difference share a row."""
    row = "  {:<10}{:<13}{:<14}{:<9}{:<18}{:<9}{:<18}{}".format
    print("killed when", *(f"\n  {place:<10}{meaning}" for place, meaning in PLACES.items()), sep="")
    print("asks: before charge_card runs again a human is asked, who rejects that here\n")
    print(row("", "", "", "SqliteSaver", "", "JsonlSaver", "", "").rstrip())
    print(row("killed", "durability", "resumed by", *2 * ["charges", "the model hears"], "asks"))
    with tempfile.TemporaryDirectory() as root:

        def both(case: Case) -> list[dict[str, str]]:
            return [crash(case, kind, Path(tempfile.mkdtemp(dir=root))) for kind in ("SqliteSaver", "JsonlSaver")]

        for shape in SHAPES:
            print(f"\n{shape}")
            cases = [Case(shape, killed, mode) for killed in PLACES for mode in ("sync", "async", "exit")]
            for (killed, (theirs, ours)), same in groupby(cases, key=lambda case: (case.killed, both(case))):
                cells = [theirs["charges"], theirs["heard"], ours["charges"], ours["heard"], ours["asked"]]
                print(row(killed, ", ".join(each.durability for each in same), theirs["resumed"], *cells))


if __name__ == "__main__":
    main()
