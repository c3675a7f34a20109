"""The task that runs: what its config and its scratchpad say, and what it is given and sends.

Read in langgraph 1.2 (`langgraph._internal._constants`, `langgraph.pregel._algo`, `langgraph.types.interrupt`).
"""

from __future__ import annotations

import itertools
import re
import traceback
from collections import deque
from typing import TYPE_CHECKING, Any

from langgraph.types import interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from langchain_core.messages import ToolMessage

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


def checkpointer(configurable: Mapping[str, Any]) -> Any:
    """The checkpointer of the running graph; None if it has none, or nothing runs."""
    return configurable.get(_CHECKPOINTER)


def is_stored_at_exit(configurable: Mapping[str, Any]) -> bool:
    """Whether a run stores its checkpoints only when it ends."""
    return configurable.get(_DURABILITY) == "exit"


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


def execution_of(configurable: Mapping[str, Any]) -> object:
    """An object that is the same for all code in one execution of a task; None if nothing runs. Weakly referable."""
    return _execution(configurable.get(_SCRATCHPAD))


def _execution(scratchpad: Any) -> object:
    return getattr(scratchpad, "get_null_resume", None)


def answers(configurable: Mapping[str, Any]) -> Answers:
    """The answers to interrupts that the running task was given."""
    if configurable.get(_RESUME_MAP):
        # Answered by their interrupts' ids: an answer without one is an earlier run's, which LangGraph gives again.
        configurable[_SCRATCHPAD].get_null_resume(True)  # noqa: FBT003 - upstream's
    return Answers(configurable[_SCRATCHPAD])


class Answers:
    """The answers of one execution of a task, which `interrupt()` gives out one by one.

    Attributes:
        key: As `execution_of` gives it.
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
        """Whether one was given to the run as a whole, even if a task has taken it since."""
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


def send_through(configurable: dict[str, Any], wrap: Callable[[Any], Any]) -> Any:
    """Let what runs with a config send its task's writes through what `wrap` makes of the function that does it."""
    configurable[_SEND] = wrapped = wrap(configurable.get(_SEND))
    return wrapped


def held_by(send: Any) -> Iterable[Any]:
    """The writes that a task holds, whose `extend` is what sends them; none if something stands around it."""
    held = getattr(send, "__self__", None)
    return list(held) if isinstance(held, deque) else ()


def is_placeholder(message: ToolMessage) -> bool:
    """Whether deepagents made this answer up, for a call that it found without one (PatchToolCallsMiddleware)."""
    return isinstance(message.content, str) and _PLACEHOLDER.match(message.content) is not None
