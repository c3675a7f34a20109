"""PostgresSaver and AsyncPostgresSaver: a database for each folder, on the server that `POSTGRES_DSN` names."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

DSN = os.environ.get("POSTGRES_DSN", "")


def why_not() -> str:
    """Why PostgresSaver does not take part; nothing if it does."""
    try:
        import psycopg  # noqa: PLC0415
        from langgraph.checkpoint.postgres import PostgresSaver  # noqa: F401, PLC0415
    except ImportError as error:
        return f"langgraph-checkpoint-postgres cannot be imported ({error})"
    if not DSN:
        return "POSTGRES_DSN names no server"
    try:
        with _server():
            return ""
    except psycopg.Error as error:
        return f"the server of POSTGRES_DSN does not answer ({str(error).strip().splitlines()[0]})"


def version() -> str:
    with _server() as connection:
        return f"PostgreSQL {connection.execute('SHOW server_version').fetchone()[0].split()[0]}"


def _server(database: str | None = None) -> Any:
    import psycopg  # noqa: PLC0415

    return psycopg.connect(_conninfo(database), autocommit=True)


def _conninfo(database: str | None) -> str:
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415

    return make_conninfo(DSN, dbname=database) if database else DSN


def _name(folder: Path) -> str:
    return f"bench_{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"


def _created(folder: Path) -> str:
    """The address of the folder's database, which is made once: a cold read does not pay for a look."""
    made = folder / "database"
    if not made.exists():
        with _server() as connection:
            connection.execute(f"CREATE DATABASE {_name(folder)}")
        made.touch()
    return _conninfo(_name(folder))


def drop(folder: Path) -> None:
    with _server() as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {_name(folder)} WITH (FORCE)")


def size(folder: Path) -> int:
    """Bytes of the tables with their indexes, not of the catalogue that any database has, nor of the WAL."""
    with _server(_name(folder)) as connection:
        tables = "SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables"
        return int(connection.execute(tables).fetchone()[0] or 0)


@contextlib.contextmanager
def saver(folder: Path) -> Iterator[Any]:
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415

    with PostgresSaver.from_conn_string(_created(folder)) as made:
        made.setup()
        yield made


@contextlib.asynccontextmanager
async def async_saver(folder: Path) -> AsyncIterator[Any]:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # noqa: PLC0415

    async with AsyncPostgresSaver.from_conn_string(_created(folder)) as made:
        await made.setup()
        yield made
