"""A session that is closed gives its memory back at once, not when a collection happens to run."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

if TYPE_CHECKING:
    from langgraph_jsonl_checkpoint import JsonlSaver

CONFIG = {"configurable": {"thread_id": "t"}}


def test_a_forgotten_session_is_freed_without_a_collection(saver: JsonlSaver) -> None:
    """No cycle keeps a log's records alive: an evicted or closed session is no leak."""
    graph = StateGraph(MessagesState).add_node("n", lambda _: {"messages": "hi"}).add_edge(START, "n")
    app = graph.compile(checkpointer=saver)
    app.invoke({"messages": [HumanMessage("x" * 1000)]}, CONFIG)
    app.get_state(CONFIG)
    session = saver._sessions.peek("t")
    gone = [weakref.ref(part) for part in (session.book, session.checkpoints, session.shadows.known)]
    gc.disable()
    try:
        session.forget()
        assert [ref() for ref in gone] == [None, None, None]
    finally:
        gc.enable()
