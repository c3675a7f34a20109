"""A human decides what becomes of a tool call whose outcome nobody knows.

A process charges a customer's card and is killed with -9 before it can say so. The next process goes on with the
thread. It does not charge the card again: it asks. The model is scripted, so no key and no network is needed.

    python examples/human.py                       asks here; without a terminal it rejects
    python examples/human.py approve               charge the card, again perhaps
    python examples/human.py respond "It went through, receipt 1."
    python examples/human.py reject                do not; the model learns that the outcome is unknown
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from langgraph_jsonl_checkpoint import JsonlSaver, SessionMiddleware, decide

THREAD: Any = {"configurable": {"thread_id": "order-7"}}


class ScriptedModel(BaseChatModel):
    """Wants the card to be charged, then says what came of it."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """The script knows its tool."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        answer = AIMessage(f"About your order: {messages[-1].text}")
        if messages[-1].type == "human":
            answer = AIMessage("", tool_calls=[{"name": "charge_card", "args": {"euros": 30}, "id": "call-1"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def build_agent(saver: JsonlSaver, bank: Path, *, dies: bool = False) -> Any:
    """An agent that can charge a card. The bank keeps its own books: a line in a file for each charge."""

    def charge_card(euros: int) -> str:
        """Charge the customer's card."""
        with bank.open("a", encoding="utf-8") as books:
            books.write(f"{euros} euros\n")
        if dies:
            signal.raise_signal(signal.SIGKILL)  # the card is charged, and nobody was told
        return f"Charged {euros} euros."

    return create_agent(ScriptedModel(), [charge_card], checkpointer=saver, middleware=[SessionMiddleware(saver)])


def first_process(sessions: Path, bank: Path) -> None:
    """Take the order, and die in the middle."""
    agent = build_agent(JsonlSaver(sessions), bank, dies=True)
    agent.invoke({"messages": [("user", "I take the lamp.")]}, THREAD)


def ask() -> dict[str, str]:
    """The human's decision: from the command line, from the terminal, or the careful one."""
    words = sys.argv[1:] or (input("approve, respond TEXT or reject? ") if sys.stdin.isatty() else "reject").split()
    return {"type": words[0], "message": " ".join(words[1:])}


def main(sessions: Path, bank: Path) -> None:
    """Crash, go on, be asked, decide, and see how it ends."""
    process = multiprocessing.get_context("spawn").Process(target=first_process, args=(sessions, bank))
    process.start()
    process.join()
    print(f"process {process.pid} charged the card and was killed (exit code {process.exitcode})")
    with JsonlSaver(sessions) as saver:
        agent = build_agent(saver, bank)
        (question,) = agent.invoke(None, THREAD)["__interrupt__"]  # the run goes on, and stops to ask
        (call,) = question.value["calls"]
        print(f"the run asks       {call['name']}({call['args']}), attempt {call['attempt']}: {call['description']}")
        print(f"the bank's books   {bank.read_text().count('euros')} charge(s), where a human can look")
        decision = ask()
        print(f"the decision       {decision}")
        result = agent.invoke(decide(agent, THREAD, {call["tool_call_id"]: decision}), THREAD)
        print(f"the model is told  {result['messages'][-2].text}")
        print(f"the model says     {result['messages'][-1].text}")
        print(f"the bank's books   {bank.read_text().count('euros')} charge(s)")
        state = saver.resume_state("order-7")
        print(f"the run            {state.ended}, {len(state.uncertain)} uncertain")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder, "sessions"), Path(folder, "bank"))
