"""Records of previews and grants: one per port, counted, and gone with their sandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import Conflict, Gone
from opencomputer.server.domain.previews import Grant, Preview
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.previews import SqlGrantStore, SqlPreviewStore
from opencomputer.server.stores.sql.sandboxes import SqlSandboxStore
from opencomputer.wire.ids import OrgId
from tests.support import rows

pytestmark = pytest.mark.anyio

OTHER = OrgId("another organisation")


@dataclass(frozen=True)
class Kept:
    sandboxes: SqlSandboxStore
    records: SqlPreviewStore
    grants: SqlGrantStore
    sandbox: Sandbox

    def record(self, port: int = 3000) -> Preview:
        owner = self.sandbox
        return Preview(naming.new_preview_id(), owner.id, owner.org_id, port, None, rows.at(1))

    def grant(self, port: int = 3000, *, until: int = 100, made: int = 1) -> Grant:
        owner = self.sandbox
        token = naming.secret_hash(naming.new_preview_token())
        return Grant(
            naming.new_grant_id(), owner.id, owner.org_id, port, token, rows.at(made), rows.at(until)
        )

    async def stop(self) -> None:
        state = SandboxState.STOPPED
        assert await self.sandboxes.move(self.sandbox.id, self.sandbox.state, state, at=rows.at(5))


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncGenerator[Kept]:
    database = Database.sqlite(tmp_path / "opencomputer.db")
    await database.open()
    organisation = rows.organisation()
    await SqlOrganisationStore(database).add(organisation)
    sandbox = rows.sandbox(organisation.id, state=SandboxState.RUNNING)
    sandboxes = SqlSandboxStore(database)
    await sandboxes.add(sandbox, concurrency_limit=None)
    yield Kept(sandboxes, SqlPreviewStore(database), SqlGrantStore(database), sandbox)
    await database.close()


async def test_a_port_has_one_record(kept: Kept) -> None:
    first = kept.record()
    assert await kept.records.add(first) == first
    assert await kept.records.add(kept.record()) == first
    later = await kept.records.add(replace(kept.record(80), domain="apps.example.com"))
    assert list(await kept.records.list(kept.sandbox.org_id, kept.sandbox.id)) == [later, first]
    assert await kept.records.get(kept.sandbox.id, 80) == later


async def test_a_record_is_removed_once(kept: Kept) -> None:
    first = await kept.records.add(kept.record())
    assert not await kept.records.remove(kept.record())
    assert list(await kept.records.list(OTHER, kept.sandbox.id)) == []
    assert await kept.records.remove(first)
    assert not await kept.records.remove(first)


async def test_grants_are_counted_and_expired_ones_forgotten(kept: Kept) -> None:
    first, second = kept.grant(until=10), kept.grant(made=2)
    for each in (first, second):
        await kept.grants.add(each, most=2)
    with pytest.raises(Conflict):
        await kept.grants.add(kept.grant(made=9), most=2)
    await kept.grants.add(kept.grant(port=80, made=9), most=2)
    owner = (kept.sandbox.org_id, kept.sandbox.id, 3000)
    assert list(await kept.grants.list(*owner, rows.at(9))) == [first, second]
    assert list(await kept.grants.list(*owner, rows.at(10))) == [second]
    third = kept.grant(made=10)
    await kept.grants.add(third, most=2)
    assert await kept.grants.by_hash(first.token_hash) is None
    assert await kept.grants.by_hash(third.token_hash) == third
    assert not await kept.grants.remove(OTHER, kept.sandbox.id, 3000, third.id)
    assert not await kept.grants.remove(kept.sandbox.org_id, kept.sandbox.id, 80, third.id)
    assert await kept.grants.remove(*owner, third.id)


async def test_everything_ends_with_the_sandbox(kept: Kept) -> None:
    grant = kept.grant()
    await kept.records.add(kept.record())
    await kept.grants.add(grant, most=1)
    await kept.stop()
    assert await kept.records.get(kept.sandbox.id, 3000) is None
    assert await kept.grants.by_hash(grant.token_hash) is None
    with pytest.raises(Gone):
        await kept.records.add(kept.record())
    with pytest.raises(Gone):
        await kept.grants.add(kept.grant(), most=1)
