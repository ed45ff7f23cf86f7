from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support.agents import AgentWorld, agent_world
from tests.support.starter_world import StarterWorld


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop for all tests of a module, which share a database."""
    return "asyncio"


@pytest.fixture(scope="module")
async def world(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncGenerator[tuple[AgentWorld, Path]]:
    """And where its database is."""
    folder = tmp_path_factory.mktemp("world")
    async with agent_world(folder) as made:
        yield made, folder / "opencomputer.db"


@pytest.fixture
async def starters(world: tuple[AgentWorld, Path]) -> AsyncGenerator[StarterWorld]:
    agents, file = world
    made = StarterWorld(agents, agents.database, file)
    yield made
    await made.leave()
