from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.support.session_world import SessionServer, SessionWorld, session_server


@pytest.fixture(scope="module")
async def server(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncGenerator[SessionServer]:
    async with session_server(tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture
async def world(server: SessionServer) -> AsyncGenerator[SessionWorld]:
    async with server.world() as made:
        yield made
