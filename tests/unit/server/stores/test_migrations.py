"""Databases of earlier versions, with data in them, become databases of this one."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from opencomputer.server.contracts.stores import DatabaseUnusable
from opencomputer.server.domain.sandbox import Sandbox, SandboxState, StopReason
from opencomputer.server.stores.sql import database as database_module
from opencomputer.server.stores.sql.copies import schema_of_file
from opencomputer.server.stores.sql.database import Database
from opencomputer.wire.ids import OrgId, SandboxId
from tests.support import rows
from tests.unit.server.stores.conftest import Stores, sql_stores

pytestmark = pytest.mark.anyio

ORG = OrgId("org-1")
_ROWS_OF_0001 = """
insert into organisations values ('org-1', 'an organisation', '2026-01-01 12:00:00.000000');
insert into api_keys values
  ('key-1', 'org-1', 'a key', 'osb_00000000', 'a hash', '2026-01-01 12:00:00.000000', null, null);
insert into sandboxes values
  ('sb-running', 'org-1', 'running', 'base', 'h1', 4096, 1, 20480, 600, '{"A": "1"}', '{}', 'label', 1, 'm1',
   '2026-01-01 12:00:00.000000', '2026-01-01 12:00:01.000000', null, null, 'idem', 'hash'),
  ('sb-lasting', 'org-1', 'running', 'base', 'h1', 4096, 1, 20480, 0, '{}', '{}', null, 1, null,
   '2026-01-01 12:00:00.000000', '2026-01-01 12:00:01.000000', null, null, null, null),
  ('sb-stopped', 'org-1', 'stopped', 'base', 'h1', 4096, 1, 20480, 600, '{}', '{}', null, 0, null,
   '2026-01-01 12:00:00.000000', '2026-01-01 12:00:01.000000', '2026-01-01 12:00:02.000000', 'crash', null,
   null);
insert into machines values
  ('m1', 'claimed', 'h1', 'memory-1', 'a token', '2026-01-01 12:00:00.000000',
   '{"driver": "gvisor", "machine_id": "m1", "state": {"pid": 12}}', 'sb-running');
"""


def write_0001(file: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{file}")
    config = Config()
    config.set_main_option("script_location", str(Path(database_module.__file__).parent / "migrations"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "0001")
    finally:
        engine.dispose()
    with closing(sqlite3.connect(file)) as raw:
        raw.executescript(_ROWS_OF_0001)


@pytest.fixture
async def migrated(tmp_path: Path) -> AsyncGenerator[Stores]:
    write_0001(tmp_path / "old.db")
    database = Database.sqlite(tmp_path / "old.db")
    try:
        await database.open()
        yield sql_stores(database)
    finally:
        await database.close()


async def found(stores: Stores, sandbox_id: str) -> Sandbox:
    sandbox = await stores.sandboxes.get(ORG, SandboxId(sandbox_id))
    assert sandbox is not None
    return sandbox


async def test_sandboxes_from_before_state_have_none(migrated: Stores) -> None:
    expected = rows.sandbox(
        ORG,
        id="sb-stopped",
        state=SandboxState.STOPPED,
        timeout_seconds=600,
        environment={},
        metadata={},
        network_enabled=False,
        started_at=rows.at(1),
        stopped_at=rows.at(2),
        stop_reason=StopReason.CRASH,
    )
    assert await found(migrated, "sb-stopped") == expected


async def test_what_ran_before_goes_on_and_becomes_due(migrated: Stores) -> None:
    """Its period starts when the server is upgraded: nobody knows when it was used last."""
    running = await found(migrated, "sb-running")
    assert running.due_at is not None
    remaining = running.due_at - datetime.now(UTC)
    assert timedelta(seconds=540) < remaining <= timedelta(seconds=600)
    expected = rows.sandbox(
        ORG,
        id="sb-running",
        state=SandboxState.RUNNING,
        timeout_seconds=600,
        metadata={},
        alias="label",
        machine_id="m1",
        started_at=rows.at(1),
        idempotency_key="idem",
        request_hash="hash",
    )
    assert replace(running, due_at=None) == expected
    assert (await found(migrated, "sb-lasting")).due_at is None
    (machine,) = await migrated.machines.list()
    assert machine.layers == ()
    assert machine.record is not None
    assert machine.record.state == {"pid": 12}


async def test_what_was_there_before_can_be_saved_and_put_to_sleep(migrated: Stores) -> None:
    checkpoint = await migrated.new_checkpoint(ORG, SandboxId("sb-running"))
    assert (await migrated.new_patch(checkpoint.id)).sequence == 1
    for before, after in (
        (SandboxState.RUNNING, SandboxState.HIBERNATING),
        (SandboxState.HIBERNATING, SandboxState.HIBERNATED),
    ):
        assert await migrated.sandboxes.move(
            SandboxId("sb-running"), before, after, at=rows.at(9), fields={"hibernation": checkpoint.id}
        )
    asleep = await found(migrated, "sb-running")
    assert (asleep.machine_id, asleep.hibernation) == (None, checkpoint.id)


def copies_in(folder: Path) -> list[tuple[str, int]]:
    """Versions and modes of those that were made before a migration."""
    return [(schema_of_file(copy), copy.stat().st_mode & 0o777) for copy in folder.glob("*.before-*.db")]


async def test_a_migration_that_fails_leaves_the_old_database(tmp_path: Path) -> None:
    """All of it happens in one transaction, so that the next attempt starts where this one did.

    There is a copy of it besides, as it was.
    """
    file = tmp_path / "old.db"
    write_0001(file)
    with closing(sqlite3.connect(file)) as raw:
        raw.execute("create table patches (in_the_way int)")
    database = Database.sqlite(file)
    try:
        with pytest.raises(DatabaseUnusable, match=r"version 0001 .*left as it was .*already exists"):
            await database.open()
        assert copies_in(tmp_path) == [("0001", 0o600)]
        with closing(sqlite3.connect(file)) as raw:
            raw.execute("drop table patches")
            raw.commit()
            assert raw.execute("select version_num from alembic_version").fetchall() == [("0001",)]
        await database.open()
        assert (await found(sql_stores(database), "sb-running")).layers == ()
    finally:
        await database.close()


async def test_a_database_of_a_newer_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "new.db"
    database = Database.sqlite(file)
    await database.open()
    await database.close()
    with closing(sqlite3.connect(file)) as raw:
        raw.execute("update alembic_version set version_num = '9999'")
        raw.commit()
    again = Database.sqlite(file)
    with pytest.raises(DatabaseUnusable, match=r"has version 9999.*a newer OpenComputer has used it"):
        await again.open()
    await again.close()
    assert schema_of_file(file) == "9999"


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "new.db").write_bytes(b"no database at all" * 1000)
    database = Database.sqlite(tmp_path / "new.db")
    with pytest.raises(DatabaseUnusable, match="cannot be read as a database"):
        await database.open()
    await database.close()


async def test_a_database_that_needs_nothing_is_not_copied(tmp_path: Path) -> None:
    for _ in range(2):
        database = Database.sqlite(tmp_path / "new.db")
        await database.open()
        await database.close()
    assert copies_in(tmp_path) == []
