"""Deployments: revisions made, found again, staged and activated; each key makes one."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.domain.errors import IdempotencyMismatch, NotFound
from opencomputer.server.domain.sessions.errors import Unsupported
from opencomputer.server.domain.sessions.skills import SkillBundle, SkillText, bundle_of
from opencomputer.server.services.sessions.agents import AgentPatch
from opencomputer.server.services.sessions.deployments import InlineDeployment
from opencomputer.server.services.sessions.editing import Edited
from tests.support.agents import GPT, SOMEBODY, AgentWorld

pytestmark = pytest.mark.anyio


def skills(text: str = "hello") -> SkillBundle:
    made = bundle_of([SkillText("greet/SKILL.md", text)])
    assert made is not None
    return made


async def deploy(world: AgentWorld, wanted: InlineDeployment) -> Edited:
    return await world.deployments.deploy(world.org, "agent", SOMEBODY, wanted)


async def test_skills_are_carried_over_by_edits_and_dropped_by_whole_deployments(world: AgentWorld) -> None:
    agent = await world.create(prompt="one")
    with_skills = await world.deployments.set_skills(world.org, "agent", SOMEBODY, skills())
    assert with_skills.agent.revision.number == 2
    edited = await world.agents.update(world.org, "agent", SOMEBODY, AgentPatch(prompt="two"))
    assert edited.revision.skill_bundle_digest == skills().digest
    assert await world.deployments.skills(edited, edited.revision) == skills()
    whole = await deploy(world, InlineDeployment("two"))
    assert whole.agent.revision.skill_bundle_digest is None
    same = await deploy(world, InlineDeployment("two", skills=skills()))
    assert same.deployment is not None
    assert (same.deployment.result, same.agent.revision) == ("deduped", edited.revision)
    removed = await world.deployments.set_skills(world.org, "agent", SOMEBODY, None)
    assert removed.agent.revision == whole.agent.revision
    assert agent.revision.number == 1


async def test_the_same_skills_are_kept_once_for_many_agents(world: AgentWorld) -> None:
    for name in ("agent", "another"):
        await world.create(name)
        await world.deployments.set_skills(world.org, name, SOMEBODY, skills())
    found = await world.agents.get(world.org, "another")
    assert await world.deployments.skills(found, found.revision) == skills()


async def test_runtimes_without_skills_refuse_them(world: AgentWorld) -> None:
    await world.create(model=GPT, runtime="codex")
    with pytest.raises(Unsupported):
        await deploy(world, InlineDeployment("x", skills=skills()))
    with pytest.raises(Unsupported):
        await world.deployments.require_takes_skills(world.org, "agent")


async def test_one_key_makes_one_deployment_however_many_ask_at_once(world: AgentWorld) -> None:
    agent = await world.create(prompt="one")
    wanted = InlineDeployment("two", idempotency_key="k", request_hash="h")
    made = await asyncio.gather(*[deploy(world, wanted) for _ in range(6)])
    assert len({each.deployment.id for each in made if each.deployment is not None}) == 1
    assert [each.replayed for each in made].count(False) == 1
    with pytest.raises(IdempotencyMismatch):
        await deploy(world, InlineDeployment("two", idempotency_key="k", request_hash="other"))
    assert len(await world.deployments.list(agent, limit=9)) == 2


async def test_activation_moves_the_pointer_and_no_more(world: AgentWorld) -> None:
    agent = await world.create(prompt="one")
    staged = await deploy(world, InlineDeployment("two", activate=False))
    assert staged.agent.revision == agent.revision
    moved = await world.deployments.activate(world.org, "agent", SOMEBODY, 2)
    assert (moved.revision.prompt, moved.version) == ("two", 3)
    assert await world.deployments.activate(world.org, "agent", SOMEBODY, moved.revision.id) == moved
    assert len(await world.deployments.activations(agent, limit=9, before=None)) == 2
    assert len(await world.deployments.list(agent, limit=9)) == 2
    with pytest.raises(NotFound):
        await world.deployments.activate(world.org, "agent", SOMEBODY, 3)
    other = await world.create("other")
    with pytest.raises(NotFound):
        await world.deployments.activate(world.org, "agent", SOMEBODY, other.revision.id)
