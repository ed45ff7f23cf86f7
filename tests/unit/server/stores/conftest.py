from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest

from opencomputer.server.contracts.stores import ApiKeyStore, MachineStore, OrganisationStore, SandboxStore
from opencomputer.server.stores.sql.api_keys import SqlApiKeyStore
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.machines import SqlMachineStore
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.sandboxes import SqlSandboxStore
from opencomputer.wire.ids import OrgId
from tests.support import rows
from tests.support.memory.stores import (
    MemoryApiKeys,
    MemoryMachineRows,
    MemoryOrganisations,
    MemorySandboxes,
    Tables,
)


@dataclass(frozen=True)
class Stores:
    organisations: OrganisationStore
    keys: ApiKeyStore
    sandboxes: SandboxStore
    machines: MachineStore

    async def new_org(self) -> OrgId:
        organisation = rows.organisation()
        await self.organisations.add(organisation)
        return organisation.id


def sql_stores(database: Database) -> Stores:
    return Stores(
        SqlOrganisationStore(database),
        SqlApiKeyStore(database),
        SqlSandboxStore(database),
        SqlMachineStore(database),
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
    tables = Tables()
    return Stores(
        MemoryOrganisations(tables), MemoryApiKeys(tables), MemorySandboxes(tables), MemoryMachineRows(tables)
    )
