"""A whole node on real machines, one for each module that asks for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass

import pytest

from opencomputer import Sandbox
from tests.support.driver_harness import why_no_gvisor
from tests.support.host_state import host_state, node_state
from tests.support.node import Api, api_of
from tests.support.outside_world import PUBLIC, OutsideWorld, outside_world
from tests.support.server import ServerProcess, running_server


@pytest.fixture(scope="module")
def golden_given() -> bool:
    """Whether `server` may be given a golden image. Modules that have it make its own say False."""
    return True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, golden_given: bool) -> Generator[ServerProcess]:
    """A real node; when it is done, nothing of it is left on the host."""
    yield from _node_that_leaves_nothing(tmp_path_factory, golden_given=golden_given)


@pytest.fixture(scope="package")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServerProcess]:
    """As `server`, for all modules whose tests leave it alone."""
    yield from _node_that_leaves_nothing(tmp_path_factory)


def _node_that_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory, *, golden_given: bool = True
) -> Generator[ServerProcess]:
    missing = why_no_gvisor()
    if missing:
        pytest.skip(missing)
    with running_server(tmp_path_factory.mktemp("node"), golden_given=golden_given) as running:
        yield running
        tag, data = running.node_tag, running.data
    assert [*host_state(tag, data), *node_state(tag)] == []


@dataclass
class Setting:
    server: ServerProcess
    world: OutsideWorld


@pytest.fixture(scope="package")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Generator[Setting]:
    """A node whose names come from a small internet, and which trusts its authority."""
    missing = why_no_gvisor()
    if missing:
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("egress")
    with outside_world(folder) as world:
        with running_server(
            folder / "node",
            OPENCOMPUTER_NAME_SERVERS=f"{PUBLIC}:53",
            SSL_CERT_FILE=str(world.authority),
        ) as server:
            yield Setting(server, world)
            tag, data = server.node_tag, server.data
        assert [*host_state(tag, data), *node_state(tag)] == []


@pytest.fixture(scope="module")
async def api(server: ServerProcess, anyio_backend: str) -> AsyncGenerator[Api]:
    async with api_of(server.url, server.api_key) as made:
        yield made


@pytest.fixture(scope="module")
async def sandbox(server: ServerProcess, anyio_backend: str) -> AsyncGenerator[Sandbox]:
    """A sandbox that all tests of a module share."""
    async with Sandbox.create(api_url=server.url, api_key=server.api_key) as made:
        yield made
