# Generated from src/opencomputer/sdk/hosted/connection.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.hosted.connection`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk.hosted import connection as sdk

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class HostedClient(Twin):
    """The connection, and what every part needs of it."""

    def __init__(self, api_key: str | None = None, base_url: str | None = None) -> None:
        super().__init__(sdk.HostedClient(api_key, base_url))

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
    def _original(self) -> sdk.HostedClient:
        return cast("sdk.HostedClient", self._wrapped)
