from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest

from opencomputer.server.contracts.secrets import HoldingRows, SecretRows, SecretStoreRows
from opencomputer.server.contracts.stores import (
    ApiKeyStore,
    MachineStore,
    OrganisationStore,
    PatchStore,
    SandboxStore,
    SnapshotStore,
)
from opencomputer.server.contracts.usage import UsageStore
from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.domain.secrets import NOTHING_SEALED, Sealing, Secret, SecretStore
from opencomputer.server.domain.snapshot import Patch, Snapshot
from opencomputer.server.stores.sql.api_keys import SqlApiKeyStore
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.holdings import SqlHoldingRows
from opencomputer.server.stores.sql.machines import SqlMachineStore
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.patches import SqlPatchStore
from opencomputer.server.stores.sql.sandboxes import SqlSandboxStore
from opencomputer.server.stores.sql.secrets import SqlSecretRows, SqlSecretStoreRows
from opencomputer.server.stores.sql.snapshots import SqlSnapshotStore
from opencomputer.server.stores.sql.usage import SqlUsageStore
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId
from tests.support import rows
from tests.support.memory.access import MemoryApiKeys, MemoryOrganisations
from tests.support.memory.patches import MemoryPatches
from tests.support.memory.secrets import MemoryHoldingRows, MemorySecretRows, MemorySecretStoreRows
from tests.support.memory.stores import (
    MemoryMachineRows,
    MemorySandboxes,
    MemorySnapshots,
    Tables,
)
from tests.support.memory.usage import MemoryUsage


@dataclass(frozen=True)
class Stores:
    organisations: OrganisationStore
    keys: ApiKeyStore
    sandboxes: SandboxStore
    machines: MachineStore
    snapshots: SnapshotStore
    patches: PatchStore
    secret_stores: SecretStoreRows
    secrets: SecretRows
    holdings: HoldingRows
    usage: UsageStore

    async def new_org(self) -> OrgId:
        organisation = rows.organisation()
        await self.organisations.add(organisation)
        return organisation.id

    async def new_sandbox(
        self,
        org_id: OrgId,
        sealing: Sealing = NOTHING_SEALED,
        *,
        limit: int | None = None,
        **changes: object,
    ) -> Sandbox:
        row = rows.sandbox(org_id, **changes)
        await self.sandboxes.add(row, sealing, concurrency_limit=limit)
        return row

    async def new_checkpoint(self, org_id: OrgId, sandbox_id: SandboxId, **changes: object) -> Snapshot:
        row = rows.checkpoint(org_id, sandbox_id, **changes)
        await self.snapshots.add(row)
        return row

    async def new_patch(self, checkpoint_id: SnapshotId, **changes: object) -> Patch:
        return await self.patches.add(rows.patch(checkpoint_id, **changes))

    async def new_secret_store(self, org_id: OrgId, **changes: object) -> SecretStore:
        row = rows.secret_store(org_id, **changes)
        await self.secret_stores.add(row)
        return row

    async def new_secret(self, store: SecretStore, **changes: object) -> Secret:
        return await self.secrets.set(rows.secret(store.id, **changes), most=100)


def sql_stores(database: Database) -> Stores:
    return Stores(
        SqlOrganisationStore(database),
        SqlApiKeyStore(database),
        SqlSandboxStore(database),
        SqlMachineStore(database),
        SqlSnapshotStore(database),
        SqlPatchStore(database),
        SqlSecretStoreRows(database),
        SqlSecretRows(database),
        SqlHoldingRows(database),
        SqlUsageStore(database),
    )


def memory_stores() -> Stores:
    tables = Tables()
    return Stores(
        MemoryOrganisations(tables),
        MemoryApiKeys(tables),
        MemorySandboxes(tables),
        MemoryMachineRows(tables),
        MemorySnapshots(tables),
        MemoryPatches(tables),
        MemorySecretStoreRows(tables),
        MemorySecretRows(tables),
        MemoryHoldingRows(tables),
        MemoryUsage(tables),
    )


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database]:
    opened = Database.sqlite(tmp_path / "opencomputer.db")
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture(params=["sqlite", "memory"])
def stores(request: pytest.FixtureRequest, anyio_backend: str) -> Stores:
    """The real stores, and those that tests of services use in their place."""
    if request.param == "sqlite":
        return sql_stores(request.getfixturevalue("database"))
    return memory_stores()
