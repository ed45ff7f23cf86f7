"""Real machines on gVisor, each test with a node of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support.driver_harness import GvisorHarness, gvisor_harness, why_no_gvisor


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def harness(tmp_path: Path, anyio_backend: str) -> AsyncGenerator[GvisorHarness]:
    missing = why_no_gvisor()
    if missing:
        pytest.skip(missing)
    async with gvisor_harness(tmp_path) as made:
        yield made
