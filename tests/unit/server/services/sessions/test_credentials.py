"""Keys for models: which one a session uses, and that changing one reaches whoever uses it."""

from __future__ import annotations

import pytest

from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.agents import Reason
from opencomputer.server.domain.sessions.credentials import last4
from opencomputer.server.domain.sessions.errors import (
    CredentialMismatch,
    ManagedUnavailable,
    NoCredential,
    Unsupported,
)
from opencomputer.server.domain.sessions.session import MANAGED
from opencomputer.server.services.secret_keys import forget_unreadable, rotate
from opencomputer.server.services.sessions.agents import AgentPatch
from opencomputer.server.services.sessions.credentials import NewCredential
from tests.support.agents import KEY, SOMEBODY, AgentWorld

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("chosen", "default", "offered", "expected"),
    [
        (MANAGED, True, True, MANAGED),
        (MANAGED, True, False, ManagedUnavailable),
        ("own", True, True, "own"),
        ("own", False, False, "own"),
        ("deleted", True, True, "default"),
        ("deleted", False, True, MANAGED),
        ("deleted", False, False, NoCredential),
        (None, True, True, "default"),
        (None, True, False, "default"),
        (None, False, True, MANAGED),
        (None, False, False, NoCredential),
    ],
)
async def test_the_first_credential_that_fits_is_pinned(
    world: AgentWorld,
    chosen: str | None,
    default: bool,
    offered: bool,
    expected: str | type[Exception],
) -> None:
    """Section 3.11. A default of another provider never counts."""
    world.models.providers = frozenset({"anthropic"} if offered else {"openai"})
    await world.credentials.create(world.org, NewCredential("openai", KEY, is_default=True))
    ids = {"default": "", "own": ""}
    if default:
        wanted = NewCredential("anthropic", KEY, is_default=True)
        ids["default"] = (await world.credentials.create(world.org, wanted)).id
    if chosen in ("own", "deleted"):
        ids["own"] = (await world.credentials.create(world.org, NewCredential("anthropic", KEY))).id
        await world.create(credential=ids["own"])
    else:
        await world.create(credential=chosen)
    if chosen == "deleted":
        await world.credentials.delete(world.org, ids["own"], SOMEBODY)
    if isinstance(expected, str):
        pinned = await world.agents.pin(world.org, "agent")
        assert pinned.credential == ids.get(expected, expected)
    else:
        with pytest.raises(expected):
            await world.agents.pin(world.org, "agent")


async def test_managed_models_of_a_provider_that_is_not_available_are_not_offered(world: AgentWorld) -> None:
    world.models.providers, world.models.available = frozenset({"anthropic"}), False
    await world.create()
    with pytest.raises(NoCredential):
        await world.agents.pin(world.org, "agent")


async def test_rotation_reaches_whoever_has_the_credential_pinned(world: AgentWorld) -> None:
    await world.create(key=KEY)
    pinned = await world.agents.pin(world.org, "agent")
    assert await world.credentials.key(world.org, pinned.credential) == KEY
    rotated = await world.credentials.rotate(world.org, pinned.credential, " sk-other-9876543210 ")
    assert rotated.last4 == "3210"
    assert await world.credentials.key(world.org, pinned.credential) == "sk-other-9876543210"
    assert await world.agents.pin(world.org, "agent") == pinned
    assert await world.credentials.key(world.other, pinned.credential) is None


async def test_pointing_an_agent_elsewhere_reaches_no_running_session(world: AgentWorld) -> None:
    await world.create(key=KEY)
    pinned = await world.agents.pin(world.org, "agent")
    other = await world.credentials.create(world.org, NewCredential("anthropic", KEY))
    await world.agents.update(world.org, "agent", SOMEBODY, AgentPatch(credential=other.id))
    assert await world.credentials.key(world.org, pinned.credential) == KEY
    assert (await world.agents.pin(world.org, "agent")).credential == other.id


async def test_a_deleted_credential_is_gone_from_agents_and_that_is_a_version(world: AgentWorld) -> None:
    agent = await world.create(key=KEY)
    pinned = await world.agents.pin(world.org, "agent")
    await world.credentials.delete(world.org, pinned.credential, SOMEBODY)
    assert await world.credentials.key(world.org, pinned.credential) is None
    after = await world.again(agent)
    assert (after.credential, after.version) == (None, 2)
    newest = (await world.agents.versions(agent, limit=1, before=None))[0]
    assert (newest.reason, newest.snapshot["credential_id"]) == (Reason.CREDENTIAL_DELETED, None)
    with pytest.raises(NotFound):
        await world.credentials.delete(world.org, pinned.credential, SOMEBODY)
    with pytest.raises(NotFound):
        await world.credentials.rotate(world.org, pinned.credential, KEY)


async def test_a_default_takes_the_place_of_the_one_before(world: AgentWorld) -> None:
    first = await world.credentials.create(world.org, NewCredential("anthropic", KEY, is_default=True))
    theirs = await world.credentials.create(world.other, NewCredential("anthropic", KEY, is_default=True))
    second = await world.credentials.create(world.org, NewCredential("anthropic", KEY, is_default=True))
    assert [each.is_default for each in await world.credentials.list(world.org)] in (
        [False, True],
        [True, False],
    )
    await world.credentials.set_default(world.org, first.id, "anthropic")
    defaults = [each.id for each in await world.credentials.list(world.org) if each.is_default]
    assert defaults == [first.id]
    assert (await world.credentials.list(world.other))[0].is_default
    with pytest.raises(CredentialMismatch):
        await world.credentials.set_default(world.org, second.id, "openai")
    with pytest.raises(NotFound):
        await world.credentials.set_default(world.org, theirs.id, None)
    with pytest.raises(Unsupported):
        await world.credentials.create(world.org, NewCredential("acme", KEY))


async def test_the_change_of_keys_takes_credentials_along(world: AgentWorld) -> None:
    await world.create(key=KEY)
    (made,) = await world.credentials.list(world.org)
    for _ in range(2):
        rotated = await rotate(world.keyring, [world.tables.credentials])
        assert (rotated.encrypted, rotated.unreadable) == (1, 0)
    assert world.keyring.versions == [2, 3]
    assert await world.credentials.key(world.org, made.id) == KEY
    world.keyring.versions = [9]
    assert await world.credentials.key(world.org, made.id) is None
    assert await forget_unreadable(world.keyring, [world.tables.credentials]) == 1
    assert await world.credentials.list(world.org) == []


async def test_a_key_opens_in_its_own_row_only(world: AgentWorld) -> None:
    """Whoever may write to the database cannot let one organisation use another's key."""
    mine = await world.credentials.create(world.org, NewCredential("anthropic", KEY))
    theirs = await world.credentials.create(world.other, NewCredential("anthropic", "sk-theirs-0123456789"))
    assert await world.tables.credentials.recrypt(mine.id, mine.ciphertext, theirs.ciphertext)
    assert await world.credentials.key(world.org, mine.id) is None


def test_little_is_shown_of_a_key_and_nothing_of_a_short_one() -> None:
    assert last4("sk-ant-0123456789") == "6789"
    assert last4("short") == ""
