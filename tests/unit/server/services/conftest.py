from __future__ import annotations

from typing import Any

import pytest

from tests.support.virtual_time import virtual_backend
from tests.unit.server.services.harness import Node


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return virtual_backend()


@pytest.fixture
def node(tmp_path: Any) -> Node:
    return Node(tmp_path)
