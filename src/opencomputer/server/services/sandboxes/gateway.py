"""The managed way to a model: what a sandbox asks is sent on with the operator's credential, not its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from opencomputer.server.contracts.models import Header, ModelProvider, ModelRequest, ModelResponse

# What the caller sent to prove itself means nothing to the provider, and the placeholder must not reach it.
_CREDENTIAL_HEADERS = frozenset({"x-api-key", "authorization", "cookie", "proxy-authorization"})


@dataclass(frozen=True)
class ModelCall:
    """A request for a model as it came in. `path` is below the gateway's base."""

    method: str
    path: str
    query: str
    headers: Sequence[Header]
    body: AsyncIterator[bytes]


class ModelGateway:
    def __init__(self, provider: ModelProvider) -> None:
        self._provider = provider

    @property
    def available(self) -> bool:
        return self._provider.available

    def answer(self, call: ModelCall) -> AbstractAsyncContextManager[ModelResponse]:
        return self._provider.answer(forwarded(call))


def forwarded(call: ModelCall) -> ModelRequest:
    """What a provider is asked."""
    headers = [(name, value) for name, value in call.headers if name.lower() not in _CREDENTIAL_HEADERS]
    return ModelRequest(call.method, call.path, call.query, headers, call.body)
