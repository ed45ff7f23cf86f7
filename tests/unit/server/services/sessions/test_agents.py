"""Agents: created once, changed in versions, and kept by sessions as they were."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from opencomputer.server.domain.errors import InvalidInput, NotFound, OpenComputerError
from opencomputer.server.domain.sessions.agents import Reason
from opencomputer.server.domain.sessions.errors import (
    CredentialMismatch,
    ModelRuntimeMismatch,
    NameConflict,
    NoCredential,
    PayloadTooLarge,
    UnsupportedRuntime,
)
from opencomputer.server.domain.sessions.session import MANAGED, SessionLimits
from opencomputer.server.domain.sessions.skills import SkillText, bundle_of
from opencomputer.server.services.sessions.agents import AgentPatch, NewAgent
from opencomputer.server.services.sessions.credentials import NewCredential
from opencomputer.server.services.sessions.deployments import InlineDeployment
from tests.support.agents import CLAUDE, GPT, KEY, SOMEBODY, AgentWorld

pytestmark = pytest.mark.anyio

OPUS = "anthropic/claude-opus-4-8"


async def create(world: AgentWorld, **fields: Any) -> tuple[Any, bool]:
    given: dict[str, Any] = {"name": "agent", "model": CLAUDE, **fields}
    wanted = NewAgent(**given)
    return await world.agents.create(world.org, SOMEBODY, wanted)


async def update(world: AgentWorld, **fields: Any) -> Any:
    return await world.agents.update(world.org, "agent", SOMEBODY, AgentPatch(**fields))


# Creating


async def test_a_new_agent_has_its_first_revision_active(world: AgentWorld) -> None:
    agent, is_new = await create(world, name=" agent ", prompt="be kind")
    assert is_new
    assert (agent.name, agent.runtime, agent.version, agent.credential) == ("agent", "claude", 1, None)
    revision = agent.revision
    assert (revision.number, revision.prompt, revision.model) == (1, "be kind", CLAUDE)
    assert await world.agents.get(world.org, agent.id) == agent
    assert await world.agents.get(world.org, "agent") == agent
    (activation,) = await world.deployments.activations(agent, limit=9, before=None)
    assert (activation.before, activation.after, activation.reason) == (None, revision.id, Reason.CREATE)
    (deployment,) = await world.deployments.list(agent, limit=9)
    assert (deployment.result, deployment.revision) == ("created", revision)


async def test_the_same_request_again_gives_the_same_agent(world: AgentWorld) -> None:
    fields: dict[str, Any] = {
        "prompt": "p",
        "key": KEY,
        "limits": SessionLimits(tokens=9),
        "default_repo": "a/b",
        "checkpoints_kept": 3,
    }
    first, _ = await create(world, **fields)
    again, is_new = await create(world, **fields)
    assert (again, is_new) == (first, False)
    assert len(await world.credentials.list(world.org)) == 1
    unsaid, is_new = await create(world)
    assert (unsaid, is_new) == (first, False)


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": "other"},
        {"model": OPUS},
        {"model": GPT, "runtime": "codex"},
        {"key": "sk-other-0123456789"},
        {"credential": MANAGED},
        {"limits": SessionLimits(tokens=10)},
        {"default_repo": "b/c"},
        {"checkpoints_kept": 4},
    ],
)
async def test_another_agent_of_the_same_name_is_a_conflict(
    world: AgentWorld, fields: dict[str, Any]
) -> None:
    first, _ = await create(world, prompt="p", key=KEY, limits=SessionLimits(tokens=9))
    with pytest.raises(NameConflict) as refused:
        await create(world, **fields)
    assert refused.value.details["existing_agent"] == {"id": first.id, "name": "agent"}
    assert await world.again(first) == first


async def test_many_who_create_the_same_agent_at_once_make_one(world: AgentWorld) -> None:
    made = await asyncio.gather(*[create(world, prompt="p", key=KEY) for _ in range(6)])
    assert len({agent.id for agent, _ in made}) == 1
    assert [is_new for _, is_new in made].count(True) == 1
    assert len(await world.credentials.list(world.org)) == 1


@pytest.mark.parametrize(
    ("fields", "error", "field"),
    [
        ({"name": " "}, InvalidInput, "name"),
        ({"name": "x" * 129}, InvalidInput, "name"),
        ({"name": "a\0b"}, InvalidInput, "name"),
        ({"model": "claude"}, InvalidInput, "model"),
        ({"model": "/claude"}, InvalidInput, "model"),
        ({"model": "anthropic/"}, InvalidInput, "model"),
        ({"model": GPT}, ModelRuntimeMismatch, "model"),
        ({"runtime": "codex"}, ModelRuntimeMismatch, "model"),
        ({"runtime": "pi"}, UnsupportedRuntime, "runtime"),
        ({"runtime": "flue"}, UnsupportedRuntime, "runtime"),
        ({"prompt": "a\0b"}, InvalidInput, "prompt"),
        ({"prompt": "\ud800"}, InvalidInput, "prompt"),
        ({"prompt": "x" * ((256 << 10) + 1)}, PayloadTooLarge, "prompt"),
        ({"key": " "}, InvalidInput, "key"),
        ({"key": "a b"}, InvalidInput, "key"),
        ({"key": "ключ"}, InvalidInput, "key"),
        ({"key": KEY, "credential": MANAGED}, InvalidInput, "credential"),
        ({"credential": "cred_000000000000000000000000"}, NoCredential, "credential"),
        ({"credential": "nonsense"}, NoCredential, "credential"),
        ({"limits": SessionLimits(turns=0)}, InvalidInput, "limits.turns"),
        ({"limits": SessionLimits(tokens=-1)}, InvalidInput, "limits.tokens"),
        ({"limits": SessionLimits(turn_seconds=2**53)}, InvalidInput, "limits.turn_seconds"),
        ({"default_repo": "a b"}, InvalidInput, "default_repo"),
        ({"checkpoints_kept": 51}, InvalidInput, "checkpoints.keep"),
        ({"checkpoints_kept": -1}, InvalidInput, "checkpoints.keep"),
    ],
)
async def test_what_is_refused_names_the_field_and_makes_nothing(
    world: AgentWorld, fields: dict[str, Any], error: type[OpenComputerError], field: str
) -> None:
    with pytest.raises(error) as refused:
        await create(world, **fields)
    assert refused.value.details["field"] == field
    assert KEY not in str(refused.value)
    assert await world.agents.list(world.org, limit=9) == []
    assert await world.credentials.list(world.org) == []


async def test_a_credential_of_another_provider_is_refused(world: AgentWorld) -> None:
    theirs = await world.credentials.create(world.other, NewCredential("anthropic", KEY))
    openai = await world.credentials.create(world.org, NewCredential("openai", KEY))
    with pytest.raises(CredentialMismatch):
        await create(world, credential=openai.id)
    with pytest.raises(NoCredential):
        await create(world, credential=theirs.id)


# Changing


async def test_every_change_is_a_version_and_a_new_behaviour_is_a_revision(world: AgentWorld) -> None:
    agent = await world.create(prompt="one")
    changes: list[tuple[dict[str, Any], int]] = [
        ({"limits": SessionLimits(tokens=5)}, 1),
        ({"credential": MANAGED}, 1),
        ({"prompt": "two"}, 2),
        ({"model": OPUS}, 3),
        ({"checkpoints_kept": 2}, 3),
        ({"default_repo": "a/b"}, 3),
        ({"limits": None}, 3),
    ]
    for version, (fields, revision) in enumerate(changes, 2):
        changed = await update(world, **fields)
        assert (changed.version, changed.revision.number) == (version, revision)
        assert changed == await world.again(agent)
    versions = await world.agents.versions(agent, limit=99, before=None)
    assert [each.version for each in versions] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert versions[0].snapshot["limits"] is None
    assert versions[1].snapshot["limits"] == {"tokens": 5}
    assert [each.reason for each in versions[-2:]] == [Reason.PATCH, Reason.CREATE]


async def test_a_change_that_changes_nothing_is_none(world: AgentWorld) -> None:
    agent = await world.create(prompt="one", limits=SessionLimits(tokens=5))
    assert await update(world) == agent
    assert await update(world, prompt="one", limits=SessionLimits(tokens=5)) == agent
    assert len(await world.agents.versions(agent, limit=9, before=None)) == 1


async def test_an_earlier_behaviour_is_found_again(world: AgentWorld) -> None:
    agent = await world.create(prompt="one")
    await update(world, prompt="two")
    back = await update(world, prompt="one")
    assert (back.revision, back.version) == (agent.revision, 3)
    results = [each.result for each in await world.deployments.list(agent, limit=9)]
    assert results == ["deduped", "created", "created"]


async def test_changes_at_the_same_time_are_all_there_in_the_end(world: AgentWorld) -> None:
    agent = await world.create(prompt="one")
    await asyncio.gather(*[update(world, prompt=f"prompt {number}") for number in range(6)])
    after = await world.again(agent)
    assert (after.version, after.revision.number) == (7, 7)
    revisions = await world.deployments.revisions(agent, limit=99, before=None)
    assert [each.number for each in revisions] == [7, 6, 5, 4, 3, 2, 1]


async def test_a_key_for_an_agent_is_rotated_or_made(world: AgentWorld) -> None:
    agent = await world.create()
    with_key = await update(world, key=KEY)
    (made,) = await world.credentials.list(world.org)
    assert (with_key.credential, made.is_default, made.last4) == (made.id, False, "6789")
    assert (await update(world, key=KEY)).version == with_key.version
    other = "sk-ant-other-9876543210"
    rotated = await update(world, key=other)
    assert (rotated.credential, rotated.version) == (made.id, with_key.version + 1)
    assert await world.credentials.key(world.org, made.id) == other
    with pytest.raises(InvalidInput):
        await update(world, key=KEY, credential=None)
    assert (await update(world, credential=None)).credential is None
    await update(world, key=KEY)
    assert len(await world.credentials.list(world.org)) == 2
    assert agent.credential is None


async def test_a_model_of_another_provider_needs_another_credential(world: AgentWorld) -> None:
    await world.create(runtime="both", key=KEY)
    with pytest.raises(CredentialMismatch):
        await update(world, model=GPT)
    with pytest.raises(CredentialMismatch):
        await world.deployments.deploy(world.org, "agent", SOMEBODY, InlineDeployment("p", GPT))
    changed = await update(world, model=GPT, key="sk-openai-0123456789")
    assert {each.provider for each in await world.credentials.list(world.org)} == {"anthropic", "openai"}
    assert (await world.agents.pin(world.org, "agent")).credential == changed.credential


# Deleting, and others


async def test_a_deleted_agent_leaves_its_name_and_its_history(world: AgentWorld) -> None:
    world.models.providers = frozenset({"anthropic"})
    agent = await world.create()
    pinned = await world.agents.pin(world.org, agent.id)
    assert not await world.agents.is_deleted(world.org, pinned)
    await world.agents.delete(world.org, "agent")
    for named in (agent.id, agent.name):
        with pytest.raises(NotFound):
            await world.agents.get(world.org, named)
        with pytest.raises(NotFound):
            await world.agents.delete(world.org, named)
    assert await world.agents.is_deleted(world.org, pinned)
    assert (await world.create()).id != agent.id


async def test_agents_of_others_are_not_there(world: AgentWorld) -> None:
    agent = await world.create()
    for named in (agent.id, agent.name):
        with pytest.raises(NotFound):
            await world.agents.get(world.other, named)
        with pytest.raises(NotFound):
            await world.agents.update(world.other, named, SOMEBODY, AgentPatch(prompt="x"))
        with pytest.raises(NotFound):
            await world.agents.delete(world.other, named)
        with pytest.raises(NotFound):
            await world.agents.pin(world.other, named)
    assert await world.agents.list(world.other, limit=9) == []


async def test_pages_are_newest_first(world: AgentWorld) -> None:
    made: list[Any] = []
    for number in range(5):
        world.clock.advance(number % 2)
        made.append(await world.create(f"agent {number}"))
    seen = list(await world.agents.list(world.org, limit=2))
    while page := await world.agents.list(world.org, limit=2, before=seen[-1]):
        seen += page
    assert sorted(seen, key=lambda each: each.id) == sorted(made, key=lambda each: each.id)
    assert [each.created_at for each in seen] == sorted((each.created_at for each in made), reverse=True)


# What sessions keep


async def test_a_session_keeps_what_its_agent_was(world: AgentWorld) -> None:
    world.models.providers = frozenset({"anthropic"})
    agent = await world.create(prompt="one", limits=SessionLimits(turns=3), checkpoints_kept=4)
    await update(world, prompt="two")
    pinned = await world.agents.pin(world.org, "agent")
    assert (pinned.agent_id, pinned.version, pinned.revision, pinned.prompt) == (agent.id, 2, 2, "two")
    assert (pinned.model, pinned.runtime, pinned.credential) == (CLAUDE, "claude", MANAGED)
    assert (pinned.limits, pinned.checkpoints_kept) == (SessionLimits(turns=3), 4)
    assert pinned.prompt_hash.startswith("sha256:")
    for named in (1, agent.revision.id):
        older = await world.agents.pin(world.org, "agent", revision=named)
        assert (older.revision, older.prompt, older.digest) == (1, "one", agent.revision.digest)
    other = await world.agents.pin(world.org, "agent", model=OPUS)
    assert (other.model, other.revision) == (OPUS, 2)
    for unknown in (0, -1, 3, 2**80, "rev_x"):
        with pytest.raises(NotFound):
            await world.agents.pin(world.org, "agent", revision=unknown)
    with pytest.raises(ModelRuntimeMismatch):
        await world.agents.pin(world.org, "agent", model=GPT)
    with pytest.raises(InvalidInput):
        await world.agents.pin(world.org, "agent", model="opus")


async def test_a_session_gets_the_skills_of_its_revision(world: AgentWorld) -> None:
    world.models.providers = frozenset({"anthropic"})
    await world.create()
    files = [SkillText("greet/SKILL.md", "hello"), SkillText("greet/run.sh", "echo", executable=True)]
    await world.deployments.set_skills(world.org, "agent", SOMEBODY, bundle_of(files))
    pinned = await world.agents.pin(world.org, "agent")
    await world.deployments.set_skills(world.org, "agent", SOMEBODY, None)
    await world.agents.delete(world.org, "agent")
    found = await world.agents.skills(world.org, pinned)
    assert [(each.path, each.content, each.executable) for each in found] == [
        ("greet/SKILL.md", b"hello", False),
        ("greet/run.sh", b"echo", True),
    ]
    assert await world.agents.skills(world.other, pinned) == ()
