"""An agent is killed with -9 in the middle of its work, and goes on from its thread id.

The agent reads Python files of this checkout, one tool call each, and says how long they are. Its model is
scripted, so no key and no network is needed. All else is real: the graph, the files, the processes, the kill.

    python examples/demo.py                        the whole story
    python examples/demo.py ROOT THREAD_ID [FILE]  one process of it; its tool hangs in FILE
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zstandard
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

    Agent = CompiledStateGraph[Any, Any, Any, Any]

CHECKOUT = Path(__file__).resolve().parent.parent
FILES = 24


class ScriptedModel(BaseChatModel):
    """Asks for the list of files, then for one file after the other, then answers."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        results = [message.text for message in messages if isinstance(message, ToolMessage)]
        if not results:
            answer = ask_for("list_files", "call-0")
        elif len(results) <= len(paths := results[0].split()):
            answer = ask_for("read_file", f"call-{len(results)}", path=paths[len(results) - 1])
        else:
            lines = sum(text.count("\n") for text in results[1:])
            answer = AIMessage(f"The {len(paths)} files have {lines:,} lines.")
        return ChatResult(generations=[ChatGeneration(message=answer)])


def ask_for(tool: str, call_id: str, **args: str) -> AIMessage:
    """What a model says when it wants a tool to run."""
    return AIMessage("", tool_calls=[{"name": tool, "args": args, "id": call_id, "type": "tool_call"}])


def files() -> list[str]:
    """The first Python files of the checkout; folders like .venv are not of it."""
    return sorted(str(path.relative_to(CHECKOUT)) for path in CHECKOUT.glob("[!.]*/**/*.py"))[:FILES]


def build_agent(saver: BaseCheckpointSaver[Any], begin: Callable[[str], None]) -> Agent:
    """The agent on a checkpointer. `begin` is called with each path that the tool is about to read."""
    model = ScriptedModel()

    def agent(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [model.invoke(state["messages"])]}

    def list_files() -> str:
        """List the files."""
        return "\n".join(files())

    def read_file(path: str) -> str:
        """Read a file."""
        begin(path)
        return (CHECKOUT / path).read_text(encoding="utf-8")

    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode([list_files, read_file]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile(checkpointer=saver)


def thread(thread_id: str) -> RunnableConfig:
    """The config of a run on a thread."""
    return {"configurable": {"thread_id": thread_id}, "recursion_limit": 10 * FILES}


def work(root: str, thread_id: str, hang_in: str = "") -> None:
    """Start the thread, or go on where it stopped, and say what happens on stdout."""

    def begin(path: str) -> None:
        say("read", path)
        if path == hang_in:
            time.sleep(600)

    with JsonlSaver(root) as saver:
        agent = build_agent(saver, begin)
        stored = agent.get_state(thread(thread_id))
        if stored.metadata:
            # The first one is the session memory, which the saver lends to a run that goes on after a crash.
            memory, *messages = stored.values["messages"]
            say("memory", str(len(memory.text)))
            say("step", str(stored.metadata["step"]))
            say("messages", str(len(messages)))
            say("next", f"{stored.next[0]}: read_file({messages[-1].tool_calls[0]['args']['path']!r})")
        start = None if stored.next else {"messages": [("user", "How long are the files?")]}
        result = agent.invoke(start, thread(thread_id), durability="sync")
        say("answer", result["messages"][-1].text)


def say(kind: str, text: str) -> None:
    """A line for the process that watches."""
    print(kind, text, flush=True)


def watch(*arguments: str, kill_in: str = "") -> tuple[subprocess.Popen[str], dict[str, list[str]]]:
    """Run `work` in a process of its own, and kill it when it begins to read `kill_in`; what it said."""
    said = defaultdict(list)
    command = [sys.executable, __file__, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            kind, text = line.rstrip("\n").split(" ", 1)
            said[kind].append(text)
            if (kind, text) == ("read", kill_in):
                process.kill()  # SIGKILL: no handler, no flush, no goodbye
    return process, said


def main() -> None:
    """Kill a run in the middle, continue it, and look at what is on disk."""
    root = Path(tempfile.mkdtemp(prefix="sessions-"))
    last = files()[FILES // 2]
    print(f"An agent reads {FILES} files, one tool call each, on the thread 'demo'.\n")

    process, said = watch(str(root), "demo", last, kill_in=last)
    *finished, _ = said["read"]
    print(f"process {process.pid} starts it")
    print(f"  read         {len(finished)} files, {finished[0]} to {finished[-1]}")
    print(f"  began        {last}")
    print(f"  kill -9      in the middle of that tool call (exit code {process.returncode})\n")

    process, said = watch(str(root), "demo")
    read = said["read"]
    print(f"process {process.pid} gets the thread id and calls invoke(None, config)")
    print(f"  restored     {said['messages'][0]} messages, superstep {said['step'][0]}")
    print(f"  remembered   a session memory of {said['memory'][0]} characters for the model")
    print(f"  next         {said['next'][0]}")
    print(f"  read         {len(read)} files, {read[0]} to {read[-1]}")
    print(f"  read again   {len(set(finished) & set(read))} of the {len(finished)} that were finished")
    print(f"  answer       {said['answer'][0]}\n")

    with JsonlSaver(root) as saver:
        log = saver.path("demo")
    ours, theirs = log.stat().st_size, run_on_sqlite(root / "sqlite.db")
    print("the whole run on disk")
    print(f"  JsonlSaver   {ours:>9,} bytes")
    print(f"  SqliteSaver  {theirs:>9,} bytes, {theirs / ours:.0f} times as much\n")
    print("in the log: the checkpoint that was restored, and who restored it")
    show_lines(log, f'"step":{said["step"][0]},|"pid":{process.pid},')


def run_on_sqlite(path: Path) -> int:
    """The same run on SqliteSaver, undisturbed: the size of its database."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        build_agent(saver, lambda _: None).invoke({"messages": [("user", "How long are the files?")]}, thread("demo"))
    return path.stat().st_size


def show_lines(log: Path, pattern: str) -> None:
    """Some lines of the log, as anyone can see them."""
    if shutil.which("zstdcat"):
        command = f"zstdcat {log} | grep -E '{pattern}' | cut -c 1-250"
        print(f"$ {command}", flush=True)
        subprocess.run(command, shell=True, check=True)
    else:
        print(f"{log}, through Python's zstandard (there is no zstdcat here)")
        text = zstandard.ZstdDecompressor().stream_reader(log.read_bytes(), read_across_frames=True).read()
        print(*(line[:250] for line in text.decode().splitlines() if re.search(pattern, line)), sep="\n")


if __name__ == "__main__":
    work(*sys.argv[1:]) if len(sys.argv) > 1 else main()
