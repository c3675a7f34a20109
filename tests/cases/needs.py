"""What some cases need of LangGraph: older versions fail them with any saver, so InMemorySaver is asked."""

from __future__ import annotations

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from cases.graphs import TwinState, both, config, is_twin, parallel, sequence


def _forks_a_delta_channel() -> bool:
    nodes = ((name, lambda _, name=name: both(name)) for name in "ab")
    graph = sequence(TwinState, *nodes).compile(checkpointer=InMemorySaver())
    graph.invoke(both("in"), config())
    (old,) = [step.config for step in graph.get_state_history(config()) if step.next == ("b",)]
    graph.invoke(None, old)
    return is_twin(graph.get_state(config()).values)


def _forgets_answered_interrupts() -> bool:
    nodes = ((name, lambda _, name=name: both(interrupt(name))) for name in "ab")
    graph = parallel(TwinState, *nodes).compile(checkpointer=InMemorySaver())
    graph.invoke(both(), config())
    asked = {each.value: each.id for each in graph.get_state(config()).interrupts}
    graph.invoke(Command(resume={asked["a"]: "yes"}), config())
    return [each.value for each in graph.get_state(config()).interrupts] == ["b"]


def _keeps_the_order_of_writes_at_exit() -> bool:
    nodes = ((name, lambda _, name=name: both(name)) for name in "abcdefgh")
    graph = parallel(TwinState, *nodes).compile(checkpointer=InMemorySaver())
    graph.invoke(both(), config(), durability="exit")
    return is_twin(graph.get_state(config()).values)


delta_forks = pytest.mark.skipif(
    not _forks_a_delta_channel(), reason="this LangGraph (before 1.2.13) mixes the branches of a DeltaChannel"
)
open_interrupts = pytest.mark.skipif(
    not _forgets_answered_interrupts(), reason="this LangGraph (before 1.2.13) lists answered interrupts as open"
)
order_at_exit = pytest.mark.skipif(
    not _keeps_the_order_of_writes_at_exit(), reason="this LangGraph (before 1.2.15) shuffles a DeltaChannel at exit"
)
