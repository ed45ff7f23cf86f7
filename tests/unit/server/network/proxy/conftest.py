"""Everything here runs in the event loop that nodes run in."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.support.egress import Internet, internet


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def net(anyio_backend: object) -> AsyncGenerator[Internet]:
    async with internet() as made:
        yield made
