"""The console of a machine costs the server next to nothing, whatever the machine prints."""

from __future__ import annotations

import asyncio
import os

import pytest

from opencomputer.server.drivers.gvisor.console import Console

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_what_was_printed_is_kept() -> None:
    read, write = os.pipe()
    console = Console(read)
    os.write(write, b"no module named guest\n")
    await settled()
    os.close(write)
    await settled()
    assert console.text == "no module named guest"


async def test_a_flood_is_cut_and_the_pipe_closed() -> None:
    """A machine that prints for ever gets an error, not our attention."""
    read, write = os.pipe()
    console = Console(read)
    with pytest.raises(BrokenPipeError):  # noqa: PT012
        for _ in range(100):
            os.write(write, b"x" * 4096)
            await settled()
    assert len(console.text) <= 1 << 15
    os.close(write)
    console.close()


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)
