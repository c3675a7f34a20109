"""Threads of every kind that grow turn by turn, and all that can be read of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cases.graphs import ChatState, DeltaChatState, SnapshotState, at, both, checkpoint, config, prose, put, sequence
from guard.scene import CHARGE, LOOKUP, Effects, Model, build
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = "s3cr3t-m4rker"


def encrypted() -> EncryptedSerializer:
    """The serde that LangGraph offers for this."""
    return EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")


def _reply(state: Any) -> Any:
    count = len(state["messages"])
    return {"messages": [AIMessage(prose(count, 300), id=f"a{count}", additional_kwargs={"n": [count]})]}


def _said(turn: int) -> Any:
    return {"messages": [HumanMessage(f"{turn} {prose(-turn, 200)}", id=f"h{turn}")]}


def chat(saver: JsonlSaver, turn: int) -> None:
    """A conversation, with inputs that have ids; every third turn branches off an earlier checkpoint."""
    graph = sequence(ChatState, ("reply", _reply)).compile(checkpointer=saver)
    graph.invoke(_said(turn), _with_input(turn))
    if turn % 3 == 2:
        early = list(graph.get_state_history(config("chat")))[-2]
        graph.update_state(early.config, _said(100 + turn))


def _with_input(turn: int) -> Any:
    return {"configurable": {"thread_id": "chat", "input_id": f"input {turn}"}}


def deltas(saver: JsonlSaver, turn: int) -> None:
    """Two threads whose channels are rebuilt from their writes, one with snapshots."""
    sequence(DeltaChatState, ("reply", _reply)).compile(checkpointer=saver).invoke(_said(turn), config("delta"))
    graph = sequence(SnapshotState, ("a", lambda _: both(turn, "a")), ("b", lambda _: both(str(turn))))
    graph.compile(checkpointer=saver).invoke(both(-turn), config("snapshots"))


class _Waits(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def subgraphs(saver: JsonlSaver, turn: int) -> None:
    """A graph with a graph in it, with namespaces for each of its runs, that asks a human each other turn."""

    def ask(state: Any) -> Any:
        answer = interrupt({"turn": turn}) if turn % 2 == 0 else "unasked"
        return {"messages": [AIMessage(f"{answer} {len(state['messages'])}")]}

    inner = sequence(ChatState, ("reply", _reply), ("ask", ask)).compile()
    outer = StateGraph(_Waits).add_node("inner", inner).add_node("fan", lambda _: {})
    outer.add_edge(START, "fan")
    outer.add_conditional_edges("fan", lambda s: [Send("inner", s), Send("inner", s)])
    graph = outer.compile(checkpointer=saver)
    if turn % 2 == 1:
        waits = graph.get_state(config("sub")).interrupts
        graph.invoke(Command(resume={w.id: f"yes {turn}" for w in waits}), config("sub"))
    graph.invoke(_said(turn), config("sub"))


def agents(saver: JsonlSaver, turn: int) -> None:
    """An agent whose tool calls are guarded."""
    effects = Effects(_folder(saver))
    rounds = [[{**CHARGE, "id": f"c{turn}"}, {**LOOKUP, "id": f"l{turn}"}]] * (turn + 1)
    graph = build("create_agent", saver, effects.tools, Model(rounds=rounds, fresh_ids=True), memory=True)
    graph.invoke(_said(turn), config("agent"))


def _folder(saver: JsonlSaver) -> Path:
    folder = saver.path("agent").parents[2]
    folder.mkdir(exist_ok=True)
    return folder


def larges(saver: JsonlSaver, turn: int) -> None:
    """Values that are larger than a packed frame, and messages between them."""
    values = {"text": prose(turn, 300_000), "bytes": bytes(range(256)) * 20, "old": prose(turn - 1, 300_000)}
    put(saver, at(turn), values, thread_id="large", parent=at(turn - 1) if turn else None, step=turn)
    saver.put_writes(config("large", checkpoint_id=at(turn)), [("text", prose(turn + 1, 300_000))], "task")


def smalls(saver: JsonlSaver, turn: int) -> None:
    """Long lists and dicts of small values that change a little."""
    numbers = [float(n) if n % 7 else n for n in range(1000 + turn)]
    words = {f"k{n}": [n, str(n), None, n % (turn + 1) == 0] for n in range(200 + turn)}
    values = {"numbers": numbers, "words": words, "names": [f"n{n}" for n in range(turn, 300)], "set": {turn, "a"}}
    put(saver, at(turn), values, thread_id="small", parent=at(turn - 1) if turn else None, step=turn)


def writes(saver: JsonlSaver, turn: int) -> None:
    """Writes before their checkpoint, beside it, twice, to special channels; checkpoints put twice."""
    where = config("writes", checkpoint_id=at(turn))
    saver.put_writes(where, [("x", [turn]), ("y", {"a": prose(turn, 400)})], "early", "path")
    put(saver, at(turn), {"x": [turn], "z": 0}, thread_id="writes")
    put(saver, at(turn), {"x": [turn, 1], "z": True}, thread_id="writes", again=True)
    put(saver, at(turn), {"x": "other"}, thread_id="writes", ns="child:1")
    saver.put_writes(config("writes", "child:1", at(turn)), [("x", "child's")], "early")
    saver.put_writes(where, [("x", "second, ignored"), ("y", 1)], "early", "path")
    saver.put_writes(where, [("__error__", f"error {turn}")], "bad")
    saver.put_writes(where, [("__resume__", [turn])], "00000000-0000-0000-0000-000000000000")
    saver.put_writes(where, [("__resume__", [turn, 1])], "00000000-0000-0000-0000-000000000000")


def secrets(saver: JsonlSaver, turn: int) -> None:
    """All that a user could want hidden."""
    values = {"messages": [HumanMessage(f"{SECRET} {n} {prose(n, 300)}", id=str(n)) for n in range(turn + 2)]}
    values["dict"] = {f"{SECRET} key {n}": [SECRET, n] for n in range(50)}
    put(saver, at(turn), values, thread_id="secret", parent=at(turn - 1) if turn else None, step=turn)
    saver.put_writes(config("secret", checkpoint_id=at(turn)), [("messages", values["messages"][-1:])], "task")


KINDS: dict[str, Callable[[JsonlSaver, int], None]] = {
    "chat": chat,
    "deltas": deltas,
    "subgraphs": subgraphs,
    "agents": agents,
    "larges": larges,
    "smalls": smalls,
    "writes": writes,
}


def seen(saver: JsonlSaver, thread_id: str) -> dict[str, Any]:
    """All that a saver tells of a thread."""
    rows = list(saver.list({"configurable": {"thread_id": thread_id}}))
    named = [saver.get_tuple(row.config) for row in rows]
    newest = [saver.get_tuple(config(thread_id, ns)) for ns in sorted({_ns(row) for row in rows})]
    channels = sorted({c for row in rows for c in [*row.checkpoint["channel_versions"], *(w[1] for w in _of(row))]})
    some = rows[:: len(rows) // 8 + 1]
    return {
        "rows": [tuple(row) for row in rows],
        "named": [tuple(row) for row in named],
        "newest": [tuple(row) for row in newest],
        "histories": [dict(saver.get_delta_channel_history(config=r.config, channels=channels)) for r in some],
        "resume": saver.resume_state(thread_id),
        "memory": saver.session_memory(thread_id),
        "uncertain": saver.uncertain(thread_id),
        "inputs": [saver.accepts(thread_id, f"input {n}") for n in range(8)],
    }


def seen_anew(root: Path, thread_id: str, **options: Any) -> dict[str, Any]:
    """All that a new saver tells of a thread."""
    with JsonlSaver(root, restore_memory="never", **options) as saver:
        return seen(saver, thread_id)


def logs(saver: JsonlSaver) -> dict[str, Path]:
    """The logs by their threads."""
    return {info.thread_id: saver.path(info.thread_id) for info in saver.sessions(children=True)}


def _ns(row: Any) -> str:
    ns: str = row.config["configurable"]["checkpoint_ns"]
    return ns


def _of(row: Any) -> list[Any]:
    return row.pending_writes or []


def small(root: Path, *, turns: int = 3) -> Path:
    """A closed log of messages, namespaces and writes, as thread "t"; where it is."""
    messages: list[AnyMessage] = []
    with JsonlSaver(root, fsync="never", restore_memory="never") as saver:
        for turn in range(turns):
            messages = [
                *messages,
                HumanMessage(f"question {turn}", id=f"h{turn}"),
                AIMessage(f"a {turn}", id=f"a{turn}"),
            ]
            values = {"messages": messages, "files": {f"f{n}": prose((turn, n), 90) for n in range(turn, turn + 5)}}
            for ns in ("", "child:1"):
                parent = at(turn - 1) if turn else None
                stored = checkpoint(at(turn), values | {"ns": ns})
                metadata: Any = {"source": "loop" if turn else "input", "step": turn, "parents": {}}
                where = config("t", ns, parent)
                where["configurable"]["input_id"] = f"input {turn}"
                saver.put(where, stored, metadata, stored["channel_versions"])
                saver.put_writes(
                    config("t", ns, at(turn)), [("messages", messages[-1:]), ("n", turn)], f"task {turn}"
                )
        return saver.path("t")


def go_on(saver: JsonlSaver, thread_id: str = "t", *, number: int = 90) -> Any:
    """Put a checkpoint with a new message behind the newest; what is read of it then."""
    found = saver.get_tuple(config(thread_id))
    assert found is not None
    values = dict(found.checkpoint["channel_values"])
    held = list(values.get("messages", []))
    values["messages"] = [*held, HumanMessage(f"new {number}", id=f"new {number}")]
    stored = checkpoint(at(number), values)
    saver.put(found.config, stored, {"source": "loop", "step": number}, stored["channel_versions"])
    saver.put_writes(
        config(thread_id, checkpoint_id=at(number)), [("messages", [AIMessage("late", id="late")])], "new"
    )
    return saver.get_tuple(config(thread_id))
