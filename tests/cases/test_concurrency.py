"""Many threads, coroutines and savers on one thread id; values that change while they are stored."""

from __future__ import annotations

import asyncio
import copy
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from cases.graphs import TwinState, at, both, call, chain, checkpoint, config, ids, parallel, put
from cases.logs import records
from langgraph_jsonl_checkpoint import JsonlSaver
from langgraph_jsonl_checkpoint.folds.checkpoints import Checkpoints
from langgraph_jsonl_checkpoint.log.records import Writes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cases.conftest import Access


def _turn(saver: Any, worker: int, place: int, thread_id: str) -> None:
    checkpoint_id = f"{place:04}-{worker:02}"
    put(saver, checkpoint_id, {"x": [worker, place]}, thread_id=thread_id, worker=worker)
    saver.put_writes(config(thread_id, checkpoint_id=checkpoint_id), [("x", place)], f"task-{worker}")


def _check(saver: JsonlSaver, thread_id: str, expected: set[tuple[int, int]]) -> None:
    found = [*saver.list(config(thread_id))]
    assert {(item.metadata["worker"], int(item.checkpoint["id"][:4])) for item in found} == expected
    assert len(found) == len(expected)
    for item in found:
        worker, place = item.checkpoint["channel_values"]["x"]
        assert item.checkpoint["id"] == f"{place:04}-{worker:02}"
        assert item.pending_writes == [(f"task-{worker}", "x", place)]
    records(saver.path(thread_id))


@pytest.mark.parametrize("shared", [True, False])
def test_eight_threads_lose_no_write(root: Path, shared: bool) -> None:
    """langgraph#4168: on one thread id and on eight; every write is there and every line parses."""
    names = ["t"] * 8 if shared else [f"t{worker}" for worker in range(8)]
    with JsonlSaver(root) as saver:
        start = threading.Barrier(8)

        def work(worker: int) -> None:
            start.wait()
            for place in range(25):
                _turn(saver, worker, place, names[worker])

        with ThreadPoolExecutor(8) as pool:
            [*pool.map(work, range(8))]
        for opened in (saver, JsonlSaver(root)):
            for name in set(names):
                workers = [worker for worker in range(8) if names[worker] == name]
                _check(opened, name, {(worker, place) for worker in workers for place in range(25)})
        opened.close()


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads change places after each few bytecodes."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_reads_go_on_while_other_threads_write(root: Path, impatient: None) -> None:
    """langgraph#4168: tuples, lists and histories, each whole, beside two threads that store."""
    with JsonlSaver(root, fsync="never") as saver, ThreadPoolExecutor(2) as pool:
        chain(saver, 300, ns="old")
        old = config(ns="old", checkpoint_id=at(299))
        writing = [pool.submit(lambda w=w: [_turn(saver, w, n, "t") for n in range(700)]) for w in range(2)]
        while not all(turn.done() for turn in writing):
            for _ in range(50):
                assert ids(saver.list(config("t", None), limit=1)) == [at(299)]
            history = saver.get_delta_channel_history(config=old, channels=["n"])
            assert history == {"n": {"seed": 298, "writes": []}}
            for item in saver.list(config(), limit=50):
                worker, place = item.checkpoint["channel_values"]["x"]
                assert item.checkpoint["id"] == f"{place:04}-{worker:02}"
                assert item.pending_writes in ([], [(f"task-{worker}", "x", place)])
        [turn.result() for turn in writing]
        _check(saver, "t", {(worker, place) for worker in range(2) for place in range(700)})


def test_a_message_that_two_threads_store_at_once_is_read_again(root: Path, impatient: None) -> None:
    """LangGraph stores a task's writes and the next step's checkpoint, which hold one message, in two threads."""
    messages = [AIMessage(f"message {n}", id=f"{n}") for n in range(1000)]
    both_ready = threading.Barrier(2)

    def store(saver: JsonlSaver, task: str) -> None:
        for message in messages:
            both_ready.wait()
            saver.put_writes(config(checkpoint_id=at(0)), [(f"x {message.id}", message)], f"{task} {message.id}")

    with JsonlSaver(root, fsync="never") as saver, ThreadPoolExecutor(2) as pool:
        put(saver, at(0), {})
        [stored.result() for stored in [pool.submit(store, saver, task) for task in "ab"]]
    with JsonlSaver(root) as saver:
        found = saver.get_tuple(config())
        assert found is not None
        written = {(task, channel): message for task, channel, message in found.pending_writes or []}
        assert written == {(f"{t} {m.id}", f"x {m.id}"): m for m in messages for t in "ab"}
        assert not [r for r in records(saver.path("t")) if r["type"] == "message" and r["message"].keys() == {"like"}]


@pytest.mark.parametrize("seed", range(4))
def test_what_threads_share_is_stored_as_one_of_the_states_that_it_had(
    root: Path, impatient: None, seed: int
) -> None:
    """Two tasks' writes and a checkpoint hold the same messages, which get their ids in place meanwhile."""
    chance = random.Random(seed)
    kinds: list[Callable[[int], AnyMessage]] = [
        lambda n: AIMessage(f"ai {n}", tool_calls=[{"name": "t", "args": {"n": n}, "id": f"c{n}"}]),
        lambda n: HumanMessage("h" * chance.choice([5, 300]) + str(n)),
        lambda n: ToolMessage([{"type": "text", "text": "x" * chance.choice([3, 400])}], tool_call_id=f"c{n}"),
    ]
    held: list[AnyMessage] = []
    states: dict[str, Any] = {}
    with JsonlSaver(root, fsync="never") as saver, ThreadPoolExecutor(3) as pool:
        put(saver, at(0), {})
        for n in range(60):
            new = [make(n) for make in chance.sample(kinds, chance.choice([1, 2]))]
            files = {f"{k}.py": "y" * chance.choice([10, 500]) for k in range(chance.choice([1, 30]))}
            before, held = copy.deepcopy(new), [*held, *new]
            writes = [("messages", new), ("files", files), ("last", new[-1])]
            storing = [
                pool.submit(saver.put_writes, config(checkpoint_id=at(n)), writes, f"{task}{n}") for task in "ab"
            ]
            if chance.random() < 0.7:
                for i, message in enumerate(new):
                    message.id = f"{n}-{i}"
            values = {"messages": [*held], "files": files, "sent": new}
            storing.append(pool.submit(put, saver, at(n + 1), values, parent=at(n)))
            [stored.result() for stored in storing]
            states[at(n)] = states.get(at(n), {}) | {"writes": (before, copy.deepcopy(new), files)}
            states[at(n + 1)] = {"values": copy.deepcopy(values)}
        for opened in (saver, JsonlSaver(root)):
            for item in [*opened.list(config()), *opened.list(config())]:
                state = states[item.checkpoint["id"]]
                assert item.checkpoint["channel_values"] == state.get("values", {})
                assert len(item.pending_writes or []) == (6 if "writes" in state else 0)
                for _, channel, value in item.pending_writes or []:
                    was, came, kept = state["writes"]
                    if channel == "files":
                        assert value == kept
                    elif channel == "last":
                        assert value in (was[-1], came[-1])
                    else:
                        assert all(m in pair for m, *pair in zip(value, was, came, strict=True))
        opened.close()


@pytest.mark.parametrize("shared", [True, False])
async def test_two_hundred_coroutines_lose_no_write(root: Path, shared: bool) -> None:
    """langgraph#4168: two hundred pending aput and aput_writes, on one thread id and on twenty."""
    async with JsonlSaver(root) as saver:

        async def work(number: int) -> None:
            worker, place = number % 20, number // 20
            thread = "t" if shared else f"t{worker}"
            stored = checkpoint(f"{place:04}-{worker:02}", {"x": [worker, place]})
            new, metadata = stored["channel_versions"], {"worker": worker}
            where = await saver.aput(config(thread), stored, metadata, new)
            await saver.aput_writes(where, [("x", place)], f"task-{worker}")

        await asyncio.gather(*map(work, range(200)))
    with JsonlSaver(root) as saver:
        for worker in range(1 if shared else 20):
            workers = range(20) if shared else [worker]
            expected = {(w, place) for w in workers for place in range(10)}
            _check(saver, "t" if shared else f"t{worker}", expected)


def test_a_list_that_is_read_slowly_holds_nothing_up(access: Access, root: Path) -> None:
    """langgraph#4168: LangGraph takes one item of a list and goes on; a put in between returns."""
    chain(access, 3)
    slow = access.saver.list(config())
    assert next(slow).checkpoint["id"] == at(2)
    with JsonlSaver(root) as other:
        put(other, at(3))
    put(access, at(4))
    access.put_writes(config(checkpoint_id=at(1)), [("x", 1)], "task")
    assert {at(0), at(1)} <= {*ids(slow)}
    assert ids(access.list(config())) == [at(place) for place in (4, 3, 2, 1, 0)]


def test_savers_of_one_process_see_each_others_commits(root: Path) -> None:
    """langgraph#8136: three instances take turns on one thread id; none overwrites or misses another's."""
    savers = [JsonlSaver(root) for _ in range(3)]
    for place in range(30):
        writer, reader = savers[place % 3], savers[(place + 1) % 3]
        stored = put(writer, at(place), {"x": ["shared", place]}, parent=at(place - 1) if place else None)
        writer.put_writes(stored, [("x", place)], "task")
        found = reader.get_tuple(config())
        assert found.checkpoint["channel_values"] == {"x": ["shared", place]}
        assert found.pending_writes == [("task", "x", place)]
    for saver in savers:
        assert ids(saver.list(config())) == [at(place) for place in reversed(range(30))]
        saver.close()
    records(savers[0].path("t"))


def test_an_allowlisted_copy_shares_the_store(root: Path) -> None:
    """langgraph#4168: `with_allowlist` copies the saver; what one stores the other reads."""
    with JsonlSaver(root) as saver:
        twin = saver.with_allowlist([("builtins", "frozenset")])
        with ThreadPoolExecutor(2) as pool:
            turns = [pool.submit(_turn, [saver, twin][n % 2], n % 2, n, "t") for n in range(40)]
            [turn.result() for turn in turns]
        expected = {(n % 2, n) for n in range(40)}
        _check(saver, "t", expected)
        _check(twin, "t", expected)


def _values() -> dict[str, Any]:
    return {
        "messages": [
            HumanMessage("hi", id="h", additional_kwargs={"deep": {"list": [1]}}),
            AIMessage("", id="a", tool_calls=[call("f", "c1", path="x", nested={"k": ["v"]})]),
        ],
        "files": {"a.txt": "alpha " * 60, "b.txt": {"lines": ["1", "2"]}},
        "items": [{"n": 1}, [2, 3], {4}],
    }


def _spoil(values: dict[str, Any]) -> None:
    human, ai = values["messages"][0], values["messages"][1]
    human.content = "changed"
    human.additional_kwargs["deep"]["list"].append("changed")
    ai.tool_calls[0]["args"]["nested"]["k"][0] = "changed"
    values["messages"].append(AIMessage("more", id="m"))
    values["files"]["b.txt"]["lines"].clear()
    values["files"]["new"] = "file"
    values["items"][0]["n"] = "changed"
    values["items"][1].reverse()
    values["items"][2].add("changed")


def test_what_is_stored_is_what_it_was_at_the_call(access: Access) -> None:
    """langgraph#8748: the caller changes everything in place right after `put` and `put_writes` return."""
    values, metadata = _values(), {"step": 1, "parents": {"a": "b"}, "tags": ["x"]}
    stored, where = checkpoint(at(0), values), config()
    new_versions = stored["channel_versions"].copy()
    access.put(where, stored, metadata, new_versions)
    writes = [("items", _values())]
    access.put_writes(config(checkpoint_id=at(0)), writes, "task")
    _spoil(values)
    _spoil(writes[0][1])
    writes.append(("items", "more"))
    metadata["tags"].append("y")
    metadata["parents"].clear()
    where["configurable"]["thread_id"] = "other"
    stored["channel_versions"].clear()
    new_versions.clear()

    found = access.get_tuple(config())
    assert found.checkpoint["channel_values"] == _values()
    assert found.checkpoint["channel_versions"].keys() == _values().keys()
    assert found.pending_writes == [("task", "items", _values())]
    assert (found.metadata["tags"], found.metadata["parents"]) == (["x"], {"a": "b"})
    assert access.get_tuple(config("other")) is None


def test_a_value_changed_in_place_is_stored_anew(access: Access) -> None:
    """langgraph#8748: the same objects in the next checkpoint, changed; each checkpoint has its own."""
    values = _values()
    put(access, at(0), values)
    _spoil(values)
    expected = copy.deepcopy(values)
    put(access, at(1), values, parent=at(0))
    values["messages"][0].content = "changed again"
    access.put_writes(config(checkpoint_id=at(1)), [("messages", values["messages"][:1])], "task")
    assert access.get_tuple(config(checkpoint_id=at(0))).checkpoint["channel_values"] == _values()
    newest = access.get_tuple(config(checkpoint_id=at(1)))
    assert newest.checkpoint["channel_values"] == expected
    assert [message.content for message in newest.pending_writes[0][2]] == ["changed again"]


@pytest.mark.parametrize("method", ["aput", "aput_writes"])
async def test_a_value_changed_while_its_save_is_pending_is_whole(root: Path, method: str) -> None:
    """langgraph#8748: the call has begun, so what is stored is what it was when the call was made."""
    async with JsonlSaver(root) as saver:
        await asyncio.to_thread(chain, saver, 1)
        values = _values()
        stored = checkpoint(at(1), values)
        if method == "aput":
            pending = asyncio.create_task(saver.aput(config(), stored, {}, stored["channel_versions"]))
        else:
            pending = asyncio.create_task(saver.aput_writes(config(checkpoint_id=at(0)), [("items", values)], "task"))
        # One turn of the loop runs the task up to its first await.
        await asyncio.sleep(0)
        _spoil(values)
        await pending
    with JsonlSaver(root) as saver:
        found = saver.get_tuple(config())
        got = found.checkpoint["channel_values"] if method == "aput" else found.pending_writes[0][2]
    assert got == _values()


def test_what_a_read_returned_is_the_callers_own(access: Access) -> None:
    """MemorySaverAssertImmutable: changing it changes no later read and nothing that is stored later."""
    put(access, at(0), _values(), tags=["x"])
    access.put_writes(config(checkpoint_id=at(0)), [("items", _values())], "task")
    for _ in range(2):
        for found in (access.get_tuple(config()), *access.list(config())):
            _spoil(found.checkpoint["channel_values"])
            _spoil(found.pending_writes[0][2])
            found.metadata["tags"].append("y")
            found.checkpoint["channel_versions"].clear()
            found.config["configurable"]["thread_id"] = "other"
    history = access.get_delta_channel_history(
        config=put(access, at(1), {}, parent=at(0)), channels=["messages", "items"]
    )
    _spoil(history["items"]["writes"][0][2])
    history["messages"]["seed"].clear()
    found = access.get_tuple(config(checkpoint_id=at(0)))
    assert found.checkpoint["channel_values"] == _values()
    assert found.checkpoint["channel_versions"].keys() == _values().keys()
    assert found.pending_writes == [("task", "items", _values())]
    assert found.metadata["tags"] == ["x"]


def test_a_graph_whose_nodes_change_their_state_in_place_is_stored_as_it_ran(access: Access) -> None:
    """MemorySaverAssertImmutable: a stored checkpoint reads back the same until the end of the thread."""

    def node(state: dict[str, Any]) -> dict[str, Any]:
        state["plain"].append("scribble")
        return both(len(state["delta"]))

    graph = access.graph(parallel(TwinState, ("a", node), ("b", node)))
    seen: dict[str, Any] = {}
    for turn in range(3):
        graph.invoke(both(f"in-{turn}"), config())
        for found in access.list(config()):
            values = found.checkpoint["channel_values"]
            assert seen.setdefault(found.checkpoint["id"], values) == values
    assert graph.get_state(config()).values["delta"] == ["in-0", 1, 1, "in-1", 4, 4, "in-2", 7, 7]


def test_a_write_that_comes_while_another_thread_reads_is_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader goes through a checkpoint's writes without the lock: what a task stores meanwhile is read later."""
    with JsonlSaver(root) as saver:
        where = put(saver, at(0), {"x": 1})
        for number in range(3):
            saver.put_writes(where, [("x", number)], f"task-{number}")
    parsed, late = Checkpoints._parsed, threading.Thread(target=lambda: saver.put_writes(where, [("x", 3)], "task-3"))

    def slow(self: Checkpoints, seq: int, cls: type[Any]) -> Any:
        if cls is Writes and late.ident is None and threading.current_thread() is threading.main_thread():
            late.start()
            late.join()
        return parsed(self, seq, cls)

    monkeypatch.setattr(Checkpoints, "_parsed", slow)
    with JsonlSaver(root) as saver:
        for _ in range(3):
            found = saver.get_tuple(where)
        assert late.ident is not None
        assert found is not None
        assert [task for task, _, _ in found.pending_writes or ()] == [f"task-{number}" for number in range(4)]
