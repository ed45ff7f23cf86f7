"""What SQLite itself has to hold: schema, transactions, several processes, a process that dies."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import traceback
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from opencomputer.server.domain.errors import Conflict, NotReady
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.tables import machines, metadata
from opencomputer.wire.ids import SandboxId
from tests.support import rows
from tests.unit.server.stores.conftest import sql_stores

pytestmark = pytest.mark.anyio

_WRITER = """
import asyncio, sys
from pathlib import Path
from opencomputer.server.stores.sql.database import Database
from tests.support import rows
from tests.unit.server.stores.conftest import sql_stores

async def main():
    database = Database.sqlite(Path(sys.argv[1]))
    await database.open()
    stores = sql_stores(database)
    for _ in range(int(sys.argv[3])):
        try:
            await stores.sandboxes.add(rows.sandbox(sys.argv[2]), concurrency_limit=int(sys.argv[4]))
        except Exception as error:
            print(type(error).__name__)
        else:
            print("added", flush=True)
    await database.close()

asyncio.run(main())
"""


async def test_the_migrations_make_exactly_the_tables(database: Database) -> None:
    def differences(connection: sa.Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, metadata))

    async with database.read() as connection:
        assert await connection.run_sync(differences) == []


async def test_opening_again_migrates_nothing_and_keeps_everything(
    database: Database, tmp_path: Path
) -> None:
    organisation = rows.organisation()
    await sql_stores(database).organisations.add(organisation)
    again = Database.sqlite(tmp_path / "opencomputer.db")
    await again.open()
    try:
        assert await sql_stores(again).organisations.get(organisation.id) == organisation
    finally:
        await again.close()


async def test_two_may_open_a_new_database_at_once(tmp_path: Path) -> None:
    both = [Database.sqlite(tmp_path / "new.db") for _ in range(2)]
    try:
        await asyncio.gather(*(each.open() for each in both))
        assert await sql_stores(both[0]).organisations.count() == 0
    finally:
        for each in both:
            await each.close()


async def test_only_its_owner_reads_the_files(database: Database, tmp_path: Path) -> None:
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in os.listdir(tmp_path)}
    assert "opencomputer.db" in modes
    assert set(modes.values()) == {0o600}


async def test_a_failed_transaction_writes_nothing(database: Database) -> None:
    async def fail() -> None:
        async with database.write() as connection:
            await connection.execute(sa.text("insert into organisations values ('o', 'n', '2026-01-01')"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert await sql_stores(database).organisations.count() == 0


async def test_an_error_of_the_database_says_no_secret(database: Database) -> None:
    """Errors end up in logs, with the statement that failed."""
    stores = sql_stores(database)
    row = rows.checkpoint(
        await stores.new_org(), SandboxId("sb-00000001"), memory=rows.memory(guest_token="s3cret")
    )
    await stores.snapshots.add(row)
    with pytest.raises(Conflict) as refused:
        await stores.snapshots.add(row)
    assert "INSERT INTO snapshots" in str(refused.value.__cause__)
    assert "s3cret" not in "".join(traceback.format_exception(refused.value))


async def test_a_cancelled_transaction_writes_nothing_and_frees_its_connection(database: Database) -> None:
    """More of them than there are connections: none may stay behind holding the write lock."""

    async def hang() -> None:
        async with database.write() as connection:
            await connection.execute(sa.text("insert into organisations values ('o', 'n', '2026-01-01')"))
            await asyncio.Event().wait()

    for _ in range(12):
        writer = asyncio.create_task(hang())
        await asyncio.sleep(0.005)
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
    assert await sql_stores(database).organisations.count() == 0
    await sql_stores(database).organisations.add(rows.organisation())


async def test_many_readers_and_writers_get_along(database: Database) -> None:
    stores = sql_stores(database)
    org = await stores.new_org()
    made = [rows.sandbox(org) for _ in range(60)]

    async def live(row: Sandbox) -> None:
        await stores.sandboxes.add(row, concurrency_limit=None)
        await stores.sandboxes.get(org, row.id)
        await stores.sandboxes.move(row.id, SandboxState.CREATING, SandboxState.RUNNING, at=rows.NOON)
        await stores.sandboxes.list(org, [SandboxState.RUNNING], limit=10)

    await asyncio.gather(*(live(row) for row in made))
    assert len(await stores.sandboxes.in_states([SandboxState.RUNNING])) == 60


async def test_writers_take_turns_without_finding_the_database_busy(database: Database) -> None:
    """Who finds it busy sleeps far longer than a transaction lasts."""
    stores = sql_stores(database)
    async with database.write() as first:
        # More writers than connections, none of which they may hold while they wait.
        waiting = [asyncio.create_task(stores.organisations.add(rows.organisation())) for _ in range(20)]
        await asyncio.sleep(0.05)
        assert await asyncio.wait_for(stores.organisations.count(), 1) == 0
        await first.execute(sa.text("insert into organisations values ('o', 'n', '2026-01-01')"))
    await asyncio.gather(*waiting)
    assert await stores.organisations.count() == 21


async def test_several_processes_share_one_limit(database: Database, tmp_path: Path) -> None:
    """`oc orgs create` writes beside a running server; later nodes will write beside each other."""
    org = await sql_stores(database).new_org()
    arguments = [sys.executable, "-c", _WRITER, str(tmp_path / "opencomputer.db"), org, "20", "30"]
    writers = [await asyncio.create_subprocess_exec(*arguments, stdout=subprocess.PIPE) for _ in range(2)]
    outputs = [(await writer.communicate())[0].decode().split() for writer in writers]
    assert sum(output.count("added") for output in outputs) == 30
    assert sum(output.count("ConcurrencyLimit") for output in outputs) == 10
    assert len(await sql_stores(database).sandboxes.in_states([SandboxState.CREATING])) == 30


async def test_what_was_acknowledged_survives_a_killed_process(database: Database, tmp_path: Path) -> None:
    org = await sql_stores(database).new_org()
    file = tmp_path / "opencomputer.db"
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _WRITER, str(file), org, "100000", "100000"), stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    acknowledged = 0
    while acknowledged < 25:
        assert await writer.stdout.readline() == b"added\n"
        acknowledged += 1
    writer.kill()
    acknowledged += (await writer.stdout.read()).count(b"added\n")
    await writer.wait()
    kept = len(await sql_stores(database).sandboxes.in_states([SandboxState.CREATING]))
    assert acknowledged <= kept <= acknowledged + 1
    with closing(sqlite3.connect(file)) as raw:
        assert raw.execute("pragma integrity_check").fetchone() == ("ok",)


async def test_whoever_is_cancelled_keeps_no_lock(tmp_path: Path) -> None:
    """SQLite's statements run in threads, and go on when nobody waits for them any more."""
    database = Database.sqlite(tmp_path / "db")
    await database.open()
    try:
        for turns in range(60):
            task = asyncio.create_task(_one_write(database))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            async with asyncio.timeout(60):
                await _one_write(database)
    finally:
        await database.close()


async def _one_write(database: Database) -> None:
    async with database.write() as connection:
        await connection.execute(sa.text("UPDATE organisations SET name = 'x'"))
        await connection.execute(sa.text("SELECT count(*) FROM organisations"))


async def test_who_gets_no_connection_is_told_to_come_back(tmp_path: Path) -> None:
    database = Database.sqlite(tmp_path / "busy.db", patience_seconds=0.01)
    await database.open()
    async with AsyncExitStack() as held:
        for _ in range(8):
            await held.enter_async_context(database.read())
        for refused in (database.rows(sa.select(sa.literal(1))), database.run(machines.delete())):
            with pytest.raises(NotReady):
                await refused
    assert await database.rows(sa.select(sa.literal(1))) == [(1,)]
    await database.close()
