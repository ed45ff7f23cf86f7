"""Every driver, behind one fixture."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.driver_harness import DriverHarness, fake_harness, gvisor_harness, why_no_gvisor


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["fake", pytest.param("gvisor", marks=pytest.mark.machines)])
async def harness(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[DriverHarness]:
    if request.param == "fake":
        async with fake_harness(tmp_path) as made:
            yield made
        return
    missing = why_no_gvisor()
    if missing:
        pytest.skip(missing)
    async with gvisor_harness(tmp_path) as made:
        yield made
