"""What this package knows of LangGraph's private names, all of it: they may change under it, and then here.

Read in langgraph 1.2 (`langgraph._internal._constants`, `langgraph.pregel._algo`, `langgraph.graph.state`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import traceback
from collections import deque
from typing import TYPE_CHECKING, Any

from langgraph import func
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, TASKS, _DeltaSnapshot
from langgraph.types import Send, interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from langchain_core.messages import ToolMessage

__all__ = [
    "ERROR",
    "INTERRUPT",
    "NULL_TASK",
    "RESUME_INDEX",
    "TASKS",
    "Answers",
    "answers",
    "checkpoint_of",
    "checkpointer",
    "delta_channels",
    "delta_value",
    "end_of_run",
    "execution_of",
    "graph_of",
    "hear_of_schemas",
    "held_by",
    "index_of",
    "is_compiled",
    "is_of_state",
    "is_placeholder",
    "is_send",
    "is_stored_at_exit",
    "is_task",
    "is_within",
    "next_nodes",
    "parent_namespace",
    "run_of",
    "send_through",
    "task_namespace",
    "task_of",
]

# Under LANGGRAPH_STRICT_MSGPACK `compile` tells a saver the types in a graph's schemas (`with_allowlist`), and one
# that is not strict does nothing with them. Ours is strict without being asked, so it has to be told as well; and
# here, since a subgraph may be compiled before there is a saver.
with contextlib.suppress(ImportError):
    from langgraph._internal import _serde

    _serde.STRICT_MSGPACK_ENABLED = True  # type: ignore[attr-defined]


def hear_of_schemas(types: Callable[[list[Any]], None], function: Callable[[Any], None]) -> None:
    """Be told of what graphs that are compiled from now on are made of: the collector passes over some of it.

    Args:
        types: Gets their schemas, and the types of their channels.
        function: Gets the function of each `@entrypoint` and each `@task`.
    """
    with contextlib.suppress(NameError, AttributeError):
        collect = _serde.build_serde_allowlist

        @functools.wraps(collect)
        def collected(*args: Any, **told: Any) -> Any:
            channels = (told.get("channels") or {}).values()
            held = [getattr(c, name, None) for c in channels for name in ("ValueType", "UpdateType")]
            types([*(told.get("schemas") or ()), *held])
            return collect(*args, **told)

        _serde.build_serde_allowlist = collected
    with contextlib.suppress(AttributeError):
        _before(func.entrypoint, "__call__", function)
        _before(func._TaskFunction, "__init__", function)  # noqa: SLF001 - private names are this module's matter


def _before(cls: type, name: str, tell: Callable[[Any], None]) -> None:
    """Tell of the first argument of a class's method before it is called."""
    method = getattr(cls, name)

    @functools.wraps(method)
    def told(self: Any, first: Any, *args: Any, **kwargs: Any) -> Any:
        tell(first)
        return method(self, first, *args, **kwargs)

    setattr(cls, name, told)


def is_task(value: object) -> bool:
    """Whether a value is a function that `@task` was put to."""
    return isinstance(value, func._TaskFunction)  # noqa: SLF001 - as above


RESUME_INDEX = WRITES_IDX_MAP["__resume__"]
_BRANCH = "branch:to:"
_JOIN = "join:"
_START = "__start__"
_TRIGGERS = _BRANCH, _JOIN, _START
_DURABILITY = "__pregel_durability"
_RUNTIME = "__pregel_runtime"
_SEND = "__pregel_send"
_CHECKPOINTER = "__pregel_checkpointer"
_SCRATCHPAD = "__pregel_scratchpad"
_COUNT = "_counter"
_COUNTERS = {"interrupts": "interrupt_counter", "subgraphs": "subgraph_counter", "tasks": "call_counter"}
_RESUME_MAP = "__pregel_resume_map"
_PUSH = "__pregel_push"
_PLACEHOLDER = re.compile(
    r"Tool call .* with id .* (?:did not complete - no result|was cancelled - another message)", re.DOTALL
)
_HANDLED = "__error_source_node__"


def index_of(channel: str, index: int) -> int:
    """A write's index: special channels have one of their own, below zero."""
    return WRITES_IDX_MAP.get(channel, index)


def next_nodes(checkpoint: Mapping[str, Any]) -> list[str]:
    """The nodes that a checkpoint leads to, as far as its channels tell.

    A node runs when a channel that triggers it has a value of a version that the node has not seen. For a compiled
    StateGraph the triggers are named after the node; for nodes that ran before, `versions_seen` names them.
    """
    values, versions, seen = (checkpoint.get(k, {}) for k in ("channel_values", "channel_versions", "versions_seen"))
    found: dict[str, None] = {}
    for channel, value in values.items():
        node = _triggered(channel, value)
        if node is not None and _newer(versions.get(channel), seen.get(node, {}).get(channel)):
            found[node] = None
    for node, channels in seen.items():
        for channel, before in () if node.startswith("__") else channels.items():
            # An emptied join has a new version, too.
            is_held = channel in values and not channel.startswith(_JOIN) and not _waits(values[channel])
            if is_held and _newer(versions.get(channel), before):
                found[node] = None
    sends = values.get(TASKS)
    if isinstance(sends, list):
        found |= {send.node: None for send in sends if isinstance(send, Send)}
    return list(found)


def _triggered(channel: str, value: Any) -> str | None:
    """The node that a channel of a StateGraph with this value triggers."""
    if not channel.startswith(_TRIGGERS) or _waits(value):
        return None
    if channel.startswith(_BRANCH):
        return channel[len(_BRANCH) :]
    if channel == _START:
        return channel
    if channel.startswith(_JOIN) and isinstance(value, set):
        # join:a+b:node, ready when all of a and b are in the set
        names, _, node = channel[len(_JOIN) :].partition(":")
        return node if value == set(names.split("+")) else None
    return None


def _newer(version: Any, seen: Any) -> bool:
    if version is None:
        return False
    # Versions of one thread are of one kind; others are not LangGraph's.
    return bool(version > seen if type(version) is type(seen) and seen is not None else version != seen)


def _waits(value: Any) -> bool:
    """Whether a channel is a deferred node's that still waits: (value, whether all others have finished)."""
    return isinstance(value, tuple) and len(value) == 2 and value[1] is False  # noqa: PLR2004


def delta_channels(metadata: Mapping[str, Any]) -> list[str]:
    """The DeltaChannels of a checkpoint that have changed since their last snapshot."""
    counters = metadata.get("counters_since_delta_snapshot")
    return list(counters) if isinstance(counters, dict) else []


def delta_value(value: Any) -> Any:
    """A DeltaChannel's value, if this is a snapshot of one; else the value itself."""
    return value.value if isinstance(value, _DeltaSnapshot) else value


def is_stored_at_exit(configurable: Mapping[str, Any]) -> bool:
    """Whether a run stores its checkpoints only when it ends."""
    return configurable.get(_DURABILITY) == "exit"


def task_namespace(ns: str) -> bool:
    """Whether a namespace belongs to one call of a subgraph (`name:task id`), not to a stateful subgraph."""
    return ":" in ns


def is_compiled(checkpoint: Mapping[str, Any]) -> bool:
    """Whether a checkpoint is of a StateGraph or an entrypoint, whose channels say all that it leads to."""
    return _START in checkpoint.get("channel_versions", {})


def end_of_run(writes: list[tuple[str, Any]]) -> tuple[str | None, Any]:
    """Why a run stops, if a task's writes tell, and the error."""
    channels = dict(writes)
    if INTERRUPT in channels:
        return "interrupted", None
    # An error that a node's error handler takes comes with this marker, and the run goes on.
    if ERROR in channels and _HANDLED not in channels:
        return "failed", channels[ERROR]
    return None, None


def checkpointer(configurable: Mapping[str, Any]) -> Any:
    """The checkpointer of the running graph; None if it has none, or nothing runs."""
    return configurable.get(_CHECKPOINTER)


def is_placeholder(message: ToolMessage) -> bool:
    """Whether deepagents made this answer up, for a call that it found without one (PatchToolCallsMiddleware)."""
    return isinstance(message.content, str) and _PLACEHOLDER.match(message.content) is not None


def send_through(configurable: dict[str, Any], wrap: Callable[[Any], Any]) -> Any:
    """Let what runs with a config send its task's writes through what `wrap` makes of the function that does it."""
    configurable[_SEND] = wrapped = wrap(configurable.get(_SEND))
    return wrapped


def held_by(send: Any) -> Iterable[Any]:
    """The writes that a task holds, whose `extend` is what sends them; none if something stands around it."""
    held = getattr(send, "__self__", None)
    return list(held) if isinstance(held, deque) else ()


def is_of_state(channel: str) -> bool:
    """Whether a write to a channel is a part of the state, and not LangGraph's own about an interrupt or an error."""
    return channel not in WRITES_IDX_MAP


def run_of(configurable: Mapping[str, Any]) -> object:
    """An object that all tasks of one run share; None if there is none."""
    return getattr(configurable.get(_RUNTIME), "control", None)


def checkpoint_of(configurable: Mapping[str, Any]) -> str | None:
    """The checkpoint whose task runs; None if nothing runs."""
    info = getattr(configurable.get(_RUNTIME), "execution_info", None)
    return getattr(info, "checkpoint_id", None)


def is_send(config: Mapping[str, Any]) -> bool:
    """Whether the running task was made by a `Send`: then it has one tool call, and its siblings are other tasks."""
    path = (config.get("metadata") or {}).get("langgraph_path") or ("",)
    return bool(path[0] == _PUSH)


def answers(configurable: Mapping[str, Any]) -> Answers:
    """The answers to interrupts that the running task was given."""
    if configurable.get(_RESUME_MAP):
        # Answered by their interrupts' ids: an answer without one is an earlier run's, which LangGraph gives again.
        configurable[_SCRATCHPAD].get_null_resume(True)  # noqa: FBT003 - upstream's
    return Answers(configurable[_SCRATCHPAD])


def execution_of(configurable: Mapping[str, Any]) -> object:
    """An object that all share that runs in one execution of a task; None if nothing runs. It has weak references."""
    return _execution(configurable.get(_SCRATCHPAD))


def _execution(scratchpad: Any) -> object:
    return getattr(scratchpad, "get_null_resume", None)


class Answers:
    """The answers of one execution of a task, which `interrupt()` gives out one by one.

    Attributes:
        key: The same object for all that runs in this execution, and no other; it can be referred to weakly.
    """

    def __init__(self, scratchpad: Any) -> None:
        self._scratchpad = scratchpad
        self.key: object = _execution(scratchpad)

    def counters(self, kind: type[Any]) -> dict[str, Any]:
        """What counts in the place of LangGraph's counters (LazyAtomicCounter, in langgraph/pregel/_algo.py).

        Args:
            kind: Makes one from the counter that it stands for. It stays there, for whoever asks next.

        Returns:
            One of that kind for "interrupts", "subgraphs" and "tasks"; none for what LangGraph counts in another way.
        """
        found: dict[str, Any] = {}
        for what, name in _COUNTERS.items():
            counter: Any = getattr(self._scratchpad, name, None)
            if not hasattr(counter, _COUNT):
                continue
            count = getattr(counter, _COUNT)
            if not isinstance(count, kind):
                count = kind(count or itertools.count().__next__)
                setattr(counter, _COUNT, count)
            found[what] = count
        return found

    @property
    def stored(self) -> int:
        """How many are stored for the task; one that was given to the run as a whole comes behind them."""
        return len(self._scratchpad.resume)

    @property
    def is_given(self) -> bool:
        """Whether one was given to the run as a whole, be it that a task has taken it since."""
        return self.given is not None

    @property
    def given(self) -> Any:
        """The one that was given to the run as a whole."""
        return self._scratchpad.get_null_resume(False)  # noqa: FBT003 - upstream's

    def has_taken(self, answer: Any) -> bool:
        """Whether an answer that was given to a run as a whole is the last one that is stored for the task."""
        return bool(self.stored) and bool(self._scratchpad.resume[-1] == answer)

    def drop(self) -> bool:
        """Take the one that was given to the run as a whole, so that nobody gets it."""
        return self._scratchpad.get_null_resume(True) is not None  # noqa: FBT003 - upstream's

    def drawn(self, error: BaseException) -> int | None:
        """The number of the answer that an interrupt of this task waits for; None if it is another task's."""
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_code is interrupt.__code__ and frame.f_locals.get("scratchpad") is self._scratchpad:
                number: int = frame.f_locals["idx"]
                return number
        return None


def parent_namespace(ns: str) -> str:
    """The namespace of the checkpoint whose task runs in `ns` (`agent:1|tools:2`)."""
    return ns.rpartition("|")[0]


NULL_TASK = "00000000-0000-0000-0000-000000000000"
"""The task of an answer that is given to a run as a whole."""


def is_within(ns: str, around: str) -> bool:
    """Whether a namespace is `around`, or one below it."""
    return not around or ns == around or ns.startswith(f"{around}|")


def graph_of(ns: str) -> str:
    """The subgraph whose call a namespace is of."""
    return re.sub(r":[^|]*", "", ns)


def task_of(ns: str) -> str:
    """The task that runs in `ns`."""
    return ns.rpartition("|")[2].rpartition(":")[2]
