"""Images, prefixes and named snapshots: the SQL stores, and those in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from opencomputer.server.contracts.images import ImageStore, NamedSnapshotStore, PrefixRow, PrefixStore
from opencomputer.server.domain import naming
from opencomputer.server.domain.builds import BuildState, ImageRow, NamedSnapshot
from opencomputer.server.domain.errors import Conflict
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.images import SqlImageStore, SqlNamedSnapshotStore, SqlPrefixStore
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.wire.ids import OrgId
from tests.support import rows
from tests.support.memory.images import ImageTables, MemoryImages, MemoryNamedSnapshots, MemoryPrefixes

pytestmark = pytest.mark.anyio

MANIFEST = '{"base":"base","steps":[]}'


@dataclass(frozen=True)
class Stores:
    images: ImageStore
    prefixes: PrefixStore
    named: NamedSnapshotStore
    org: OrgId
    other: OrgId


@pytest.fixture(params=["sqlite", "memory"])
async def stores(request: pytest.FixtureRequest, database: Database) -> Stores:
    orgs = rows.organisation(), rows.organisation()
    ids = orgs[0].id, orgs[1].id
    if request.param == "memory":
        tables = ImageTables()
        return Stores(MemoryImages(tables), MemoryPrefixes(tables), MemoryNamedSnapshots(tables), *ids)
    for organisation in orgs:
        await SqlOrganisationStore(database).add(organisation)
    named = SqlNamedSnapshotStore(database)
    return Stores(SqlImageStore(database), SqlPrefixStore(database), named, *ids)


def image(org_id: OrgId, key: str = "k1", **changes: Any) -> ImageRow:
    row = ImageRow(org_id, key, "c1", BuildState.BUILDING, MANIFEST, rows.NOON, rows.NOON)
    return replace(row, **changes)


def named(org_id: OrgId, name: str = "tools", **changes: Any) -> NamedSnapshot:
    snapshot_id = naming.new_snapshot_id()
    row = NamedSnapshot(snapshot_id, org_id, name, BuildState.BUILDING, "c1", MANIFEST, rows.NOON)
    return replace(row, **changes)


async def test_an_image_is_found_by_organisation_and_key(stores: Stores) -> None:
    row = image(stores.org)
    await stores.images.begin(row)
    assert await stores.images.get(stores.org, "k1") == row
    assert await stores.images.get(stores.other, "k1") is None
    assert await stores.images.get(stores.org, "k2") is None


async def test_only_images_that_are_ready_are_listed_newest_first(stores: Stores) -> None:
    for number in range(3):
        await stores.images.begin(image(stores.org, f"k{number}", created_at=rows.at(number)))
    await stores.images.begin(image(stores.other, "k0"))
    snapshot = naming.new_snapshot_id()
    await stores.images.ready(stores.org, "k0", snapshot)
    await stores.images.ready(stores.org, "k2", snapshot)
    listed = await stores.images.list(stores.org)
    assert [(row.key, row.state, row.snapshot_id) for row in listed] == [
        ("k2", BuildState.READY, snapshot),
        ("k0", BuildState.READY, snapshot),
    ]
    assert len(await stores.images.all()) == 4


async def test_a_build_begins_again_in_place_of_the_earlier_one(stores: Stores) -> None:
    await stores.images.begin(image(stores.org, snapshot_id=naming.new_snapshot_id(), state=BuildState.READY))
    again = image(stores.org, created_at=rows.at(9))
    await stores.images.begin(again)
    assert await stores.images.all() == [again]
    await stores.images.used(stores.org, "k1", rows.at(10))
    assert await stores.images.all() == [replace(again, last_used_at=rows.at(10))]
    await stores.images.remove(stores.org, "k1")
    assert await stores.images.all() == []


async def test_prefixes_are_found_by_their_keys(stores: Stores) -> None:
    first, second = naming.new_snapshot_id(), naming.new_snapshot_id()
    await stores.prefixes.keep(PrefixRow(stores.org, "a", first, rows.NOON))
    await stores.prefixes.keep(PrefixRow(stores.other, "b", second, rows.NOON))
    assert await stores.prefixes.find(stores.org, ["a", "b", "c"]) == {"a": first}
    await stores.prefixes.keep(PrefixRow(stores.org, "a", second, rows.NOON))
    await stores.prefixes.used(stores.org, "a", rows.at(5))
    assert PrefixRow(stores.org, "a", second, rows.at(5)) in await stores.prefixes.all()
    await stores.prefixes.remove(stores.org, "a")
    assert await stores.prefixes.find(stores.org, ["a"]) == {}
    assert len(await stores.prefixes.all()) == 1


async def test_a_name_is_reserved_once_in_an_organisation(stores: Stores) -> None:
    row = named(stores.org)
    await stores.named.reserve(row, MANIFEST)
    await stores.named.reserve(named(stores.other), MANIFEST)
    for state in (BuildState.BUILDING, BuildState.READY):
        await stores.named.settle(row.id, state, None, None)
        with pytest.raises(Conflict):
            await stores.named.reserve(named(stores.org), MANIFEST)
    assert await stores.named.get(stores.org, "tools") == replace(row, state=BuildState.READY)


async def test_a_snapshot_that_failed_makes_place_for_another_of_its_name(stores: Stores) -> None:
    failed, next_one = named(stores.org), named(stores.org)
    await stores.named.reserve(failed, MANIFEST)
    assert await stores.named.settle(failed.id, BuildState.FAILED, None, "step 1 failed")
    assert (await stores.named.list(stores.org))[0].error == "step 1 failed"
    await stores.named.reserve(next_one, MANIFEST)
    assert await stores.named.list(stores.org) == [next_one]
    assert not await stores.named.settle(failed.id, BuildState.READY, None, None)


async def test_a_named_snapshot_remembers_what_happens_to_it(stores: Stores) -> None:
    row, built = named(stores.org), naming.new_snapshot_id()
    await stores.named.reserve(row, MANIFEST)
    await stores.named.settle(row.id, BuildState.READY, built, None)
    await stores.named.used(row.id, rows.at(3))
    await stores.named.publish(row.id, True)
    assert await stores.named.all() == [
        replace(row, state=BuildState.READY, snapshot_id=built, last_used_at=rows.at(3), is_public=True)
    ]
    assert await stores.named.manifest(row.id) == MANIFEST
    assert not await stores.named.remove(stores.other, "tools")
    assert await stores.named.remove(stores.org, "tools")
    assert not await stores.named.remove(stores.org, "tools")


async def test_named_snapshots_are_listed_newest_first(stores: Stores) -> None:
    for number in (1, 3, 2):
        await stores.named.reserve(named(stores.org, f"n{number}", created_at=rows.at(number)), MANIFEST)
    assert [row.name for row in await stores.named.list(stores.org)] == ["n3", "n2", "n1"]
    assert await stores.named.list(stores.other) == []
