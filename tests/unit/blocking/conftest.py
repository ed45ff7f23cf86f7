"""A fake node, and a sandbox on it for those who block."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opencomputer.blocking import Sandbox
from tests.support.fake_node import FakeNode


@pytest.fixture(scope="module")
def node() -> Iterator[FakeNode]:
    with FakeNode() as node:
        yield node


@pytest.fixture
def sandbox(node: FakeNode) -> Iterator[Sandbox]:
    with Sandbox.create(api_key=node.api_key, api_url=node.url) as sandbox:
        yield sandbox
