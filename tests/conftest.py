"""What all tests share."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator

import pytest
import structlog
from hypothesis import settings

from tests.support.rounds import rounds

# How long an example takes says more about the machine than about the code.
settings.register_profile("patient", deadline=None, max_examples=rounds(30))
settings.load_profile("patient")
# A shell starts what runs in its background so that Ctrl-C passes it by; every program that a test starts
# would inherit that, and tests that press it would do so in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The default draws coloured tracebacks, which takes longer than most tests.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.processors.format_exc_info,
        structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
    ]
)


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Generator[None]:
    """Loggers keep what they found at their first use: who configures logs spoils every test that follows."""
    before = structlog.get_config()["processors"]
    yield
    assert structlog.get_config()["processors"] is before, "this test configured the logs of its process"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_finish() -> None:
    """What was loaded until now stays: the collector need not look through it again and again."""
    gc.collect()
    gc.freeze()
