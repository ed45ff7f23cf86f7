from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from opencomputer.server.machines.machine import LinkedMachine
from tests.support.host_guest import HostGuest, host_guest, linked_machine
from tests.support.real_clock import RealClock


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of the machine's user."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
async def running(home: Path) -> AsyncGenerator[HostGuest]:
    async with host_guest(home) as guest:
        yield guest


@pytest.fixture
async def machine(running: HostGuest) -> AsyncGenerator[LinkedMachine]:
    async with linked_machine(running, RealClock()) as linked:
        yield linked
