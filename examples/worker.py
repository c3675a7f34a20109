"""An unattended worker: at its start it goes on with all its threads, and leaves to a human what only one can know.

Its queue delivers each job again at every start, as queues do after a crash. Three workers run in turn. The first is
killed with -9 while it looks a price up, the second when it has just charged a card. What only reads is run again
unasked; the charge is not: the third worker reports it and does the other jobs. The model is scripted, so no key and
no network is needed.

    python examples/worker.py
"""

from __future__ import annotations

import functools
import multiprocessing
import signal
import tempfile
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from langgraph_jsonl_checkpoint import JsonlSaver, SessionMiddleware, ToolPolicy, resume_or_invoke

# Job, thread, and what the customer wants.
JOBS = [("job-1", "ann", "lamp"), ("job-2", "bob", "chair"), ("job-3", "cem", "desk"), ("job-4", "dee", "shelf")]
POLICY = ToolPolicy(read_only=["look_up"])  # anything else has side effects unless we say otherwise
say = functools.partial(print, flush=True)


class ScriptedModel(BaseChatModel):
    """Looks the price up, charges the card, and says what came of it."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """The script knows its tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        last, answer = messages[-1], AIMessage(messages[-1].text)
        if last.type == "human":
            answer = AIMessage("", tool_calls=[{"name": "look_up", "args": {"thing": last.text}, "id": "call-1"}])
        elif last.name == "look_up":
            thing, euros = last.text.split()
            args = {"thing": thing, "euros": int(euros)}
            answer = AIMessage("", tool_calls=[{"name": "charge_card", "args": args, "id": "call-2"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def worker(folder: Path, dies_in: str = "") -> None:
    """Do all jobs, in whatever state the worker before left them."""

    def look_up(thing: str) -> str:
        """Look a price up."""
        if dies_in == f"look_up {thing}":
            signal.raise_signal(signal.SIGKILL)
        return f"{thing} {10 * len(thing)}"

    def charge_card(thing: str, euros: int) -> str:
        """Charge the customer's card."""
        with (folder / "charges").open("a", encoding="utf-8") as charges:
            charges.write(f"{thing} {euros}\n")
        if dies_in == f"charge_card {thing}":
            signal.raise_signal(signal.SIGKILL)
        return f"charged {euros} euros for the {thing}"

    with JsonlSaver(folder / "sessions") as saver:
        hook = SessionMiddleware(saver, policy=POLICY)
        agent = create_agent(ScriptedModel(), [look_up, charge_card], checkpointer=saver, middleware=[hook])
        for job, thread, text in JOBS:
            if calls := saver.uncertain(thread):  # only looks: nothing is run
                for call in calls:
                    say(f"  {thread}  left to a human: {call.name}({call.args}) is {call.status}")
                continue
            kind = "new job" if saver.accepts(thread, job) else "known job"
            start = {"messages": [("user", text)]}
            result = resume_or_invoke(agent, start, {"configurable": {"thread_id": thread}}, input_id=job)
            texts = [message.text for message in result["messages"]]
            say(f"  {thread}  {kind}, in its thread {texts.count(text)} time: {texts[-1]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for number, death in enumerate(("look_up chair", "charge_card desk", ""), 1):
            say(f"worker {number}" + (f", which dies in {death!r}" if death else ""))
            process = multiprocessing.get_context("spawn").Process(target=worker, args=(Path(place), death))
            process.start()
            process.join()
            say(f"  exit code {process.exitcode}")
        say("the charges: ", ", ".join(Path(place, "charges").read_text().splitlines()))
