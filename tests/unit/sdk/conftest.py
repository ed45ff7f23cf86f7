"""A fake node, and a sandbox of the SDK on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from opencomputer import Sandbox
from tests.support.fake_node import FakeNode
from tests.support.fake_node.node import FakeSandbox


@pytest.fixture
def node() -> Iterator[FakeNode]:
    with FakeNode() as node:
        yield node


@pytest.fixture
async def sandbox(node: FakeNode) -> AsyncIterator[Sandbox]:
    sandbox = await Sandbox.create(api_key=node.api_key, api_url=node.url)
    yield sandbox
    await sandbox.close()


@pytest.fixture
def inside(node: FakeNode, sandbox: Sandbox) -> FakeSandbox:
    """The server's side of the sandbox."""
    return node.sandboxes[sandbox.sandbox_id]
