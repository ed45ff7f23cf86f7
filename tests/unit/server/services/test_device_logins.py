"""Logins by device flow: approved once, by somebody with a key, within ten minutes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from opencomputer.server.domain.access import KeyCaller
from opencomputer.server.domain.errors import (
    AuthorizationDenied,
    AuthorizationExpired,
    Forbidden,
    NotFound,
    RateLimited,
    Unauthenticated,
)
from opencomputer.server.services.access import Access
from opencomputer.server.services.device_logins import DeviceLogins
from opencomputer.server.stores.sql.api_keys import SqlApiKeyStore
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.device_logins import SqlDeviceLoginStore
from opencomputer.server.stores.sql.login_tables import device_logins
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.wire.ids import SandboxId
from tests.support.hand_clock import HandClock

pytestmark = pytest.mark.anyio

NAME = "oc CLI on laptop"


@dataclass
class World:
    clock: HandClock
    access: Access
    logins: DeviceLogins
    database: Database

    async def caller(self, name: str = "org") -> KeyCaller:
        made = await self.access.create_organisation(name)
        return KeyCaller(made.record.org_id, made.record.id)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    database = Database.sqlite(tmp_path / "opencomputer.db")
    await database.open()
    clock = HandClock()
    access = Access(SqlOrganisationStore(database), SqlApiKeyStore(database), clock, b"s" * 32)
    yield World(clock, access, DeviceLogins(SqlDeviceLoginStore(database), access, clock), database)
    await database.close()


async def test_an_approved_login_gets_a_key_of_the_approvers_organisation_once(world: World) -> None:
    caller = await world.caller()
    started = await world.logins.begin("192.0.2.1")
    assert await world.logins.exchange(started.device_code, NAME) is None
    decided = await world.logins.decide(caller, started.user_code.lower(), approve=True)
    assert decided.requested_from == "192.0.2.1"
    made = await world.logins.exchange(started.device_code, NAME)
    assert made is not None
    assert (made.record.org_id, made.record.name) == (caller.org_id, NAME)
    assert await world.access.authenticate(made.secret) == KeyCaller(caller.org_id, made.record.id)
    with pytest.raises(AuthorizationExpired):
        await world.logins.exchange(started.device_code, NAME)


async def test_a_denied_login_is_told_so_once(world: World) -> None:
    caller = await world.caller()
    started = await world.logins.begin("192.0.2.1")
    await world.logins.decide(caller, started.user_code, approve=False)
    with pytest.raises(AuthorizationDenied):
        await world.logins.exchange(started.device_code, NAME)
    with pytest.raises(AuthorizationExpired):
        await world.logins.exchange(started.device_code, NAME)


async def test_nobody_decides_twice(world: World) -> None:
    mine, other = await world.caller(), await world.caller("other")
    started = await world.logins.begin("192.0.2.1")
    await world.logins.decide(mine, started.user_code, approve=True)
    with pytest.raises(NotFound):
        await world.logins.decide(other, started.user_code, approve=True)
    made = await world.logins.exchange(started.device_code, NAME)
    assert made is not None
    assert made.record.org_id == mine.org_id


async def test_codes_expire_before_and_after_they_are_approved(world: World) -> None:
    caller = await world.caller()
    early, late = [await world.logins.begin("192.0.2.1") for _ in range(2)]
    await world.logins.decide(caller, early.user_code, approve=True)
    world.clock.advance(600)
    with pytest.raises(NotFound):
        await world.logins.decide(caller, late.user_code, approve=True)
    for started in (early, late):
        with pytest.raises(AuthorizationExpired):
            await world.logins.exchange(started.device_code, NAME)


async def test_one_code_is_no_good_for_the_other(world: World) -> None:
    caller = await world.caller()
    started = await world.logins.begin("192.0.2.1")
    with pytest.raises(NotFound):
        await world.logins.decide(caller, started.device_code, approve=True)
    with pytest.raises(AuthorizationExpired):
        await world.logins.exchange(started.user_code, NAME)


async def test_a_revoked_key_has_approved_nothing(world: World) -> None:
    caller = await world.caller()
    started = await world.logins.begin("192.0.2.1")
    await world.logins.decide(caller, started.user_code, approve=True)
    await world.access.revoke_key(caller.org_id, caller.key_id)
    with pytest.raises(AuthorizationDenied):
        await world.logins.exchange(started.device_code, NAME)


async def test_the_table_holds_neither_code_and_forgets_what_has_expired(world: World) -> None:
    started = await world.logins.begin("192.0.2.1")
    (row,) = await world.database.rows(sa.select(device_logins))
    everything = " ".join(map(str, row))
    assert started.device_code not in everything
    assert started.user_code not in everything
    assert started.user_code.replace("-", "") not in everything
    assert started.user_code not in repr(started)
    world.clock.advance(601)
    await world.logins.begin("192.0.2.1")
    assert len(await world.database.rows(sa.select(device_logins))) == 1


async def test_wrong_codes_are_few_for_each_organisation(world: World) -> None:
    guesser, other = await world.caller(), await world.caller("other")
    started = await world.logins.begin("192.0.2.1")
    for _ in range(10):
        with pytest.raises(NotFound):
            await world.logins.decide(guesser, "BBBB-BBBB", approve=True)
    with pytest.raises(RateLimited):
        await world.logins.decide(guesser, started.user_code, approve=True)
    await world.logins.decide(other, started.user_code, approve=True)
    world.clock.advance(600)
    again = await world.logins.begin("192.0.2.1")
    await world.logins.decide(guesser, again.user_code, approve=True)


async def test_wrong_keys_are_few_from_each_address(world: World) -> None:
    made = await world.access.create_organisation("org")
    for _ in range(20):
        with pytest.raises(Unauthenticated):
            await world.logins.approver("osb_" + "0" * 64, "192.0.2.1")
    with pytest.raises(RateLimited):
        await world.logins.approver(made.secret, "192.0.2.1")
    caller = await world.logins.approver(made.secret, "192.0.2.2")
    assert caller == KeyCaller(made.record.org_id, made.record.id)


async def test_a_sandbox_token_approves_nothing(world: World) -> None:
    caller = await world.caller()
    token = world.access.sandbox_token(caller.org_id, SandboxId("sb-00000001"))
    with pytest.raises(Forbidden):
        await world.logins.approver(token, "192.0.2.1")


async def test_an_address_starts_so_many_and_all_together_so_many(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(30):
        await world.logins.begin("192.0.2.1")
    with pytest.raises(RateLimited):
        await world.logins.begin("192.0.2.1")
    monkeypatch.setattr("opencomputer.server.domain.device_login.MOST_WAITING", 31)
    await world.logins.begin("192.0.2.2")
    with pytest.raises(RateLimited):
        await world.logins.begin("192.0.2.3")
