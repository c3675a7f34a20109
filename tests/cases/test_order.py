"""Order: of parallel writes, of ids, of parents; and which checkpoint is the newest."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from cases.graphs import (
    ChatState,
    TwinState,
    at,
    both,
    chain,
    config,
    ids,
    is_twin,
    parallel,
    put,
    sequence,
)

if TYPE_CHECKING:
    from cases.conftest import Access

EIGHT = [*"abcdefgh"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_parallel_appends_to_a_delta_channel_keep_the_order_of_the_run(access: Access, durability: str) -> None:
    """langgraph#8382: the reopened state is what `invoke` returned, and a second run goes on from it."""
    graph = access.graph(parallel(TwinState, *((name, lambda _, name=name: both(name)) for name in EIGHT)))
    first = graph.invoke(both(), config(), durability=durability)
    assert first["delta"] == EIGHT
    access.reopen()
    assert graph.get_state(config()).values == first

    second = graph.invoke(both(), config(), durability=durability)
    access.reopen()
    assert second["delta"] == EIGHT + EIGHT
    assert graph.get_state(config()).values == second
    for step in graph.get_state_history(config()):
        assert is_twin(step.values)
        assert step.values.get("delta", []) == (EIGHT + EIGHT)[: len(step.values.get("delta", []))]


def test_a_send_fan_out_keeps_the_order_of_its_sends(access: Access) -> None:
    """langgraph#8382: twelve sends, so that the order is not that of the digits in their paths."""
    names = [f"send-{i}" for i in range(12)]
    builder = StateGraph(TwinState)
    builder.add_node("worker", both)
    builder.add_conditional_edges(START, lambda _: [Send("worker", name) for name in names], ["worker"])
    graph = access.graph(builder)
    live = graph.invoke(both(), config())
    access.reopen()
    assert graph.get_state(config()).values == live
    assert is_twin(live)


@pytest.mark.parametrize("ns", ["", "child", "a:1|b:2"])
def test_writes_come_back_by_task_path_task_and_index_however_they_arrived(access: Access, ns: str) -> None:
    """langgraph#8382: a task id is a hash and says nothing about the order; the path does."""
    tasks = [
        ("~__pregel_pull, a", "f0"),
        ("~__pregel_pull, b", "a0"),
        ("~__pregel_pull, c", "c0"),
        ("", "b0"),
    ]
    expected = [(task, "items", [f"{task}-{i}"]) for _, task in sorted(tasks) for i in range(2)]
    for number, order in enumerate(itertools.permutations(tasks)):
        thread = f"order-{number}"
        parent = put(access, at(1), thread_id=thread, ns=ns)
        for path, task in order:
            access.put_writes(parent, [("items", [f"{task}-{i}"]) for i in range(2)], task, path)
        child = put(access, at(2), thread_id=thread, ns=ns, parent=at(1))
        assert access.get_tuple(parent).pending_writes == expected
        history = access.get_delta_channel_history(config=child, channels=["items"])
        assert history["items"]["writes"] == expected


def test_a_channel_that_a_step_does_not_touch_is_in_every_later_step(access: Access) -> None:
    """langgraphjs#2334: node b writes elsewhere; the messages are in each step of the history."""

    class State(ChatState):
        files: dict
        note: str

    graph = access.graph(
        sequence(
            State,
            ("a", lambda _: {"messages": [AIMessage("hello", id="ai")], "files": {"x": "1"}}),
            ("b", lambda _: {"note": "b"}),
            ("c", lambda _: {"note": "c"}),
        )
    )
    graph.invoke({"messages": [HumanMessage("hi", id="human")]}, config())
    graph.update_state(config(), {"note": "by hand"})
    access.reopen()
    steps = {step.metadata["step"]: step.values for step in graph.get_state_history(config())}
    assert sorted(steps) == [-1, 0, 1, 2, 3, 4]
    assert [message.id for message in steps[0]["messages"]] == ["human"]
    for step in (1, 2, 3, 4):
        assert [message.id for message in steps[step]["messages"]] == ["human", "ai"]
        assert steps[step]["files"] == {"x": "1"}


@pytest.mark.parametrize("ns", ["", "child:1|inner:2"])
def test_writes_that_came_before_their_checkpoint_outlive_it_being_put_twice(access: Access, ns: str) -> None:
    """langgraphjs#1996: put_writes(id), put(id), put(id) again."""
    access.put_writes(config(ns=ns, checkpoint_id=at(1)), [("items", 1), ("__interrupt__", ["ask"])], "task")
    for value in ("first", "second"):
        put(access, at(1), {"items": value}, ns=ns, run=value)
        found = access.get_tuple(config(ns=ns))
        assert found.checkpoint["channel_values"] == {"items": value}
        assert found.metadata["run"] == value
        # An interrupt's index is -3: it sorts before an ordinary write.
        assert found.pending_writes == [("task", "__interrupt__", ["ask"]), ("task", "items", 1)]


def test_an_interrupt_shows_after_its_checkpoint_was_put_again(access: Access) -> None:
    """langgraphjs#1996: the interrupt is still in `get_state().tasks`, and it can be answered."""
    graph = access.graph(sequence(TwinState, ("ask", lambda _: both(interrupt("sure?")))))
    graph.invoke(both("in"), config())
    found = access.get_tuple(config())
    for _ in range(2):
        access.put(found.parent_config, found.checkpoint, found.metadata, {})
    (task,) = graph.get_state(config()).tasks
    assert [asked.value for asked in task.interrupts] == ["sure?"]
    assert graph.invoke(Command(resume="yes"), config())["plain"] == ["in", "yes"]


def test_an_older_checkpoint_put_again_keeps_its_place(access: Access) -> None:
    """langgraphjs#1996: content and parent are replaced, but the newest stays the newest."""
    chain(access, 3)
    put(access, at(1), {"n": "again"}, parent=None, run="again")
    assert ids(access.list(config())) == [at(2), at(1), at(0)]
    assert access.get_tuple(config()).checkpoint["id"] == at(2)
    again = access.get_tuple(config(checkpoint_id=at(1)))
    assert again.checkpoint["channel_values"] == {"n": "again"}
    assert again.parent_config is None
    assert access.get_tuple(config(checkpoint_id=at(2))).checkpoint["channel_values"] == {"n": 2}


@pytest.mark.parametrize("other", ["other", "ask:1", "other:1|inner:2"])
def test_a_put_in_another_namespace_does_not_lose_an_interrupt(access: Access, other: str) -> None:
    """redis#133, langgraph#6393: an interrupt, a newer checkpoint in another namespace, then the resume."""
    graph = access.graph(sequence(TwinState, ("ask", lambda _: both(interrupt("sure?")))))
    graph.invoke(both("in"), config())
    put(access, "ffffffff-0000-6000-8000-000000000000", {"plain": ["elsewhere"]}, ns=other)
    access.put_writes(config(ns=other, checkpoint_id="ffffffff-0000-6000-8000-000000000000"), [("x", 1)], "t")
    access.reopen()
    assert graph.get_state(config()).interrupts
    assert graph.invoke(Command(resume="yes"), config()) == both("in", "yes")


def test_an_interrupt_in_a_subgraph_survives_puts_around_it(access: Access) -> None:
    """redis#133: the interrupted namespace is not the root, and not the one that was written last."""
    inner = sequence(TwinState, ("ask", lambda _: both(interrupt("inner?")))).compile()
    graph = access.graph(sequence(TwinState, ("sub", inner)))
    graph.invoke(both("in"), config())
    for ns in ("zz", "sub"):
        put(access, "ffffffff-0000-6000-8000-000000000000", {"plain": ["elsewhere"]}, ns=ns)
    assert graph.invoke(Command(resume="yes"), config())["plain"][-1] == "yes"


@pytest.mark.parametrize("seed", range(4))
def test_the_newest_is_the_greatest_id_not_the_one_put_last(access: Access, seed: int) -> None:
    """langgraph#6869, redis#106: ids put out of order; lists are descending by id."""
    places = [*range(8)]
    random.Random(seed).shuffle(places)
    for count, place in enumerate(places, 1):
        put(access, at(place), {"n": place})
        seen = sorted((at(p) for p in places[:count]), reverse=True)
        assert access.get_tuple(config()).checkpoint["channel_values"] == {"n": max(places[:count])}
        assert ids(access.list(config())) == seen
    assert ids(access.list(config(), limit=3)) == [at(7), at(6), at(5)]
    assert ids(access.list(config(), before=config(checkpoint_id=at(4)), limit=2)) == [at(3), at(2)]
    assert ids(access.list(config(), before=config(checkpoint_id="1f0cd5c8-0003-7"))) == [
        at(place) for place in (3, 2, 1, 0)
    ]


def test_ids_are_compared_as_text(access: Access) -> None:
    """redis#106: an id is a name; `9` is greater than `10`, and nothing is a number or a time."""
    for checkpoint_id in ("10", "9", "Z", "a", "é", "1e3"):
        put(access, checkpoint_id, {"n": checkpoint_id})
    assert ids(access.list(config())) == ["é", "a", "Z", "9", "1e3", "10"]
    assert access.get_tuple(config()).checkpoint["id"] == "é"


def test_namespaces_have_a_newest_each(access: Access) -> None:
    """redis#106: each of three namespaces answers for itself, a list without one for all."""
    for place in (5, 1, 4, 0, 3, 2):
        put(access, at(place), {"n": place}, ns=["", "a", "a:1|b:2"][place % 3])
    assert [access.get_tuple(config(ns=ns)).checkpoint["id"] for ns in ("", "a", "a:1|b:2")] == [
        at(3),
        at(4),
        at(5),
    ]
    assert ids(access.list(config(ns="a"))) == [at(4), at(1)]
    assert ids(access.list(config(ns=None))) == [at(place) for place in (5, 4, 3, 2, 1, 0)]


def test_a_list_of_all_threads_is_descending_by_id(access: Access) -> None:
    """redis#106: threads that take turns, one that waits, and ids that are no times."""
    made = []
    for turn in range(6):
        for thread in ("a", "b", "c") if turn in (0, 5) else ("a", "b"):
            made.append((str(uuid6()), thread))
            put(access, made[-1][0], {"n": turn}, thread_id=thread, turn=turn)
    for number, name in enumerate(("0001", "not a time", "zz")):
        made.append((name, f"named-{number}"))
        put(access, name, {"n": name}, thread_id=f"named-{number}")
    made.sort(reverse=True)
    # Ids that tell no time stand after those that do, or where their text puts them.
    timed = [(name, thread) for name, thread in made if not thread.startswith("named")]
    for limit in (None, 5, 1):
        found = access.list(None, limit=limit)
        named = [(item.checkpoint["id"], item.config["configurable"]["thread_id"]) for item in found]
        assert [row for row in named if row in timed] == timed[: len([row for row in named if row in timed])]
        assert len(named) == (len(made) if limit is None else limit)
    assert ids(access.list(None, filter={"turn": 5})) == [name for name, _ in timed[:3]]
    before = config(checkpoint_id=timed[3][0])
    assert ids(access.list(None, filter={"turn": 4}, before=before, limit=1)) == [timed[4][0]]


def _write(access: Access, *places: int) -> None:
    for place in places:
        access.put_writes(config(checkpoint_id=at(place)), [("items", [place])], f"task-{place}")


def _delta(access: Access, place: int) -> dict[str, Any]:
    return access.get_delta_channel_history(config=config(checkpoint_id=at(place)), channels=["items"])["items"]


def test_the_delta_walk_follows_parents_where_ids_descend(access: Access) -> None:
    """SqliteSaver's own test: ids from different processes are not monotonic."""
    for parent, place in itertools.pairwise([None, 9, 8, 7, 3]):
        put(access, at(place), {"items": ["seed"]} if place == 9 else {}, parent=parent and at(parent))
    _write(access, 3, 7, 8, 9)
    assert _delta(access, 3) == {
        "seed": ["seed"],
        "writes": [(f"task-{place}", "items", [place]) for place in (9, 8, 7)],
    }
    assert _delta(access, 8) == {"seed": ["seed"], "writes": [("task-9", "items", [9])]}


def test_the_delta_walk_ends_in_a_cycle_of_parents(access: Access) -> None:
    """SqliteSaver's own test: an id put again under a descendant closes a loop; each counts once."""
    for parent, place in [(None, 1), (1, 2), (2, 3), (3, 1)]:
        put(access, at(place), parent=parent and at(parent))
    _write(access, 1, 2, 3)
    assert _delta(access, 3)["writes"] == [("task-1", "items", [1]), ("task-2", "items", [2])]
    put(access, at(4), parent=at(4))
    assert _delta(access, 4) == {"writes": []}
    access.prune(["t"])
    assert set(ids(access.list(config()))) >= {at(4)}
