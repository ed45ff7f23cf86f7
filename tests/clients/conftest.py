from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support.server import ServerProcess, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServerProcess]:
    """A real node with gVisor and the scripted model, one for each module."""
    with running_server(tmp_path_factory.mktemp("node")) as running:
        yield running
