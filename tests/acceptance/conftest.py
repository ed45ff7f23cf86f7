"""A whole node on real machines, one for each module that asks for it."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support.driver_harness import why_no_gvisor
from tests.support.server import ServerProcess, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServerProcess]:
    missing = why_no_gvisor()
    if missing:
        pytest.skip(missing)
    with running_server(tmp_path_factory.mktemp("node")) as made:
        yield made
