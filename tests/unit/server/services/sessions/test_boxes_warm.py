"""Brains that run already when their session comes into being."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.runtimes import SkillFile
from opencomputer.server.domain.errors import MachineLost
from opencomputer.server.services.sandboxes.warm import WarmMachines
from opencomputer.server.services.sessions.boxes import SessionBoxes
from opencomputer.server.services.sessions.boxes_sandboxes import Role
from tests.support.sessions import admitted
from tests.support.waiting import eventually
from tests.unit.server.services.harness import ORG, on
from tests.unit.server.services.sessions.boxes_world import World, world

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Real time: that of the database passes whatever the loop's does."""
    return "asyncio"


@pytest.fixture
async def boxed(tmp_path: Path, anyio_backend: object) -> AsyncGenerator[World]:
    async with world(tmp_path) as made:
        process = made.process
        warm = WarmMachines(process.pool, process.provisioning, made.node.templates, process.clock)
        made.boxes = SessionBoxes(replace(made.parts, warm=warm))
        yield made


async def _one_waits(boxed: World, sessions: int) -> None:
    """As many brains run as there are sessions, and one more."""
    await eventually(lambda: len(boxed.brains()) == sessions + 1)


async def test_the_second_session_gets_a_brain_that_runs_already(boxed: World) -> None:
    first, second = await admitted(boxed.tables, ORG), await admitted(boxed.tables, ORG)
    await boxed.brain(first)
    await _one_waits(boxed, 1)
    before = len(boxed.programs.started)
    boxed.node.host.started.clear()
    await boxed.brain(second)
    assert (await boxed.machine(second, Role.BRAIN)).id not in [each.id for each in boxed.node.host.started]
    sandbox = await boxed.sandbox(second, Role.BRAIN)
    assert sandbox.network_enabled is False
    assert sandbox.metadata == {"oc.session": second.id, "oc.role": "brain"}
    assert len([each for each in boxed.programs.started[:before] if each.exit is None]) == 2
    await _one_waits(boxed, 2)


async def test_a_brain_with_skills_is_started_for_its_session(boxed: World) -> None:
    boxed.agents.files = [SkillFile("writing/SKILL.md", b"# Writing", executable=False)]
    await boxed.brain(await admitted(boxed.tables, ORG, skill_bundle_digest="abc"))
    await boxed.brain(await admitted(boxed.tables, ORG, skill_bundle_digest="abc"))
    assert len(boxed.brains()) == 2
    assert len(boxed.node.host.machines) == 2


async def test_one_that_is_lost_while_it_is_given_is_replaced(boxed: World) -> None:
    first, second = await admitted(boxed.tables, ORG), await admitted(boxed.tables, ORG)
    await boxed.brain(first)
    await _one_waits(boxed, 1)
    install = boxed.node.host.before
    fails = on("identify", MachineLost(), times=1)

    async def before(step: str, machine_id: MachineId) -> None:
        await install(step, machine_id)
        await fails(step, machine_id)

    boxed.node.host.before = before
    await boxed.brain(second)
    assert not (await boxed.machine(second, Role.BRAIN)).lost
    assert await boxed.told(second) == [("sandbox.created", "brain")]
