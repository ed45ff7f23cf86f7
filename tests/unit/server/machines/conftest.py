from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from opencomputer.server.machines.machine import LinkedMachine
from tests.support.host_guest import HostGuest, host_guest, linked_machine
from tests.support.real_clock import RealClock


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def running() -> AsyncGenerator[HostGuest]:
    async with host_guest() as guest:
        yield guest


@pytest.fixture
async def machine(running: HostGuest) -> AsyncGenerator[LinkedMachine]:
    async with linked_machine(running, RealClock()) as linked:
        yield linked
