# Generated from src/opencomputer/sdk/api_client.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.api_client`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk import api_client as sdk

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class ApiClient(Twin):
    """A part of the API, with a connection of its own. Close it, or use it as a context manager.

    The key and the address of the server default to `OPENCOMPUTER_API_KEY` and `OPENCOMPUTER_API_URL`. What
    the server refuses raises an `OpenComputerError` (`NotSupportedError` where it does not offer this part),
    a server that cannot be reached an `httpx.TransportError`.
    """

    def __init__(self, api_key: str | None = None, api_url: str | None = None) -> None:
        super().__init__(sdk.ApiClient(api_key, api_url))

    def close(self) -> None:
        """Close the connections; may be called again."""
        self._run(self._original.close())

    def __enter__(self) -> Self:
        return self._self_or(type(self), self._run(self._original.__aenter__()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._original.__aexit__(kind, error, trace))

    @property
    def _original(self) -> sdk.ApiClient:
        return cast("sdk.ApiClient", self._wrapped)
