"""One call of a client: what must go over the wire, and what must come of the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pytest

from opencomputer import NotSupportedError
from tests.support.fake_node import FakeNode, Rule

C = TypeVar("C")

UNSUPPORTED = {"error": "usage: not supported by this server yet", "code": "not_supported"}


@dataclass(frozen=True)
class Asked:
    """A request, exactly."""

    method: str
    path: str
    body: object = None
    query: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Exchange(Generic[C]):
    """`call` must send `asked`, and make `gives` of `answer`."""

    id: str
    call: Callable[[C], Awaitable[object]]
    asked: Asked
    answer: object
    gives: object
    status: int = 200


async def check(node: FakeNode, client: C, exchange: Exchange[C]) -> None:
    """Carry it out, and compare."""
    asked = exchange.asked
    node.seen.clear()
    node.rules.append(Rule(asked.method, asked.path, exchange.status, exchange.answer))
    given = await exchange.call(client)
    assert [Asked(seen.method, seen.path, seen.body, seen.query) for seen in node.seen] == [asked]
    assert node.seen[0].headers["x-api-key"] == node.api_key
    assert node.seen[0].headers["x-oc-sdk-version"]
    assert given == exchange.gives


async def check_unsupported(node: FakeNode, client: C, exchange: Exchange[C]) -> None:
    """A server that does not offer it is told apart from one that fails, and is asked once."""
    node.seen.clear()
    node.rules.append(Rule(exchange.asked.method, exchange.asked.path, 501, UNSUPPORTED))
    with pytest.raises(NotSupportedError, match="not supported by this server yet"):
        await exchange.call(client)
    assert len(node.seen) == 1
