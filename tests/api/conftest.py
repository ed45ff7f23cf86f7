from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

import pytest

from tests.support.migrated import migrated_once
from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of, kill_all
from tests.support.trust import one_authority


@pytest.fixture(scope="package", autouse=True)
def little_to_begin_with(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    folder = tmp_path_factory.mktemp("beginning")
    with one_authority(folder), migrated_once(folder):
        yield


@pytest.fixture(scope="module")
async def folder(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> NodeFolder:
    return NodeFolder(tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
async def api(folder: NodeFolder) -> AsyncGenerator[Api]:
    """A node, as its first organisation sees it. What a test leaves running is killed at the end."""
    async with folder.running(POOL_MAX="1") as url, api_of(url, FIRST_KEY) as made:
        yield made
        await kill_all(made)


@pytest.fixture(scope="module")
async def other(folder: NodeFolder, api: Api) -> AsyncGenerator[Api]:
    """Another organisation on the same node."""
    async with api_of(api.url, await folder.second_organisation()) as made:
        yield made
        await kill_all(made)


@pytest.fixture(scope="module")
async def sandbox(api: Api) -> str:
    """A sandbox that all tests of a module share."""
    return (await api.create())["sandboxID"]


@pytest.fixture
async def nothing_left(api: Api, sandbox: str) -> AsyncGenerator[None]:
    """For tests that make many sandboxes: each kills its own, so that no more than a few run at once."""
    yield
    for each in (await api.get("/sandboxes")).json():
        if each["sandboxID"] != sandbox:
            await api.delete(f"/sandboxes/{each['sandboxID']}")
