"""Real machines on gVisor, each test with a node of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.driver_harness import GvisorHarness, gvisor_harness, why_no_gvisor
from tests.support.namespaces import Namespace
from tests.support.network_world import World, a_node, world_outside


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


@pytest.fixture
def outside() -> Generator[Namespace]:
    with world_outside() as namespace:
        yield namespace


@pytest.fixture
async def world(outside: Namespace, tmp_path: Path, anyio_backend: str) -> AsyncGenerator[World]:
    async with a_node(tmp_path) as network:
        with ExitStack() as cables:
            yield World(network, outside, cables)
