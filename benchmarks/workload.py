"""What the benchmarks run: real text, a scripted chat, and the calls that LangGraph makes of a saver for it.

No network and no key: the model is a script. Its texts are the standard library's sources, because repeated
or random text compresses as no conversation does.
"""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
import random
import sysconfig
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import zstandard
from floor import StoresNothing
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

SUPERSTEPS_OF_A_TURN = 7


def config(thread: str = "bench", checkpoint_id: str | None = None) -> Any:
    """Names a thread, and one of its checkpoints."""
    found = {"thread_id": thread, "checkpoint_ns": ""}
    if checkpoint_id is not None:
        found["checkpoint_id"] = checkpoint_id
    return {"configurable": found, "recursion_limit": 1_000_000}


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
    """Calls the tool twice for each user message, then answers."""

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


class Chat:
    """A tool-calling agent on a saver. Each call is one turn of the user: 7 supersteps, 5 of them a KB of text."""

    def __init__(self, saver: Any, durability: Any = "sync") -> None:
        source = self._source = texts()
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
        self.graph = graph.compile(checkpointer=saver)
        self._durability = durability
        self._turns = count()

    def _question(self) -> dict[str, Any]:
        return {"messages": [HumanMessage(next(self._source)[:300], id=f"question-{next(self._turns)}")]}

    def say(self, turns: int = 1, thread: str = "bench") -> None:
        for _ in range(turns):
            self.graph.invoke(self._question(), config(thread), durability=self._durability)

    async def asay(self, turns: int = 1, thread: str = "bench") -> None:
        for _ in range(turns):
            await self.graph.ainvoke(self._question(), config(thread), durability=self._durability)


class Call(NamedTuple):
    """One call of `put` or `put_writes`, as LangGraph made it, but for the thread."""

    name: str
    checkpoint_id: str | None
    arguments: tuple[Any, ...]

    def __call__(self, saver: Any, thread: str = "bench", sort: str = "") -> Any:
        return getattr(saver, sort + self.name)(config(thread, self.checkpoint_id), *self.arguments)


class _Recorder(StoresNothing):
    """A turn goes on with the very messages of the turn before.

    Each saver recognises those that it handed out itself, and the calls are played to several.
    """

    def __init__(self) -> None:
        super().__init__()
        self.supersteps: list[list[Call]] = [[]]

    def put(self, config: Any, *arguments: Any) -> Any:
        """A superstep ends with its checkpoint."""
        self.supersteps[-1].append(Call("put", config["configurable"].get("checkpoint_id"), arguments))
        self.supersteps.append([])
        return super().put(config, *arguments)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Belongs to the superstep whose checkpoint comes next."""
        arguments = list(writes), task_id, task_path
        self.supersteps[-1].append(Call("put_writes", config["configurable"]["checkpoint_id"], arguments))


def recorded(supersteps: int) -> list[list[Call]]:
    """The calls of a chat, by superstep: what is written, then the `put` that ends it."""
    recorder = _Recorder()
    chat = Chat(recorder)
    while len(recorder.supersteps) <= supersteps:
        chat.say()
    return recorder.supersteps[:supersteps]


def superstep(number: int, parent: str | None, value: Any, written: Any, **metadata: Any) -> list[Call]:
    """The calls of a superstep after which the channel `x` has that value."""
    checkpoint = {
        "v": 4,
        "id": str(uuid6(clock_seq=number)),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": {"x": value},
        "channel_versions": {"x": number + 1},
        "versions_seen": {"node": {"x": number}},
        "updated_channels": ["x"],
    }
    facts = {"source": "loop", "step": number, "parents": {}, **metadata}
    return [
        Call("put", parent, (checkpoint, facts, {"x": number + 1})),
        Call("put_writes", checkpoint["id"], ([("x", written), ("branch:to:node", None)], f"task-{number}", "")),
    ]


def play(saver: Any, supersteps: Iterable[list[Call]], thread: str = "bench") -> None:
    for calls in supersteps:
        for call in calls:
            call(saver, thread)


async def aplay(saver: Any, supersteps: Iterable[list[Call]], thread: str = "bench") -> None:
    for calls in supersteps:
        for call in calls:
            await call(saver, thread, "a")


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def taken_by(stores: Mapping[str, Any], supersteps: int) -> dict[str, list[float]]:
    """Seconds of each saver for each superstep of one thread, which goes to all of them before the next begins."""
    taken: dict[str, list[float]] = {name: [] for name in stores}
    order, shuffle = list(stores), random.Random(supersteps).shuffle
    calls = recorded(supersteps)
    # The recording is many objects; a collection in the middle would be charged to whoever runs then.
    gc.collect()
    gc.freeze()
    for superstep in calls:
        shuffle(order)
        for name in order:
            taken[name].append(seconds(lambda: play(stores[name], [superstep])))  # noqa: B023 - called at once
    gc.unfreeze()
    return taken


def settle() -> None:
    """What the saver before left to the collector and to the disk is not charged to the next."""
    gc.collect()
    os.sync()


def in_new_process(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """The result of a function of a module, called in a process that has nothing in memory but imports."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments, **named).result()


def text(log: Path) -> bytes:
    """The lines of a session's log."""
    return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(log.read_bytes()), read_across_frames=True).read()
