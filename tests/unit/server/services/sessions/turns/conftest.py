from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.support.virtual_time import virtual_backend
from tests.unit.server.services.sessions.turns.engine_harness import Platform, platform


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return virtual_backend()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[Platform]:
    async with platform(tmp_path) as made:
        yield made
