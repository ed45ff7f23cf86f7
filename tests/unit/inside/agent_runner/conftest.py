from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.unit.inside.agent_runner.harness import Harness


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def harness() -> AsyncGenerator[Harness]:
    async with Harness() as running:
        yield running
