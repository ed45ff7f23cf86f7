"""Hooks: whoever knows one starts sessions, and nobody else does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from opencomputer.server.domain.errors import IdempotencyMismatch, InvalidInput, NotFound, RateLimited
from opencomputer.server.domain.sessions.agents import Agent
from opencomputer.server.domain.sessions.errors import LimitReached, NameTaken
from opencomputer.server.domain.sessions.hooks import RevokedReason, hashed
from tests.support.starter_world import StarterWorld

pytestmark = pytest.mark.anyio


async def nothing(starters: StarterWorld, agent: Agent, token: str) -> str:
    with pytest.raises(NotFound) as refused:
        await starters.hooks.open(agent.id, token)
    return refused.value.message


async def test_only_a_hash_of_the_token_is_kept(starters: StarterWorld) -> None:
    agent = await starters.agent()
    made = await starters.hooks.create(agent, "alerts")
    assert made.token.startswith("ochk_v1_")
    assert len(made.token) == len("ochk_v1_") + 43
    assert (made.hook.token_hash, made.hook.secret_last4) == (hashed(made.token), made.token[-4:])
    assert made.hook == await starters.hooks.get(agent, made.hook.id)
    assert await starters.hooks.open(agent.id, made.token) == made.hook


async def test_whoever_knows_no_hook_that_is_good_learns_nothing(starters: StarterWorld) -> None:
    agent, other = await starters.agent(), await starters.agent()
    now = starters.clock.now()
    expired = await starters.hooks.create(agent, "expired", now + timedelta(seconds=5))
    revoked = await starters.hooks.create(agent, "revoked")
    foreign = await starters.hooks.create(agent, "foreign")
    gone = await starters.hooks.create(other, "gone")
    await starters.hooks.revoke(agent, revoked.hook.id)
    await starters.agents.agents.delete(other.org_id, other.id)
    starters.clock.advance(5)
    answers = {
        await nothing(starters, agent, "ochk_v1_" + "0" * 43),
        await nothing(starters, agent, ""),
        await nothing(starters, agent, "\udcff"),
        await nothing(starters, agent, expired.token),
        await nothing(starters, agent, revoked.token),
        await nothing(starters, other, foreign.token),
        await nothing(starters, other, gone.token),
    }
    assert len(answers) == 1
    assert (await starters.hooks.get(agent, expired.hook.id)).status(starters.clock.now()) == "expired"


async def test_a_hook_starts_a_session_for_each_request(starters: StarterWorld) -> None:
    agent = await starters.agent()
    hook = (await starters.hooks.create(agent, "alerts")).hook
    first = await starters.hooks.receive(hook, {"a": [1]}, None)
    second = await starters.hooks.receive(hook, {"a": [1]}, None)
    assert first.session.id != second.session.id
    event = await starters.first_event(first.session)
    assert (event.type, event.level, event.body) == ("http.request", "user", {"payload": {"a": [1]}})
    assert (event.actor.type, event.actor.id, event.actor.display) == ("trigger", hook.id, "alerts")
    assert first.session.agent.agent_id == agent.id


async def test_a_key_counts_for_one_agent(starters: StarterWorld) -> None:
    agent, other = await starters.agent(), await starters.agent()
    hook, hooks_of_other = [(await starters.hooks.create(each, "a")).hook for each in (agent, other)]
    first = await starters.hooks.receive(hook, {"a": 1, "b": None}, "k")
    again = await starters.hooks.receive(hook, {"b": None, "a": 1}, "k")
    assert (again.session.id, again.replayed) == (first.session.id, True)
    with pytest.raises(IdempotencyMismatch):
        await starters.hooks.receive(hook, {"a": 2}, "k")
    elsewhere = await starters.hooks.receive(hooks_of_other, {"a": 2}, "k")
    assert not elsewhere.replayed
    starters.agents.models.providers = frozenset()
    assert (await starters.hooks.receive(hook, {"a": 1, "b": None}, "k")).replayed


async def test_more_than_sixty_a_minute_have_to_wait(starters: StarterWorld) -> None:
    agent = await starters.agent()
    busy, idle = [await starters.hooks.create(agent, each) for each in ("busy", "idle")]
    for _ in range(60):
        await starters.hooks.open(agent.id, busy.token)
    starters.clock.advance(20)
    with pytest.raises(RateLimited) as refused:
        await starters.hooks.open(agent.id, busy.token)
    assert refused.value.retry_after_seconds == 40
    await starters.hooks.open(agent.id, idle.token)
    starters.clock.advance(40)
    await starters.hooks.open(agent.id, busy.token)


async def test_revoking_is_for_good_and_may_be_done_twice(starters: StarterWorld) -> None:
    agent = await starters.agent()
    made = await starters.hooks.create(agent, "alerts")
    for _ in range(2):
        await starters.hooks.revoke(agent, made.hook.id)
    leaked = await starters.leaked.revoke(made.token)
    assert (leaked.status(starters.clock.now()), leaked.revoked_reason) == ("revoked", RevokedReason.MANUAL)
    with pytest.raises(NotFound):
        await starters.hooks.revoke(agent, "hk_0")


async def test_a_leaked_token_revokes_its_hook(starters: StarterWorld) -> None:
    agent = await starters.agent()
    made = await starters.hooks.create(agent, "alerts")
    leaked = await starters.leaked.revoke(made.token)
    assert leaked == replace(
        made.hook, revoked_at=starters.clock.now(), revoked_reason=RevokedReason.SECRET_EXPOSURE
    )
    await nothing(starters, agent, made.token)
    with pytest.raises(NotFound):
        await starters.leaked.revoke("ochk_v1_other")


async def test_twenty_hooks_and_each_name_once_until_it_is_revoked(starters: StarterWorld) -> None:
    agent = await starters.agent()
    soon = starters.clock.now() + timedelta(seconds=1)
    made = [await starters.hooks.create(agent, f"n{number}", soon) for number in range(20)]
    starters.clock.advance(2)
    # Those that have expired count, too.
    with pytest.raises(LimitReached):
        await starters.hooks.create(agent, "more")
    await starters.hooks.revoke(agent, made[0].hook.id)
    with pytest.raises(NameTaken):
        await starters.hooks.create(agent, "n1")
    await starters.hooks.create(agent, "n0")
    good = await starters.hooks.list(agent, revoked=False, limit=50, before=None)
    everything = await starters.hooks.list(agent, revoked=True, limit=50, before=None)
    assert (len(good), len(everything), good[0].name) == (20, 21, "n0")
    assert await starters.hooks.list(agent, revoked=True, limit=50, before=everything[4]) == everything[5:]


async def test_names_and_times_are_checked(starters: StarterWorld) -> None:
    agent = await starters.agent()
    for name in ("", "A", "-a", "a_b", "a" * 65):
        with pytest.raises(InvalidInput):
            await starters.hooks.create(agent, name)
    with pytest.raises(InvalidInput):
        await starters.hooks.create(agent, "a", starters.clock.now())
