"""The types that a graph's schemas name, as LangGraph collects them when it compiles one.

Read in langgraph 1.2 (`langgraph._internal._serde`, `langgraph.func`).
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from langgraph import func

if TYPE_CHECKING:
    from collections.abc import Callable

# Under LANGGRAPH_STRICT_MSGPACK `compile` tells a saver the types in a graph's schemas (`with_allowlist`), and one
# that is not strict does nothing with them. Ours is strict without being asked, so it has to be told as well; and
# here, since a subgraph may be compiled before there is a saver.
with contextlib.suppress(ImportError):
    from langgraph._internal import _serde

    _serde.STRICT_MSGPACK_ENABLED = True  # type: ignore[attr-defined]


def hear(types: Callable[[list[Any]], None], function: Callable[[Any], None]) -> None:
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
