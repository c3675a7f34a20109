"""A saver as its callers meet it: sync, async, or newly opened for each call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langgraph.graph import StateGraph

Way = Literal["sync", "async", "reopened"]


class Access:
    """Calls a saver's methods, or a graph's, in one of three ways.

    `reopened` closes the saver before each call and opens another one on the same folder: nothing that a
    later call needs may live only in memory.
    """

    def __init__(self, root: Path, way: Way) -> None:
        self.root = root
        self.way = way
        self.saver = JsonlSaver(root)
        self._runner = asyncio.Runner() if way == "async" else None

    def reopen(self) -> JsonlSaver:
        """Close the saver and open another one on the same folder."""
        self.saver.close()
        self.saver = JsonlSaver(self.root)
        return self.saver

    def close(self) -> None:
        """Close the saver, and the event loop if there is one."""
        self.saver.close()
        if self._runner is not None:
            self._runner.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The saver's own method of that name, called in this way."""
        return lambda *args, **kwargs: self._call(lambda: self.saver, name, args, kwargs)

    def graph(self, builder: StateGraph, **options: Any) -> Graph:
        """A graph over this saver, compiled anew for each call."""
        return Graph(self, builder, options)

    def _call(self, target: Callable[[], Any], name: str, args: tuple, kwargs: dict) -> Any:
        if self.way == "reopened":
            self.reopen()
        if self._runner is None:
            answer = getattr(target(), name)(*args, **kwargs)
            return list(answer) if isinstance(answer, Iterator) else answer

        async def call() -> Any:
            answer = getattr(target(), f"a{name}")(*args, **kwargs)
            return [item async for item in answer] if hasattr(answer, "__aiter__") else await answer

        return self._runner.run(call())


class Graph:
    """A compiled graph's methods, called in an access's way."""

    def __init__(self, access: Access, builder: StateGraph, options: dict[str, Any]) -> None:
        self._access = access
        self._compile = lambda: builder.compile(checkpointer=access.saver, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The graph's method of that name, `ainvoke` for `invoke` where the way is async."""
        return lambda *args, **kwargs: self._access._call(self._compile, name, args, kwargs)


@pytest.fixture(params=["sync", "async", "reopened"])
def access(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Access]:
    """A saver over an empty directory, in each of the three ways."""
    access = Access(tmp_path / "sessions", request.param)
    yield access
    access.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder that the tests' savers share."""
    return tmp_path / "sessions"
