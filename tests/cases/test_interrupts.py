"""Interrupts and their answers, with the store reopened in between."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from cases.graphs import (
    TwinState,
    both,
    config,
    ids,
    parallel,
    sequence,
)
from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from pathlib import Path

    from cases.conftest import Access


def _asks(name: str) -> tuple[str, Any]:
    return name, lambda _: both(f"{name}: {interrupt(f'{name}?')}")


def _open(graph: Any, **options: Any) -> dict[str, str]:
    """The open interrupts: what they ask, and their ids."""
    return {asked.value: asked.id for asked in graph.get_state(config(), **options).interrupts}


@pytest.mark.parametrize("order", [*itertools.permutations("abc")], ids="".join)
def test_each_answer_reaches_its_task_whichever_comes_first(access: Access, order: tuple[str, ...]) -> None:
    """langgraph#4028, #6626: parallel interrupts, answered one by one by id, reopened in between."""
    graph = access.graph(parallel(TwinState, _asks("a"), _asks("b"), _asks("c")))
    graph.invoke(both(), config())
    for number, name in enumerate(order):
        access.reopen()
        open_ones = _open(graph)
        assert open_ones.keys() == {f"{left}?" for left in order[number:]}
        graph.invoke(Command(resume={open_ones[f"{name}?"]: f"yes {name}"}), config())
    access.reopen()
    assert graph.get_state(config()).values == both("a: yes a", "b: yes b", "c: yes c")
    assert graph.get_state(config()).next == ()


@pytest.mark.parametrize("nested", [False, True])
def test_one_map_answers_all_at_once(access: Access, nested: bool) -> None:
    """langgraph#4028: a resume map for every open interrupt, also inside subgraphs."""
    nodes = [_asks(name) for name in "abcde"]
    if nested:
        nodes = [(name, sequence(TwinState, (f"in-{name}", node)).compile()) for name, node in nodes]
    graph = access.graph(parallel(TwinState, *nodes))
    graph.invoke(both(), config())
    access.reopen()
    open_ones = _open(graph, subgraphs=True)
    assert len(set(open_ones.values())) == 5
    final = graph.invoke(Command(resume={id_: f"yes {asked}" for asked, id_ in open_ones.items()}), config())
    assert final == both(*(f"{name}: yes {name}?" for name in "abcde"))
    access.reopen()
    assert graph.get_state(config()).values == final


@pytest.mark.parametrize("answer", [False, 0, "", [], {}, {"type": "approve"}, ("a", 1), HumanMessage("yes", id="h")])
def test_an_answer_is_what_was_given(access: Access, answer: Any) -> None:
    """langgraph#6626: values that are false are answers too, and keep their type while two tasks wait."""
    graph = access.graph(parallel(TwinState, ("a", lambda _: both([interrupt("a?")])), _asks("b")))
    graph.invoke(both(), config())
    graph.invoke(Command(resume={_open(graph)["a?"]: answer}), config())
    access.reopen()
    final = graph.invoke(Command(resume={_open(graph)["b?"]: "yes"}), config())
    assert final == both([answer], "b: yes")
    assert type(final["delta"][0][0]) is type(answer)


@dataclass
class Job:
    """The argument of a Send, as people write it."""

    name: str
    note: HumanMessage


def test_a_send_fan_out_with_an_interrupt_resumes_after_reopening(access: Access) -> None:
    """redis#113, langgraph#5074: each send keeps its argument; the finished ones do not run again."""
    ran: list[str] = []

    def work(job: Job) -> dict[str, list]:
        assert type(job) is Job
        assert type(job.note) is HumanMessage
        answer = interrupt(job.name) if job.name == "job-2" else "done"
        ran.append(job.name)
        return both(f"{job.name} {job.note.content} {answer}")

    jobs = [Job(f"job-{n}", HumanMessage(f"note-{n}", id=f"n{n}")) for n in range(6)]
    builder = StateGraph(TwinState)
    builder.add_node("plan", lambda _: both("plan"))
    builder.add_node("work", work)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda _: [Send("work", job) for job in jobs], ["work"])
    graph = access.graph(builder)
    graph.invoke(both("in"), config())
    assert sorted(ran) == ["job-0", "job-1", "job-3", "job-4", "job-5"]
    access.reopen()
    assert len(graph.get_state(config()).tasks) == 6
    final = graph.invoke(Command(resume="yes"), config())
    assert ran[5:] == ["job-2"]
    expected = [f"job-{n} note-{n} {'yes' if n == 2 else 'done'}" for n in range(6)]
    assert final == both("in", "plan", *expected)
    access.reopen()
    assert graph.get_state(config()).values == final


def test_sends_wait_behind_a_static_interrupt(access: Access) -> None:
    """langgraph#5074: paused before the fan-out, reopened, and all of it runs, in its order."""
    builder = StateGraph(TwinState)
    builder.add_node("work", lambda n: both(n))  # noqa: PLW0108 - LangGraph reads the argument's name
    builder.add_conditional_edges(START, lambda _: [Send("work", n) for n in range(12)], ["work"])
    graph = access.graph(builder, interrupt_before=["work"])
    graph.invoke(both("in"), config())
    access.reopen()
    assert graph.get_state(config()).next == ("work",) * 12
    assert graph.invoke(None, config()) == both("in", *range(12))


def test_the_functional_api_resumes_with_its_stored_results(root: Path) -> None:
    """langgraph#5074: tasks that are done are not done again when the entrypoint runs from its start."""
    ran: list[int] = []

    @task
    def work(number: int) -> dict[str, int]:
        ran.append(number)
        return {"square": number * number}

    def build(saver: JsonlSaver) -> Any:
        @entrypoint(checkpointer=saver)
        def flow(numbers: list[int], *, previous: int | None = None) -> Any:
            squares = [future.result()["square"] for future in [work(n) for n in numbers]]
            factor = interrupt(squares)
            total = sum(squares) * factor + (previous or 0)
            return entrypoint.final(value=total, save=total)

        return flow

    for number, expected in enumerate([28, 56]):
        with JsonlSaver(root) as saver:
            build(saver).invoke([1, 2, 3], config())
        with JsonlSaver(root) as saver:
            assert build(saver).invoke(Command(resume=2), config()) == expected
        assert sorted(ran) == sorted([1, 2, 3] * (number + 1))


def test_two_threads_answer_two_interrupts_at_once(root: Path) -> None:
    """langgraph#4028: two thread ids, one saver, both resumed at the same time; no answer crosses over."""
    with JsonlSaver(root) as saver:
        graph = parallel(TwinState, _asks("a"), _asks("b")).compile(checkpointer=saver)
        names = [f"t{n}" for n in range(6)]
        start = threading.Barrier(len(names))

        def answer(name: str) -> None:
            graph.invoke(both(), config(name))
            start.wait(20)
            asked = graph.get_state(config(name)).interrupts
            graph.invoke(Command(resume={one.id: f"{name} {one.value}" for one in asked}), config(name))

        threads = [threading.Thread(target=answer, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for name in names:
            assert graph.get_state(config(name)).values == both(f"a: {name} a?", f"b: {name} b?")
        assert len({*ids(saver.list(None))}) == len([*saver.list(None)])
