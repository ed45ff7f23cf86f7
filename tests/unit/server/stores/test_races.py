"""Several servers write to one SQLite file, and what may happen once happens once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from opencomputer.server.domain.errors import ConcurrencyLimit, Conflict
from opencomputer.server.domain.sandbox import SandboxState
from opencomputer.server.domain.snapshot import Snapshot
from opencomputer.server.stores.sql.database import Database
from opencomputer.wire.ids import SandboxId
from tests.support import rows
from tests.unit.server.stores.conftest import Stores, sql_stores

pytestmark = pytest.mark.anyio

MINE = SandboxId("sb-00000001")
HIBERNATED, WAKING = SandboxState.HIBERNATED, SandboxState.WAKING


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncGenerator[list[Stores]]:
    """Each has connections and a queue of writers of its own, as another process has."""
    async with AsyncExitStack() as stack:
        databases = [Database.sqlite(tmp_path / "shared.db") for _ in range(3)]
        for database in databases:
            stack.push_async_callback(database.close)
            await database.open()
        yield [sql_stores(database) for database in databases]


async def test_one_of_many_gets_a_name(servers: list[Stores]) -> None:
    org = await servers[0].new_org()
    answers = await asyncio.gather(
        *(server.new_checkpoint(org, MINE, name="same") for server in servers * 3), return_exceptions=True
    )
    (kept,) = [answer for answer in answers if isinstance(answer, Snapshot)]
    assert sum(isinstance(answer, Conflict) for answer in answers) == 8
    assert list(await servers[1].snapshots.checkpoints(org, MINE)) == [kept]


async def test_one_of_many_takes_the_place_of_a_checkpoint(servers: list[Stores]) -> None:
    org = await servers[0].new_org()
    old = await servers[0].new_checkpoint(org, MINE, name="same")

    async def replace(server: Stores) -> bool:
        try:
            await server.snapshots.add(rows.checkpoint(org, MINE, name="same"), instead_of=[old.id])
        except Conflict:
            return False
        return True

    assert sum(await asyncio.gather(*(replace(server) for server in servers * 3))) == 1
    assert len(await servers[1].snapshots.checkpoints(org, MINE)) == 1


async def test_every_patch_gets_a_number_of_its_own(servers: list[Stores]) -> None:
    checkpoint = await servers[0].new_checkpoint(await servers[0].new_org(), MINE)
    added = await asyncio.gather(*(server.new_patch(checkpoint.id) for server in servers * 5))
    assert sorted(patch.sequence for patch in added) == list(range(1, 16))


async def test_patches_and_a_removal_leave_no_patch_without_its_checkpoint(servers: list[Stores]) -> None:
    checkpoint = await servers[0].new_checkpoint(await servers[0].new_org(), MINE)
    adding = [server.new_patch(checkpoint.id) for server in servers * 3]
    *_, removed = await asyncio.gather(
        *adding, servers[0].snapshots.remove(checkpoint.id), return_exceptions=True
    )
    assert removed is True
    assert list(await servers[1].patches.list(checkpoint.id)) == []


async def test_no_more_wake_and_are_made_than_the_limit_allows(servers: list[Stores]) -> None:
    org = await servers[0].new_org()
    asleep = [await servers[0].new_sandbox(org, state=HIBERNATED) for _ in range(6)]

    async def wake(server: Stores, sandbox_id: SandboxId) -> bool:
        return await server.sandboxes.move(sandbox_id, HIBERNATED, WAKING, at=rows.NOON, concurrency_limit=4)

    answers = await asyncio.gather(
        *(wake(server, row.id) for server, row in zip(servers * 2, asleep, strict=True)),
        *(server.new_sandbox(org, limit=4) for server in servers * 2),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, ConcurrencyLimit) for answer in answers) == 8
    active = await servers[1].sandboxes.in_states([WAKING, SandboxState.CREATING])
    assert len(active) == 4


async def test_one_of_many_wakes_a_sandbox(servers: list[Stores]) -> None:
    org = await servers[0].new_org()
    row = await servers[0].new_sandbox(org, state=HIBERNATED)
    won = await asyncio.gather(
        *(
            server.sandboxes.move(row.id, HIBERNATED, WAKING, at=rows.NOON, concurrency_limit=1)
            for server in servers * 3
        )
    )
    assert won.count(True) == 1
