"""What a sandbox asks of a model goes on without what it sent to prove itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from opencomputer.server.contracts.models import ModelRequest, ModelResponse
from opencomputer.server.services.sandboxes.gateway import ModelCall, ModelGateway

pytestmark = pytest.mark.anyio


async def nothing() -> AsyncIterator[bytes]:
    for piece in ():
        yield piece


class RecordingProvider:
    """Implements ModelProvider."""

    name = "recording"
    providers = frozenset({"anthropic"})
    available = True

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    @asynccontextmanager
    async def answer(self, request: ModelRequest) -> AsyncGenerator[ModelResponse]:
        self.requests.append(request)
        yield ModelResponse(200, [], nothing())

    async def close(self) -> None:
        return


async def test_no_credential_of_the_sandbox_reaches_the_provider() -> None:
    provider = RecordingProvider()
    headers = [
        ("X-Api-Key", "placeholder"),
        ("authorization", "Bearer x"),
        ("Cookie", "a=b"),
        ("Proxy-Authorization", "Basic x"),
        ("anthropic-version", "2023-06-01"),
        ("content-type", "application/json"),
    ]
    async with ModelGateway(provider).answer(
        ModelCall("POST", "/v1/messages", "beta=true", headers, nothing())
    ) as answer:
        assert answer.status == 200
    (request,) = provider.requests
    assert (request.method, request.path, request.query) == ("POST", "/v1/messages", "beta=true")
    assert [name for name, _ in request.headers] == ["anthropic-version", "content-type"]


def test_the_gateway_is_there_when_its_provider_is() -> None:
    provider = RecordingProvider()
    assert ModelGateway(provider).available
    provider.available = False
    assert not ModelGateway(provider).available
