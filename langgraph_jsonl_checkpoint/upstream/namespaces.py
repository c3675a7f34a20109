"""The namespaces of checkpoints: one `graph:task id` for each subgraph around, from the outermost on, joined by `|`.

Read in langgraph 1.2 (`langgraph._internal._constants`, `langgraph.pregel._algo`).
"""

from __future__ import annotations

import re


def parent(ns: str) -> str:
    """The namespace of the checkpoint whose task runs in `ns` (`agent:1|tools:2`)."""
    return ns.rpartition("|")[0]


def graph_around(ns: str) -> str:
    """The namespace of the graph whose task runs a subgraph; a task's second one has a number behind its task's."""
    around, _, last = ns.rpartition("|")
    return parent(around) if last.isdigit() else around


def is_within(ns: str, around: str) -> bool:
    """Whether a namespace is `around`, or one below it."""
    return not around or ns == around or ns.startswith(f"{around}|")


def is_of_task(ns: str) -> bool:
    """Whether a namespace belongs to one call of a subgraph (`name:task id`), not to a stateful subgraph."""
    return ":" in ns


def graph_of(ns: str) -> str:
    """The subgraph whose call a namespace is of."""
    return re.sub(r":[^|]*", "", ns)


def task_of(ns: str) -> str:
    """The task that runs in `ns`."""
    return ns.rpartition("|")[2].rpartition(":")[2]
