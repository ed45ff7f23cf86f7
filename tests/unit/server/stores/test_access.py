"""Organisations and their keys."""

from __future__ import annotations

import pytest

from opencomputer.wire.ids import ApiKeyId, OrgId
from tests.support import rows
from tests.unit.server.stores.conftest import Stores

pytestmark = pytest.mark.anyio


async def test_organisations_are_counted_and_found(stores: Stores) -> None:
    assert await stores.organisations.count() == 0
    organisation = rows.organisation("Ünïcode & Co")
    await stores.organisations.add(organisation)
    assert await stores.organisations.count() == 1
    assert await stores.organisations.get(organisation.id) == organisation
    assert await stores.organisations.get(OrgId("unknown")) is None


async def test_a_key_is_found_by_its_hash(stores: Stores) -> None:
    key = rows.api_key(await stores.new_org())
    await stores.keys.add(key)
    assert await stores.keys.by_hash(key.hash) == key
    assert await stores.keys.by_hash(key.prefix) is None


async def test_keys_are_listed_for_their_organisation_only(stores: Stores) -> None:
    mine, other = await stores.new_org(), await stores.new_org()
    keys = [rows.api_key(mine, created_at=rows.at(age)) for age in (2, 0, 1)]
    for key in keys:
        await stores.keys.add(key)
    assert [key.created_at for key in await stores.keys.list(mine)] == [rows.at(0), rows.at(1), rows.at(2)]
    assert list(await stores.keys.list(other)) == []


async def test_a_key_is_revoked_by_its_own_organisation_only(stores: Stores) -> None:
    mine, other = await stores.new_org(), await stores.new_org()
    key = rows.api_key(mine)
    await stores.keys.add(key)
    assert not await stores.keys.revoke(other, key.id, rows.at(1))
    assert not await stores.keys.revoke(mine, ApiKeyId("unknown"), rows.at(1))
    found = await stores.keys.by_hash(key.hash)
    assert found is not None
    assert found.revoked_at is None
    assert await stores.keys.revoke(mine, key.id, rows.at(2))


async def test_revoking_twice_keeps_the_first_time_and_the_row(stores: Stores) -> None:
    org = await stores.new_org()
    key = rows.api_key(org)
    await stores.keys.add(key)
    assert await stores.keys.revoke(org, key.id, rows.at(1))
    assert await stores.keys.revoke(org, key.id, rows.at(2))
    found = await stores.keys.by_hash(key.hash)
    assert found is not None
    assert found.revoked_at == rows.at(1)


async def test_the_last_use_is_kept(stores: Stores) -> None:
    key = rows.api_key(await stores.new_org())
    await stores.keys.add(key)
    await stores.keys.used(key.id, rows.at(5))
    found = await stores.keys.by_hash(key.hash)
    assert found is not None
    assert found.last_used_at == rows.at(5)
