"""Inspect AI's own checks of a sandbox provider, on the adapter. Run by pytest in Inspect's environment."""

import pytest
from adapter import OpenComputerSandbox
from inspect_ai.util._sandbox.self_check import *  # noqa: F403 - the checks are to be collected here

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def shared_sandbox(anyio_backend):
    environments = await OpenComputerSandbox.sample_init("self_check", None, {})
    yield environments["default"]
    await OpenComputerSandbox.sample_cleanup("self_check", None, environments, False)


@pytest.fixture
def sandbox_env(shared_sandbox):
    """The checks want this name. None of them is expected to fail."""
    return shared_sandbox
