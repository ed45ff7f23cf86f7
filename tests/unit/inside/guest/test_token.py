from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.host_guest import TOKEN, host_guest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_the_token_is_not_left_in_the_guests_environment(tmp_path: Path) -> None:
    async with host_guest(tmp_path) as running:
        environment = await asyncio.to_thread(Path(f"/proc/{running.pid}/environ").read_bytes)
    assert b"PATH=" in environment
    assert TOKEN.encode() not in environment
