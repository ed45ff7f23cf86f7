"""What all tests share."""

from __future__ import annotations

import pytest
import structlog
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
# The default draws coloured tracebacks, which takes longer than most tests.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.processors.format_exc_info,
        structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
    ]
)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
