"""The savers that are compared, each as it comes, and how each is opened in a folder of its own.

PostgresSaver takes part if `POSTGRES_DSN` names a server that answers, for a user who may create databases.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import postgres
from floor import OnlyWrites, StoresNothing
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from workload import Chat, play, recorded

from langgraph_jsonl_checkpoint import JsonlSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    Open = Callable[[Path], AbstractContextManager[Any]]
    AsyncOpen = Callable[[Path], AbstractAsyncContextManager[Any]]


def jsonl(fsync: Any = "checkpoint") -> Any:
    """JsonlSaver is its own context manager, sync and async."""
    return lambda folder: JsonlSaver(folder / "sessions", fsync=fsync)


@contextlib.contextmanager
def _sqlite(folder: Path) -> Iterator[SqliteSaver]:
    """It syncs every `put` and `put_writes`."""
    with SqliteSaver.from_conn_string(str(folder / "threads.sqlite")) as saver:
        saver.setup()
        yield saver


@contextlib.asynccontextmanager
async def _async_sqlite(folder: Path) -> AsyncIterator[AsyncSqliteSaver]:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.sqlite")) as saver:
        await saver.setup()
        yield saver


@contextlib.contextmanager
def _nothing(_: Path) -> Iterator[StoresNothing]:
    yield StoresNothing()


@contextlib.asynccontextmanager
async def _async_nothing(_: Path) -> AsyncIterator[StoresNothing]:
    yield StoresNothing()


@contextlib.contextmanager
def _memory(_: Path) -> Iterator[InMemorySaver]:
    yield InMemorySaver()


@contextlib.asynccontextmanager
async def _async_memory(_: Path) -> AsyncIterator[InMemorySaver]:
    yield InMemorySaver()


LEFT_OUT = postgres.why_not()
STORED: dict[str, Open] = {"JsonlSaver": jsonl(), "SqliteSaver": _sqlite}
if not LEFT_OUT:
    STORED["PostgresSaver"] = postgres.saver
SYNC: dict[str, Open] = {**STORED, "InMemorySaver": _memory}
POLICIES: dict[str, Open] = {f'JsonlSaver, "{fsync}"': jsonl(fsync) for fsync in ("checkpoint", "always", "never")}
# What nobody could use, to compare with: the floors.
NOTHING, NOTHING_ASYNC = {"nothing stored": _nothing}, {"nothing stored": _async_nothing}
WRITTEN = {"only written": OnlyWrites}
WRITTEN_POLICIES: dict[str, Open] = {
    'only written, "checkpoint"': OnlyWrites,
    'only written, "never"': partial(OnlyWrites, syncs=False),
}
# The twins of SqliteSaver and PostgresSaver for asyncio, under the same names.
ASYNC: dict[str, AsyncOpen] = {"JsonlSaver": jsonl(), "SqliteSaver": _async_sqlite}
if not LEFT_OUT:
    ASYNC["PostgresSaver"] = postgres.async_saver
ASYNC["InMemorySaver"] = _async_memory


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A place for one saver; it and its database are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        try:
            yield Path(name)
        finally:
            if not LEFT_OUT:
                postgres.drop(Path(name))


@contextlib.contextmanager
def opened(savers: dict[str, Open]) -> Iterator[dict[str, Any]]:
    """All of them, each in a place of its own."""
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(make(stack.enter_context(folder()))) for name, make in savers.items()}


@contextlib.contextmanager
def unsynced(name: str, place: Path) -> Iterator[Any]:
    """The saver without its syncs: to fill a store whose writing is not timed."""
    with (jsonl("never") if name == "JsonlSaver" else SYNC[name])(place) as saver:
        if name == "SqliteSaver":
            saver.conn.execute("PRAGMA synchronous=OFF")
        elif name == "PostgresSaver":
            saver.conn.execute("SET synchronous_commit = off")
        yield saver


def size(saver: Any, place: Path, *, blocks: bool = False) -> int:
    """Bytes on disk of an open saver: of its files, or of the blocks that they and their folders occupy."""
    if type(saver).__name__ == "PostgresSaver":
        return postgres.size(place)
    if isinstance(saver, SqliteSaver):
        with contextlib.suppress(sqlite3.OperationalError):
            saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    paths = list(place.rglob("*"))
    if blocks:
        return sum(512 * path.stat().st_blocks for path in paths)
    return sum(path.stat().st_size for path in paths if path.is_file())


def warm() -> None:
    """Imports and pydantic's caches are nobody's time."""
    supersteps = recorded(7)
    with opened({**SYNC, **NOTHING, **WRITTEN}) as savers:
        for name, saver in savers.items():
            if name in SYNC:
                play(saver, supersteps, "played")
            Chat(saver).say()
