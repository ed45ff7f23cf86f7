"""Credentials: accepted, refused, revoked at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import jwt
import pytest

from opencomputer.server.domain import naming
from opencomputer.server.domain.access import KeyCaller, TokenCaller
from opencomputer.server.domain.errors import InvalidInput, NotFound, Unauthenticated
from opencomputer.server.services.access import TOKEN_LIFE, NewKey
from opencomputer.wire.ids import ApiKeyId, OrgId, SandboxId
from tests.support.virtual_time import VirtualClock
from tests.unit.server.services.harness import SECRET, Node, Process

pytestmark = pytest.mark.anyio

SANDBOX = SandboxId("sb-00000001")


async def organisation(process: Process, name: str = "org") -> NewKey:
    return await process.access.create_organisation(name)


def token(**changes: object) -> str:
    expires = int((VirtualClock().now() + timedelta(hours=1)).timestamp())
    claims = {"org_id": "o", "sandbox_id": SANDBOX, "sub": SANDBOX, "exp": expires, **changes}
    present = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(present, SECRET, algorithm="HS256")


async def test_a_key_opens_its_organisation(node: Node) -> None:
    async with node.process() as process:
        created = await organisation(process)
        caller = await process.access.authenticate(created.secret)
        assert caller == KeyCaller(created.record.org_id, created.record.id)
        assert (await process.access.organisation(created.record.org_id)).name == "org"


@pytest.mark.parametrize(
    "credential",
    [
        None,
        "",
        " ",
        "osb_",
        "osb_" + "0" * 64,
        "nonsense",
        "a.b.c",
        "Bearer x",
        "osb_" + "x" * 10_000,
        "ü" * 9,
    ],
)
async def test_anything_unknown_is_refused_alike(node: Node, credential: str | None) -> None:
    async with node.process() as process:
        await organisation(process)
        with pytest.raises(Unauthenticated):
            await process.access.authenticate(credential)


async def test_only_the_hash_of_a_key_is_stored(node: Node) -> None:
    async with node.process() as process:
        created = await organisation(process)
        (row,) = node.tables.keys.values()
        assert row.hash == naming.secret_hash(created.secret)
        assert created.secret not in repr(row)


async def test_a_revoked_key_stops_working_with_the_next_request(node: Node) -> None:
    async with node.process() as process:
        created = await organisation(process)
        await process.access.authenticate(created.secret)
        await process.access.revoke_key(created.record.org_id, created.record.id)
        with pytest.raises(Unauthenticated):
            await process.access.authenticate(created.secret)


async def test_a_key_revoked_by_another_process_stops_working_within_a_second(node: Node) -> None:
    async with node.process() as process, node.process() as other:
        created = await organisation(process)
        await process.access.authenticate(created.secret)
        await other.access.revoke_key(created.record.org_id, created.record.id)
        await asyncio.sleep(1.01)
        with pytest.raises(Unauthenticated):
            await process.access.authenticate(created.secret)


async def test_a_busy_key_is_looked_up_once_a_second(node: Node) -> None:
    async with node.process() as process:
        created = await organisation(process)
        for _ in range(100):
            await process.access.authenticate(created.secret)
        assert process.keys.lookups == 1


async def test_unknown_keys_are_looked_up_every_time(node: Node) -> None:
    """Remembering them would let anybody fill our memory, and keep a new key from working."""
    async with node.process() as process:
        created = await organisation(process)
        secret = naming.new_api_key()
        with pytest.raises(Unauthenticated):
            await process.access.authenticate(secret)
        node.tables.keys[created.record.id] = replace(created.record, hash=naming.secret_hash(secret))
        assert await process.access.authenticate(secret)


async def test_the_last_use_is_noted_about_once_a_minute(node: Node) -> None:
    async with node.process() as process:
        created = await organisation(process)

        async def use() -> object:
            await process.access.authenticate(created.secret)
            return node.tables.keys[created.record.id].last_used_at

        first = await use()
        assert first is not None
        await asyncio.sleep(30)
        assert await use() == first
        await asyncio.sleep(40)
        assert await use() == process.clock.now()


async def test_an_organisation_may_have_several_keys_and_revoke_each(node: Node) -> None:
    async with node.process() as process:
        first = await organisation(process)
        org = first.record.org_id
        second = await process.access.create_key(org, "second")
        assert [key.name for key in await process.access.list_keys(org)] == ["first key", "second"]
        await process.access.revoke_key(org, first.record.id)
        assert await process.access.authenticate(second.secret) == KeyCaller(org, second.record.id)


async def test_another_organisations_key_cannot_be_revoked(node: Node) -> None:
    async with node.process() as process:
        mine, other = await organisation(process), await organisation(process, "other")
        with pytest.raises(NotFound):
            await process.access.revoke_key(other.record.org_id, mine.record.id)
        with pytest.raises(NotFound):
            await process.access.revoke_key(other.record.org_id, ApiKeyId("unknown"))
        assert await process.access.authenticate(mine.secret)


async def test_the_first_key_can_be_chosen(node: Node) -> None:
    secret = "osb_" + "ab" * 32
    async with node.process() as process:
        created = await process.access.create_organisation("org", secret)
        assert created.secret == secret
        assert await process.access.authenticate(secret)


@pytest.mark.parametrize(("name", "key"), [("", None), (" ", None), ("org", "osb_short"), ("org", "x" * 68)])
async def test_what_cannot_be_an_organisation_is_refused_and_leaves_nothing(
    node: Node, name: str, key: str | None
) -> None:
    async with node.process() as process:
        with pytest.raises(InvalidInput):
            await process.access.create_organisation(name, key)
        assert not await process.access.has_organisations()


# Sandbox tokens


async def test_a_sandbox_token_opens_one_sandbox_for_a_day(node: Node) -> None:
    async with node.process() as process:
        made = process.access.sandbox_token(OrgId("o"), SANDBOX)
        assert await process.access.authenticate(made) == TokenCaller(OrgId("o"), SANDBOX)
        await asyncio.sleep(TOKEN_LIFE.total_seconds() - 2)
        assert await process.access.authenticate(made)
        await asyncio.sleep(3)
        with pytest.raises(Unauthenticated, match="expired"):
            await process.access.authenticate(made)


async def test_a_sandbox_token_can_stand_in_a_url_as_it_is(node: Node) -> None:
    async with node.process() as process:
        made = process.access.sandbox_token(OrgId("o"), SANDBOX)
        assert made.replace("-", "").replace("_", "").replace(".", "").isalnum()


async def test_a_token_survives_a_restart_of_the_server(node: Node) -> None:
    async with node.process() as process:
        made = process.access.sandbox_token(OrgId("o"), SANDBOX)
    async with node.process() as process:
        assert await process.access.authenticate(made)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None},
        {"org_id": None},
        {"sandbox_id": None},
        {"exp": 1},
        {"exp": 0},
        {"exp": -1},
        {"exp": "soon"},
        {"exp": "nan"},
        {"exp": []},
    ],
)
async def test_a_signed_token_that_lacks_something_is_refused(node: Node, claims: dict[str, object]) -> None:
    async with node.process() as process:
        assert await process.access.authenticate(token())
        with pytest.raises(Unauthenticated):
            await process.access.authenticate(token(**claims))


async def test_a_token_of_another_server_is_refused(node: Node) -> None:
    async with node.process() as process:
        claims = {"org_id": "o", "sandbox_id": SANDBOX, "exp": 1 << 40}
        foreign = jwt.encode(claims, b"another secret of thirty-two bytes", algorithm="HS256")
        for forged in (foreign, jwt.encode(claims, "", algorithm="none"), token()[:-2], token() + "x"):
            with pytest.raises(Unauthenticated):
                await process.access.authenticate(forged)


# Streams that stay open


async def test_a_stream_learns_at_once_that_its_key_is_revoked(node: Node) -> None:
    async with node.process() as process:
        created = await organisation(process)
        streams = [
            asyncio.create_task(
                process.access.until_revoked(await process.access.authenticate(created.secret))
            )
            for _ in range(3)
        ]
        await asyncio.sleep(100)
        assert not any(stream.done() for stream in streams)
        began = process.clock.monotonic()
        await process.access.revoke_key(created.record.org_id, created.record.id)
        await asyncio.gather(*streams)
        assert process.clock.monotonic() == began


async def test_a_stream_learns_within_seconds_of_a_revocation_elsewhere(node: Node) -> None:
    async with node.process() as process, node.process() as other:
        created = await organisation(process)
        caller = await process.access.authenticate(created.secret)
        stream = asyncio.create_task(process.access.until_revoked(caller))
        await asyncio.sleep(1)
        await other.access.revoke_key(created.record.org_id, created.record.id)
        await asyncio.sleep(5)
        assert stream.done()


async def test_another_key_of_the_organisation_keeps_its_streams(node: Node) -> None:
    async with node.process() as process:
        first = await organisation(process)
        second = await process.access.create_key(first.record.org_id, "second")
        caller = await process.access.authenticate(second.secret)
        stream = asyncio.create_task(process.access.until_revoked(caller))
        await process.access.revoke_key(first.record.org_id, first.record.id)
        await asyncio.sleep(60)
        assert not stream.done()
        stream.cancel()


async def test_a_stream_with_a_token_of_its_sandbox_outlasts_any_revocation(node: Node) -> None:
    async with node.process() as process:
        created = await organisation(process)
        stream = asyncio.create_task(
            process.access.until_revoked(TokenCaller(created.record.org_id, SANDBOX))
        )
        await process.access.revoke_key(created.record.org_id, created.record.id)
        await asyncio.sleep(60)
        assert not stream.done()
        stream.cancel()


async def test_a_stream_that_ends_at_the_moment_of_the_revocation_ends(node: Node) -> None:
    async with node.process() as process:
        created = await organisation(process)
        caller = await process.access.authenticate(created.secret)
        stream = asyncio.create_task(process.access.until_revoked(caller))
        await asyncio.sleep(1)
        await process.access.revoke_key(created.record.org_id, created.record.id)
        stream.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stream
