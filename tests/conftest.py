"""What all tests share."""

from __future__ import annotations

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
