"""A sandbox that is being asked for."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from opencomputer.sdk.sandbox import Sandbox


class SandboxRequest(Coroutine[Any, Any, "Sandbox"]):
    """A sandbox that is being asked for; see `Sandbox.create`. Nothing is sent before it is awaited."""

    def __init__(self, request: Coroutine[Any, Any, Sandbox]) -> None:
        self._request = request
        self._sandbox: Sandbox | None = None

    def send(self, value: Any) -> Any:
        """Resume the request, as an event loop does."""
        return self._request.send(value)

    def throw(self, *arguments: Any) -> Any:
        """Raise an exception in the request, as an event loop does."""
        return self._request.throw(*arguments)

    def close(self) -> None:
        """Give the request up."""
        self._request.close()

    def __await__(self) -> Generator[Any, Any, Sandbox]:
        return self._request.__await__()

    async def __aenter__(self) -> Sandbox:
        self._sandbox = await self._request
        return self._sandbox

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sandbox:
            await self._sandbox.__aexit__(kind, error, trace)
