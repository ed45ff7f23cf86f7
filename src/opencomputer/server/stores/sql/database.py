"""One connection pool, two kinds of transactions, and migrations. SQLite now; the URL decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy import event
from sqlalchemy.exc import TimeoutError as TimedOut
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from opencomputer.server.contracts.stores import DatabaseUnusable
from opencomputer.server.domain.errors import NotReady
from opencomputer.server.stores.sql.upgrading import Upgrade, cause, prepare_upgrade

_Query = sa.Select[*tuple[Any, ...]] | sa.CompoundSelect[*tuple[Any, ...]]
_T = TypeVar("_T")
_MIGRATIONS = Path(__file__).parent / "migrations"


class Database:
    """Owns the engine. `open` migrates to the newest schema; `close` returns every connection.

    Transactions raise NotReady when none of the connections becomes free in time.
    """

    def __init__(self, url: str, *, file: Path | None = None, patience_seconds: float = 30) -> None:
        """`file` is where a database is that one can copy as it is, before it is changed."""
        self._file = file
        # Errors would say which values a statement had, and some values are secrets.
        self._engine = create_async_engine(
            url, pool_size=8, max_overflow=0, pool_timeout=patience_seconds, hide_parameters=True
        )
        self._is_sqlite = self._engine.dialect.name == "sqlite"
        self._turn = asyncio.Lock()
        if self._is_sqlite:
            event.listen(self._engine.sync_engine, "connect", _configure_sqlite)
            event.listen(self._engine.sync_engine, "begin", _begin_sqlite)

    @classmethod
    def sqlite(cls, path: Path, *, patience_seconds: float = 30) -> Database:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        return cls(f"sqlite+aiosqlite:///{path}", file=path, patience_seconds=patience_seconds)

    async def open(self) -> None:
        """Raises DatabaseUnusable: then it is as it was."""
        before = await asyncio.to_thread(self._prepare) if self._file is not None else None
        try:
            async with self.write() as connection:
                await connection.run_sync(_upgrade)
        except Exception as error:
            if before is None:
                raise
            raise DatabaseUnusable(
                f"{self._file} cannot be brought from version {before.schema} to version {before.newest}, "
                f"and was left as it was (there is a copy of it at {before.copy}, too): {cause(error)}"
            ) from error

    def _prepare(self) -> Upgrade | None:
        assert self._file is not None
        return prepare_upgrade(self._file)

    async def close(self) -> None:
        await self._engine.dispose()

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncConnection]:
        async with self._transaction() as connection:
            yield connection

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[AsyncConnection]:
        """A transaction that takes the write lock at once, so that it cannot fail half-way for the lock."""
        if not self._is_sqlite:
            async with self._transaction() as connection:
                yield connection
            return
        # SQLite has one writer at a time, and who finds it busy sleeps, up to a tenth of a second at once.
        # In turn, nobody of this process ever does.
        async with self._turn, self._transaction(takes_write_lock=True) as connection:
            yield connection

    @asynccontextmanager
    async def _transaction(self, **options: bool) -> AsyncGenerator[AsyncConnection]:
        connection = await self._connected()
        try:
            if options:
                await connection.execution_options(**options)
            transaction = connection.begin()
            await to_its_end(transaction.start())
            yield connection
            await to_its_end(transaction.commit())
        finally:
            # What was not committed is rolled back.
            await to_its_end(connection.close())

    async def _connected(self) -> _Connection:
        connection = _Connection(self._engine)
        start = asyncio.ensure_future(connection.start())
        try:
            await to_its_end(start)
        except TimedOut as error:
            raise NotReady("the database has more to do than it can; try again soon") from error
        except asyncio.CancelledError:
            if not start.cancelled() and start.exception() is None:
                await to_its_end(connection.close())
            raise
        return connection

    async def rows(self, query: _Query) -> Sequence[sa.Row[Any]]:
        """The answer to one query."""
        async with self.read() as connection:
            return (await connection.execute(query)).all()

    async def first(self, query: _Query) -> sa.Row[Any] | None:
        async with self.read() as connection:
            return (await connection.execute(query)).first()

    async def run(self, statement: sa.Insert | sa.Update | sa.Delete) -> int:
        """One statement, in a transaction of its own: how many rows it wrote."""
        async with self.write() as connection:
            return (await connection.execute(statement)).rowcount


class _Connection(AsyncConnection):
    """Whoever is cancelled waits for the statement that runs.

    SQLite's runs in a thread and goes on: a connection that is given up meanwhile can keep its lock for good.
    """

    async def execute(self, *args: Any, **named: Any) -> Any:
        return await to_its_end(super().execute(*args, **named))

    async def run_sync(self, *args: Any, **named: Any) -> Any:
        return await to_its_end(super().run_sync(*args, **named))


async def to_its_end(work: Awaitable[_T]) -> _T:
    """Wait for work, however often cancelled meanwhile: that comes after it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()
        raise cancelled
    return task.result()


def _configure_sqlite(connection: Any, _record: object) -> None:
    # The driver must not open transactions by itself: _begin_sqlite chooses their kind.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    # In WAL mode NORMAL loses nothing when a process dies; only a power cut may drop the last commits.
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA busy_timeout=10000")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("takes_write_lock", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _upgrade(connection: sa.Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
