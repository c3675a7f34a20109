"""What the racing processes do. Each reports what a call returned for, right after it returned."""

from __future__ import annotations

import itertools
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from cases.graphs import ChatState, config, prose, put, sequence

from langgraph_jsonl_checkpoint import JsonlSaver, SessionError
from langgraph_jsonl_checkpoint.log import local, logfile
from langgraph_jsonl_checkpoint.sessions.identity import header_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from warm import Report


def name_of(writer: str, place: int) -> str:
    """The id of a writer's checkpoint; ids of one writer sort as it put them."""
    return f"{place:05}-{writer}"


def values_of(writer: str, place: int, size: int) -> dict[str, Any]:
    """What a writer's checkpoint holds: who and which, things that all writers share, and a text of its own."""
    return {
        "who": [writer, place],
        "shared": [{"of": "all", "place": number} for number in range(place % 7)],
        "text": prose((writer, place), size),
    }


def store(saver: JsonlSaver, thread: str, writer: str, place: int, *, ns: str = "", size: int = 40) -> None:
    """Put one checkpoint."""
    put(saver, name_of(writer, place), values_of(writer, place, size), thread_id=thread, ns=ns, writer=writer)


def store_writes(saver: JsonlSaver, thread: str, writer: str, place: int, *, ns: str = "") -> None:
    """Put the writes that belong to it."""
    saver.put_writes(config(thread, ns, name_of(writer, place)), [("text", [writer, place])], f"task-{writer}")


def write(
    report: Report,
    *,
    root: str,
    name: str,
    ids: Sequence[str],
    count: int,
    threads: int = 1,
    savers: int = 1,
    size: int = 40,
    **options: Any,
) -> None:
    """Threads, over several savers, each put so many checkpoints and their writes, in turn on these thread ids."""
    opened = [JsonlSaver(root, **options) for _ in range(savers)]

    def work(number: int) -> None:
        writer, saver = f"{name}.{number}", opened[number % savers]
        for place in range(count):
            thread = ids[place % len(ids)]
            store(saver, thread, writer, place, size=size)
            report("put", writer=writer, thread=thread, place=place)
            store_writes(saver, thread, writer, place)
            report("writes", writer=writer, thread=thread, place=place)

    with ThreadPoolExecutor(threads) as pool:
        [*pool.map(work, range(threads))]
    for saver in opened:
        saver.close()


def write_on(report: Report, *, root: str, name: str, thread: str = "t", ns: str = "", **options: Any) -> None:
    """Put checkpoints until killed; a put that is refused is followed by a read, as a new run would."""
    saver = JsonlSaver(root, fsync="never", **options)
    for place in itertools.count():
        begun = time.monotonic()
        try:
            store(saver, thread, name, place, ns=ns)
            report("put", writer=name, thread=thread, place=place, begun=begun, done=time.monotonic())
        except SessionError as error:
            report("refused", place=place, error=type(error).__name__)
            saver.get_tuple(config(thread))


def read_on(report: Report, *, root: str, name: str, thread: str = "t") -> None:
    """Read a thread in every way until killed; what comes is whole, and what came before comes again."""
    del name
    with JsonlSaver(root) as fresh:
        fresh.get_tuple(config(thread))
    saver = JsonlSaver(root)
    while True:
        with JsonlSaver(root) as fresh:
            for reader in (saver, fresh):
                listed = {}
                for found in reader.list(config(thread)):
                    writer, place = found.checkpoint["channel_values"]["who"]
                    assert found.checkpoint["channel_values"] == values_of(writer, place, 40)
                    assert found.checkpoint["id"] == name_of(writer, place)
                    listed[writer] = [*listed.get(writer, []), place]
                newest = reader.get_tuple(config(thread))
                assert newest is None or newest.checkpoint["channel_values"]["text"]
        report("read", listed=listed)


def pack_on(report: Report, *, root: str, name: str, thread: str = "t") -> None:
    """Pack a thread again and again until killed."""
    del name
    with JsonlSaver(root) as saver:
        for _ in itertools.count():
            if saver.pack(thread):
                report("packed")


def prune_on(report: Report, *, root: str, name: str, thread: str = "t") -> None:
    """Prune a thread again and again until killed; report the prunes that removed something."""
    del name
    with JsonlSaver(root) as saver:
        generation = 0
        for _ in itertools.count():
            saver.prune([thread])
            if (head := header_of(saver.path(thread))) is not None and head.generation > generation:
                generation = head.generation
                report("pruned", generation=generation)


def delete_on(report: Report, *, root: str, name: str, thread: str = "t", times: int = 50, pause: float) -> None:
    """Delete a thread so many times."""
    del name
    with JsonlSaver(root) as saver:
        for _ in range(times):
            time.sleep(pause)
            begun = time.monotonic()
            saver.delete_thread(thread)
            report("deleted", begun=begun, done=time.monotonic())


def create(report: Report, *, root: str, name: str, begin: float, rounds: int, step: float) -> None:
    """In each round be the first to store in a thread, at a moment that others have, too."""
    made = local.create

    def counting(*args: Any, **options: Any) -> Any:
        try:
            return made(*args, **options)
        except FileExistsError:
            report("slower")
            raise

    local.create = counting
    with JsonlSaver(root) as saver:
        for number in range(rounds):
            while time.monotonic() < begin + number * step:
                pass
            store(saver, f"r{number}", name, 0)
            report("put", writer=name, thread=f"r{number}", place=0)


def run_by_a_wrong_clock(report: Report, *, root: str, name: str, before: int, turns: int, shift: float) -> None:
    """Run turns of a conversation; from the turn `before` on the clock of this process is `shift` seconds off."""
    now, now_ns = time.time, time.time_ns
    with JsonlSaver(root) as saver:
        graph = conversation(saver)
        for turn in range(turns):
            if turn == before:
                time.time = lambda: now() + shift
                time.time_ns = lambda: now_ns() + int(shift * 1e9)
            graph.invoke({"messages": [("user", f"{name} {turn}")]}, config())
            report("turn", newest=saver.get_tuple(config()).checkpoint["id"])


def conversation(saver: JsonlSaver) -> Any:
    """A graph that answers each message."""
    builder = sequence(ChatState, ("n", lambda state: {"messages": [("ai", f"{len(state['messages'])}")]}))
    return builder.compile(checkpointer=saver)


def stop_in(report: Report, *, root: str, name: str, where: str, do: str, call: str, count: int = 5) -> None:
    """Stop oneself in the middle of a call, at one of its steps, and go on when somebody says so.

    Args:
        report: Reports.
        root: The saver's directory.
        name: Of the writer.
        where: "before" the step, in the "middle" of it (a write alone has one), or "after" it.
        do: The step: a name of `LogFile`, or of `local`.
        call: "write", or a method of the saver that takes the thread.
        count: How many checkpoints to put afterwards.
    """
    owner: Any = logfile.LogFile if hasattr(logfile.LogFile, do) else local
    step = getattr(owner, do)
    with JsonlSaver(root, fsync="always") as saver:
        saver.get_tuple(config())
        setattr(owner, do, stopping(report, owner, do, step, where))
        if call == "delete_thread":
            saver.delete_thread("t")
        elif call != "write":
            getattr(saver, call)("t" if call == "pack" else ["t"])
        for place in range(count):
            store(saver, "t", name, place)
            report("put", writer=name, thread="t", place=place)
            store_writes(saver, "t", name, place)
            report("writes", writer=name, thread="t", place=place)


def stopping(report: Report, owner: Any, do: str, step: Callable[..., Any], where: str) -> Callable[..., Any]:
    """A step that stops this process once, and is itself again."""

    def stop() -> None:
        setattr(owner, do, step)
        report("stops")
        os.kill(os.getpid(), signal.SIGSTOP)
        report("continues")

    def stopped(*args: Any, **options: Any) -> Any:
        if where == "middle":
            file, data, offset = args
            step(file, data[: len(data) // 2], offset)
            stop()
            return step(file, data[len(data) // 2 :], offset + len(data) // 2)
        if where == "before":
            stop()
            return step(*args, **options)
        done = step(*args, **options)
        stop()
        return done

    return stopped


def stop_in_a_run(report: Report, *, root: str, name: str) -> None:
    """Begin a run with a tool that has side effects, and stop in the tool."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    from langgraph_jsonl_checkpoint import ToolGuard

    def charge_card() -> str:
        """Charge the card."""
        report("charged")
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.5)  # it may be another thread that takes the signal, a moment later
        return "charged"

    guard = ToolGuard()
    tools = ToolNode([charge_card], wrap_tool_call=guard.wrap_tool_call)
    asked = AIMessage("", tool_calls=[{"name": "charge_card", "args": {}, "id": "call", "type": "tool_call"}])
    builder = StateGraph(MessagesState).add_node("tools", tools).add_node("model", lambda _: {"messages": [asked]})
    builder.add_edge(START, "model").add_edge("model", "tools")
    with JsonlSaver(root) as saver:
        messages = builder.compile(checkpointer=saver).invoke({"messages": [("user", name)]}, config())["messages"]
        report("end", last=messages[-1].text)
