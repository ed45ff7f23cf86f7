"""What the clients of an organisation's things have in common: their connection, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from opencomputer.sdk import answers
from opencomputer.sdk.control_plane import ControlPlane
from opencomputer.sdk.endpoint import Endpoint

if TYPE_CHECKING:
    from types import TracebackType

    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.control_plane import Call


class ApiClient:
    """A part of the API, with a connection of its own. Close it, or use it as a context manager.

    The key and the address of the server default to `OPENCOMPUTER_API_KEY` and `OPENCOMPUTER_API_URL`. What
    the server refuses raises an `OpenComputerError` (`NotSupportedError` where it does not offer this part),
    a server that cannot be reached an `httpx.TransportError`.
    """

    def __init__(self, api_key: str | None = None, api_url: str | None = None) -> None:
        self._plane = ControlPlane(Endpoint.resolve(api_key, api_url))

    async def close(self) -> None:
        """Close the connections; may be called again."""
        await self._plane.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _object(self, call: Call) -> JsonObject:
        return answers.json_object(await self._plane.json(call))

    async def _objects(self, call: Call) -> list[JsonObject]:
        return answers.json_objects(await self._plane.json(call))
