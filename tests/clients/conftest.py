from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support.server import ServerProcess, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServerProcess]:
    """A real node with gVisor and the scripted model, one a module; it sends webhooks to this machine."""
    folder = tmp_path_factory.mktemp("node")
    with running_server(folder, OPENCOMPUTER_ALLOW_PRIVATE_WEBHOOKS="1") as running:
        yield running
