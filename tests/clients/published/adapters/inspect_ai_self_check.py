"""Inspect AI's own checks of a sandbox provider, on ours. Run by pytest in the adapters' environment."""

from types import SimpleNamespace

import anyio
import pytest
from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.self_check import *  # noqa: F403 - the checks are to be collected here

from opencomputer.integrations.inspect_ai import OpenComputerSandbox

# They give a killed process five seconds to be gone. Ours are gone at once, and have to be.
self_check.anyio = SimpleNamespace(sleep=lambda _: anyio.sleep(0.2))


@pytest.fixture(scope="module")
async def shared_sandbox():
    environments = await OpenComputerSandbox.sample_init("self_check", None, {})
    yield environments["default"]
    await OpenComputerSandbox.sample_cleanup("self_check", None, environments, False)


@pytest.fixture
def sandbox_env(shared_sandbox):
    """The checks want this name. None of them is expected to fail."""
    return shared_sandbox
