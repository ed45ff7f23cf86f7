from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support.agents import AgentWorld, agent_world


@pytest.fixture
async def world(tmp_path: Path, anyio_backend: str) -> AsyncGenerator[AgentWorld]:
    async with agent_world(tmp_path) as made:
        yield made
