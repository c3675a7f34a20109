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

# Only under LANGGRAPH_STRICT_MSGPACK does `compile` tell a saver the types in a graph's schemas (`with_allowlist`).
# Ours is strict without being asked, so it has to be told always. The flag is set at import, since a subgraph may be
# compiled before there is a saver.
with contextlib.suppress(ImportError):
    from langgraph._internal import _serde

    _serde.STRICT_MSGPACK_ENABLED = True  # type: ignore[attr-defined]


def hear(types: Callable[[list[Any]], None], function: Callable[[Any], None]) -> None:
    """Be told what graphs that are compiled from now on are made of: LangGraph's collector passes over some of it.

    Args:
        types: Gets their schemas, and the types of their channels.
        function: Gets the function of each `@entrypoint` and each `@task`.
    """
    with contextlib.suppress(NameError, AttributeError):
        collect = _serde.build_serde_allowlist

        @functools.wraps(collect)
        def collected(*args: Any, **options: Any) -> Any:
            channels = (options.get("channels") or {}).values()
            held = [getattr(c, name, None) for c in channels for name in ("ValueType", "UpdateType")]
            types([*(options.get("schemas") or ()), *held])
            return collect(*args, **options)

        _serde.build_serde_allowlist = collected
    with contextlib.suppress(AttributeError):
        _before(func.entrypoint, "__call__", function)
        _before(func._TaskFunction, "__init__", function)  # noqa: SLF001 - private names are this module's matter


def _before(cls: type, name: str, tell: Callable[[Any], None]) -> None:
    """Have a method of a class tell its first argument each time before it runs."""
    method = getattr(cls, name)

    @functools.wraps(method)
    def telling(self: Any, first: Any, *args: Any, **kwargs: Any) -> Any:
        tell(first)
        return method(self, first, *args, **kwargs)

    setattr(cls, name, telling)


def is_task(value: object) -> bool:
    """Whether a value is a function that `@task` was put to."""
    return isinstance(value, func._TaskFunction)  # noqa: SLF001 - as above
