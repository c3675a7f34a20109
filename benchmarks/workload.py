"""What the benchmarks run: real text, a scripted chat, and the calls that LangGraph makes of a saver for it.

No network and no key: the model is a script. Its texts are the standard library's sources, because repeated
or random text compresses as no conversation does.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import sysconfig
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THREAD = {"configurable": {"thread_id": "bench"}, "recursion_limit": 1_000_000}


def texts(size: int = 1000) -> Iterator[str]:
    """Texts of `size` characters; none comes twice in the first few thousand."""
    library = Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in library.rglob("*.py") if not {"site-packages", "test"} & {*path.parts})
    random.Random(1).shuffle(files)
    for _ in count():
        for path in files:
            source = path.read_text("utf-8", "replace")
            for begin in range(0, len(source) - size, size):
                yield source[begin : begin + size]


class ScriptedModel(BaseChatModel):
    """Calls the tool twice for each user message, then answers: 7 supersteps a turn."""

    source: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        done = next(i for i, m in enumerate(reversed(messages)) if m.type == "human")
        calls = []
        if done < 4:
            arguments = {"path": f"src/module_{len(messages) % 97}.py", "start": len(messages), "end": 400}
            calls = [{"name": "read_file", "id": f"call_{len(messages):024}", "args": arguments}]
        usage = {
            "input_tokens": 400 * len(messages),
            "output_tokens": 250,
            "total_tokens": 400 * len(messages) + 250,
        }
        answer = AIMessage(
            next(self.source),
            id=f"lc_run--{len(messages):032}",
            tool_calls=calls,
            usage_metadata=usage,
            response_metadata={
                "model_name": "scripted-1",
                "finish_reason": "tool_calls" if calls else "stop",
            },
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])


def chat(saver: Any) -> Callable[[], Any]:
    """A tool-calling agent on that saver; each call is one turn of the user."""
    source = texts()
    model = ScriptedModel(source=source)

    @tool
    def read_file(path: str, start: int, end: int) -> str:  # noqa: ARG001 - the model's arguments
        """Reads lines of a file."""
        return next(source)

    def agent(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode([read_file]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    compiled = graph.compile(checkpointer=saver)
    turn = count()

    def say() -> Any:
        question = HumanMessage(next(source)[:300], id=f"question-{next(turn)}")
        return compiled.invoke({"messages": [question]}, THREAD, durability="sync")

    return say


class Call(NamedTuple):
    """One call of `put` or `put_writes`, as LangGraph made it."""

    name: str
    arguments: tuple[Any, ...]


class Recorder(InMemorySaver):
    """Keeps the calls.

    A turn goes on with the very messages of the turn before: each saver recognises those that it handed out itself,
    and the calls are played to several.
    """

    def __init__(self) -> None:
        super().__init__()
        self.supersteps: list[list[Call]] = [[]]
        self._values: dict[str, dict[str, Any]] = {}

    def get_tuple(self, config: Any) -> Any:
        """What was put, the objects themselves."""
        found = super().get_tuple(config)
        if found is not None:
            found.checkpoint["channel_values"] = dict(self._values[found.checkpoint["id"]])
        return found

    def put(self, *arguments: Any) -> Any:
        """A superstep ends with its checkpoint."""
        self.supersteps[-1].append(Call("put", arguments))
        self._values[arguments[1]["id"]] = arguments[1]["channel_values"]
        self.supersteps.append([])
        return super().put(*arguments)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Belongs to the superstep whose checkpoint comes next."""
        self.supersteps[-1].append(Call("put_writes", (config, writes, task_id, task_path)))
        super().put_writes(config, writes, task_id, task_path)


def recorded(supersteps: int) -> list[list[Call]]:
    """The calls of a chat, by superstep: what is written, then the `put` that ends it."""
    recorder = Recorder()
    say = chat(recorder)
    while len(recorder.supersteps) <= supersteps:
        say()
    return recorder.supersteps[:supersteps]


def seconds(saver: Any, calls: list[Call]) -> float:
    """How long the saver takes for the calls of a superstep."""
    started = time.perf_counter()
    for call in calls:
        getattr(saver, call.name)(*call.arguments)
    return time.perf_counter() - started


def jsonl(fsync: Any) -> Callable[[Path], Any]:
    """JsonlSaver with that sync policy."""
    return lambda folder: JsonlSaver(folder / "sessions", fsync=fsync)


@contextlib.contextmanager
def sqlite(folder: Path) -> Iterator[SqliteSaver]:
    """SqliteSaver as it comes: it syncs every `put` and `put_writes`."""
    with contextlib.closing(sqlite3.connect(folder / "threads.sqlite", check_same_thread=False)) as connection:
        yield SqliteSaver(connection)


@contextlib.contextmanager
def memory(_: Path) -> Iterator[InMemorySaver]:
    """InMemorySaver: what serialising alone costs."""
    yield InMemorySaver()
