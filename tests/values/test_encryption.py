"""Under a serde that is not the default nothing that a user or a model said is on disk in the clear."""

from __future__ import annotations

import base64
import json
import pickle
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, Overwrite, Send, interrupt

from langgraph_jsonl_checkpoint import JsonlSaver, SessionError, WrongSerdeError

from .forge import forge
from .same import difference
from .sample_types import Point
from .samples import SAME
from .thread import Thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

SECRET = "s3cr3t-m4rker"
KEY = b"0123456789abcdef"


def encrypted(key: bytes = KEY) -> EncryptedSerializer:
    """The serde that LangGraph offers for this."""
    return EncryptedSerializer.from_pycryptodome_aes(key=key)


class Scrambling:
    """The smallest serde: two methods, no base class, nothing readable (langgraph-redis#189)."""

    __slots__ = ()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Pickled, with each bit flipped."""
        return "scrambled", bytes(b ^ 0xFF for b in pickle.dumps(obj))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """What `dumps_typed` was given."""
        if data[0] != "scrambled":
            raise ValueError(data[0])
        return pickle.loads(bytes(b ^ 0xFF for b in data[1]))


SERDES = {"aes": encrypted, "two methods": Scrambling}


@pytest.fixture(params=SERDES.values(), ids=list(SERDES))
def thread(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Thread]:
    """A thread of a saver whose serde hides what it is given."""
    with Thread(tmp_path, serde=request.param()) as thread:
        yield thread


def in_the_clear(text: bytes, secret: str = SECRET) -> list[bytes]:
    """Traces of the secret: as text, as JSON or UTF-16, in base64 at each of its three offsets, in hex."""
    plain = secret.encode()
    shifted = [base64.b64encode(b"\x00" * n + plain)[(0, 4, 4)[n] : -4] for n in range(3)]
    traces = [plain, plain[::-1], secret.encode("utf-16-le"), plain.hex().encode(), *shifted]
    return [t for t in traces if t in text or t.lower() in text.lower()]


def test_the_search_finds_what_it_looks_for() -> None:
    """The search of these tests can fail: text, base64 at any offset and hex are found."""
    for n in range(6):
        assert in_the_clear(base64.b64encode(b"x" * n + SECRET.encode() + b"y" * 5))
    assert in_the_clear(SECRET.encode().hex().encode())
    assert in_the_clear(json.dumps({"a": SECRET}).encode())
    assert not in_the_clear(b"nothing here")


HELD: dict[str, Any] = {
    "text": SECRET,
    "long text": SECRET * 100,
    "list": [SECRET, SECRET * 50, [SECRET]],
    "key": {SECRET: 1},
    "keys, large": {f"{SECRET}/{n}.py": [SECRET + "x" * 300] for n in range(5)},
    "int keys": {1: SECRET, (2, SECRET): 3},
    "human": HumanMessage(SECRET, id=SECRET, name=SECRET, additional_kwargs={SECRET: SECRET}),
    "ai": AIMessage(
        [{"type": "text", "text": SECRET}],
        tool_calls=[{"name": SECRET, "args": {SECRET: [SECRET]}, "id": SECRET}],
        response_metadata={"model": SECRET},
        extra=SECRET,
    ),
    "tool": ToolMessage(SECRET, tool_call_id=SECRET, artifact={"a": SECRET}),
    "messages": [HumanMessage(SECRET * 30, id=f"{SECRET}{n}") for n in range(5)],
    "send": Send(SECRET, {"a": SECRET}),
    "sends": [Send("n", {"messages": [HumanMessage(SECRET * 30)]})],
    "command": Command(update={SECRET: SECRET}, resume=SECRET),
    "interrupt": (Interrupt({"question": SECRET}, id="1"),),
    "overwrite": Overwrite([SECRET]),
    "snapshot": _DeltaSnapshot([HumanMessage(SECRET)]),
    "bytes": SECRET.encode(),
    "surrogates": f"\ud800{SECRET}",
    "dataclass": Point(1, SECRET),
    "set": {SECRET},
    "tag": {"$ref": SECRET},
}


def test_no_value_is_readable(thread: Thread) -> None:
    """State, writes, messages, keys, arguments, results and metadata are sealed, and come back."""
    metadata = {SECRET: SECRET, "messages": [HumanMessage(SECRET)], "nested": {"k": [SECRET * 40]}}
    for n in range(3):
        held = HELD | {"messages": [*HELD["messages"], *[HumanMessage(SECRET * 30) for _ in range(n)]]}
        thread.step(held, metadata=metadata)
        thread.write(list(held.items()), task_id=f"t{n}")
        thread.write([("__error__", repr(ValueError(SECRET)))], task_id=f"e{n}")
        thread.write([("__interrupt__", (Interrupt(SECRET, id="i"),)), ("__resume__", [SECRET])], task_id=f"i{n}")
    assert in_the_clear(thread.text()) == []
    assert len(thread.records("checkpoint")) == 3
    thread.reopen()
    read = thread.read()
    assert difference(read.checkpoint["channel_values"], held) is None
    assert read.metadata[SECRET] == SECRET
    assert read.metadata["messages"] == metadata["messages"]
    assert {c: v for t, c, v in read.pending_writes if t == "t2"} == held
    by_task = {t: v for t, c, v in read.pending_writes if c == "__error__"}
    assert by_task == {"e2": repr(ValueError(SECRET))}


def test_an_encrypted_log_is_still_strict_json(thread: Thread) -> None:
    """Sealing changes values only: each line is JSON and names, steps and sources can be read."""
    thread.step({"messages": HELD["messages"]})
    header, *_ = thread.records()
    assert header["thread_id"] == thread.thread_id
    (checkpoint,) = thread.records("checkpoint")
    assert (checkpoint["step"], checkpoint["source"]) == (0, "loop")


def test_every_value_comes_back_from_a_sealed_log(thread: Thread) -> None:
    """The codec's table of values holds under each serde."""
    held = dict(SAME)
    thread.step({"all": held})
    thread.reopen()
    assert difference(thread.values()["all"], held) is None


def test_an_agent_leaves_nothing_readable(thread: Thread) -> None:
    """create_agent with tool calls and an interrupt: no prompt, argument, result or answer is on disk."""

    @tool
    def look(path: str) -> str:
        """Look at a file."""
        return f"{SECRET} is in {path}"

    @tool
    def ask(question: str) -> str:
        """Ask the user."""
        return interrupt({"question": question})

    calls = [{"name": n, "args": {a: SECRET}, "id": n} for n, a in (("look", "path"), ("ask", "question"))]
    script = iter([AIMessage(SECRET, tool_calls=calls), AIMessage(f"done {SECRET}")])
    agent = create_agent(_Scripted(messages=script), [look, ask], checkpointer=thread.saver)
    config: RunnableConfig = {
        "configurable": {"thread_id": thread.thread_id, "user_note": SECRET},
        "metadata": {"note": SECRET},
    }
    agent.invoke({"messages": [HumanMessage(SECRET)]}, config)
    assert in_the_clear(thread.text()) == []
    thread.reopen()
    agent.checkpointer = thread.saver
    assert [i.value for i in agent.get_state(config).interrupts] == [{"question": SECRET}]
    result = agent.invoke(Command(resume=f"answer {SECRET}"), config)
    assert [str(m.text) for m in result["messages"]][-1] == f"done {SECRET}"
    assert f"answer {SECRET}" in [m.content for m in result["messages"]]
    assert in_the_clear(thread.text()) == []
    assert list(thread.saver.list(config, filter={"note": SECRET}))


class _Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> _Scripted:
        return self


def test_a_failing_run_leaves_no_error_text(thread: Thread) -> None:
    """The text of an exception, in a pending write or a terminal record, is a value too."""

    def fail(state: dict) -> dict:
        raise ValueError(SECRET)

    graph = StateGraph(dict)
    graph.add_node("fail", fail)
    graph.add_edge(START, "fail")
    config: RunnableConfig = {"configurable": {"thread_id": thread.thread_id}}
    with pytest.raises(ValueError, match=SECRET):
        graph.compile(checkpointer=thread.saver).invoke({"in": SECRET}, config)
    assert in_the_clear(thread.text()) == []
    assert SECRET in str([w for w in thread.read().pending_writes if w[1] == "__error__"])


def test_sealed_messages_are_still_stored_once(tmp_path: Path) -> None:
    """Growth stays linear under encryption: an appended message is what a step costs."""
    with Thread(tmp_path, serde=encrypted()) as thread:
        sizes = []
        for n in range(60):
            thread.step({"messages": [HumanMessage("x" * 500, id=str(i)) for i in range(n + 1)]})
            sizes.append(thread.size())
    assert sizes[59] - sizes[49] < 1.3 * (sizes[19] - sizes[9])


@pytest.mark.parametrize("how", ["prune", "delete_for_runs"])
def test_a_sealed_thread_gives_its_space_back_however_its_lists_lie(tmp_path: Path, how: str) -> None:
    """Lists that grow side by side begin with one that is numbered itself, and stands in the clear."""
    with Thread(tmp_path, serde=encrypted()) as thread:
        state: dict[str, Any] = {"rows": [], "notes": []}
        for turn in range(50):
            state = {name: [*held, {name: f"{turn} " + SECRET * 20}] for name, held in state.items()}
            thread.step(state, metadata={"run_id": f"run {turn}"})
        if how == "prune":
            thread.saver.prune([thread.thread_id])
        else:
            thread.saver.delete_for_runs(["run 3"])
        thread.reopen()
        newest, *others = thread.saver.list({"configurable": {"thread_id": thread.thread_id}})
        assert newest.checkpoint["channel_values"] == state
        assert len(others) == (0 if how == "prune" else 48)
        assert not thread.saver.verify(thread.thread_id).problems


def test_an_encrypted_saver_refuses_a_plain_log(tmp_path: Path) -> None:
    """Plain records in an encrypted store were put there by someone without the key (langgraph#8938)."""
    with Thread(tmp_path) as thread:
        thread.step({"messages": [HumanMessage("hello")]})
        thread.write([("a", 1)])
        config = thread.head
    with JsonlSaver(tmp_path, serde=encrypted()) as saver:
        with pytest.raises(SessionError):
            saver.get_tuple(config)
        with pytest.raises(SessionError):
            list(saver.list(config))


def test_a_plain_saver_refuses_an_encrypted_log(tmp_path: Path) -> None:
    """Without the key there is an error, not an empty state."""
    with Thread(tmp_path, serde=encrypted()) as thread:
        thread.step({"messages": [HumanMessage("hello")]})
        config = thread.head
    for serde in (None, encrypted(b"another-key-of16")):
        with JsonlSaver(tmp_path, serde=serde) as saver, pytest.raises(Exception, match=r".") as refusal:
            saver.get_tuple(config)
        assert not isinstance(refusal.value, AssertionError)


@pytest.mark.parametrize("serde", [None, encrypted(b"another-key-of16")], ids=["none", "another key"])
def test_a_wrong_serde_is_no_damage(tmp_path: Path, serde: Any) -> None:
    """Each error says to give the right serde; nothing is salvaged, copied or pruned that cannot be opened."""
    with Thread(tmp_path, serde=encrypted()) as thread:
        thread.step({"messages": [HumanMessage("hello")]})
    before = thread.saver.path("thread").read_bytes()
    with JsonlSaver(tmp_path, serde=serde) as saver:
        for read in (
            lambda: saver.get_tuple(thread.head),
            lambda: list(saver.list(thread.head)),
            lambda: saver.resume_state("thread"),
            lambda: saver.salvage("thread", "saved"),
            lambda: saver.copy_thread("thread", "saved"),
            lambda: saver.prune(["thread"]),
            lambda: saver.delete_for_runs(["run"]),
        ):
            with pytest.raises(WrongSerdeError, match=r"at byte \d+.* Give the saver the serde") as refusal:
                read()
            assert (refusal.value.path, refusal.value.seq > 0) == (str(saver.path("thread")), True)
        report = saver.verify("thread")
        assert report.ok is (serde is None)
        assert re.search(r"\d+ sealed texts were not looked into" if report.ok else "another key", str(report))
        assert len(report.problems) == (serde is not None)
        assert not saver.path("saved").exists()
    with JsonlSaver(tmp_path, serde=encrypted()) as saver:
        assert saver.path("thread").read_bytes() == before
        assert str(saver.verify("thread")).endswith(" bytes")


def test_a_log_in_the_clear_is_not_read_by_a_saver_that_encrypts(tmp_path: Path) -> None:
    """Somebody may have put it there; the error says that the serde is another."""
    with Thread(tmp_path) as thread:
        thread.step({"messages": [HumanMessage("hello")]})
    with JsonlSaver(tmp_path, serde=encrypted()) as saver:
        for read in (lambda: saver.get_tuple(thread.head), lambda: saver.salvage("thread", "saved")):
            with pytest.raises(WrongSerdeError, match="not sealed"):
                read()
        assert len(saver.verify("thread").problems) == 1


@pytest.mark.parametrize("kind", ["checkpoint", "message", "value", "writes"])
def test_records_of_another_thread_are_refused(tmp_path: Path, kind: str) -> None:
    """A sealed value names its thread: a record moved to another one is no value there (langgraph#9004)."""
    threads = {}
    for name in ("victim", "attacker"):
        with Thread(tmp_path, name, serde=encrypted()) as thread:
            thread.step({"messages": [HumanMessage(f"{name} " * 100, id="1")], "big": f"{name} " * 100})
            thread.write([("messages", [HumanMessage(f"written by {name}")])])
            threads[name] = thread
    (stolen,) = threads["victim"].records(kind)[:1]

    def swap(record: dict[str, Any]) -> dict[str, Any]:
        return stolen | {"seq": record["seq"]} if record["type"] == kind else record

    attacker = threads["attacker"]
    forge(attacker.saver.path("attacker"), swap)
    with JsonlSaver(tmp_path, serde=encrypted()) as saver:
        with pytest.raises(SessionError):
            saver.get_tuple(attacker.head)
        assert saver.get_tuple(threads["victim"].head)


def test_a_log_moved_to_another_thread_is_refused(tmp_path: Path) -> None:
    """Neither under its old header nor under that of the thread whose place it takes."""
    for name in ("victim", "attacker"):
        with Thread(tmp_path, name, serde=encrypted()) as thread:
            thread.step({"messages": [HumanMessage(name)]})
            paths = thread.saver.path("victim"), thread.saver.path("attacker")
    shutil.copy(*paths)
    config: RunnableConfig = {"configurable": {"thread_id": "attacker"}}
    with JsonlSaver(tmp_path, serde=encrypted()) as saver, pytest.raises(SessionError):
        saver.get_tuple(config)
    forge(paths[1], lambda r: r | {"thread_id": "attacker"} if r["type"] == "session" else r)
    with JsonlSaver(tmp_path, serde=encrypted()) as saver, pytest.raises(SessionError):
        saver.get_tuple(config)
