"""Who answers an agent that asks for a model.

A provider speaks the Messages API: requests go in as they arrived on the gateway, answers come out as they
are to be sent, piece by piece. It never sees who asked; that has been settled before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

Header = tuple[str, str]


@dataclass(frozen=True)
class ModelRequest:
    """One request for a model.

    `path` is below the gateway's base, `/v1/messages` for instance; `query` is without its question mark.
    `headers` no longer hold the caller's credentials. `body` is read at most once.
    """

    method: str
    path: str
    query: str
    headers: Sequence[Header]
    body: AsyncIterator[bytes]


@dataclass(frozen=True)
class ModelResponse:
    """One answer. `chunks` are to be passed on as they come, and may raise ModelInterrupted."""

    status: int
    headers: Sequence[Header]
    chunks: AsyncIterator[bytes]


class ModelInterrupted(Exception):
    """The answer ended before it was complete: break the connection off, so that the caller notices."""


class ModelProvider(Protocol):
    """Answers Messages API requests, or says in that API's own error shape why it cannot."""

    @property
    def name(self) -> str: ...

    @property
    def providers(self) -> frozenset[str]:
        """Whose models it answers for: what stands before the slash of a model's name."""
        ...

    @property
    def available(self) -> bool:
        """False when every request would be refused, for want of a key for instance."""
        ...

    def answer(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelResponse]:
        """Answer one request. Leaving the context gives the answer up, read to its end or not.

        Failures of the provider are answers too (502 and the like); only what goes wrong on the caller's
        side of the request, while its body is read, is raised.
        """
        ...

    async def close(self) -> None:
        """Let go of connections. Idempotent."""
        ...


class KeyedModels(Protocol):
    """The providers' own APIs, for whoever has a key. Their names are those of `domain/model_apis.py`."""

    def answer(
        self, provider: str, request: ModelRequest, key: str
    ) -> AbstractAsyncContextManager[ModelResponse]:
        """As ModelProvider.answer, with a key that counts for this request alone."""
        ...

    async def close(self) -> None:
        """Let go of connections. Idempotent."""
        ...
