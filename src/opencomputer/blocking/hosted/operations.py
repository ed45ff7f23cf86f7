# Generated from src/opencomputer/sdk/hosted/operations.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.hosted.operations`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.hosted.connection import HostedClient
from opencomputer.blocking.support.page import Page
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk.hosted import operations as sdk

if TYPE_CHECKING:
    from opencomputer.sdk.hosted.records import HostedEvent, HostedLogs, Operation


class HostedOperations(HostedClient):
    """The part of `HostedAgents` that is about how its agents do."""

    def __init__(self, api_key: str | None = None, base_url: str | None = None) -> None:
        Twin.__init__(self, sdk.HostedOperations(api_key, base_url))

    def operations(
        self, agent_id: str, *, limit: int | None = None, before: str | None = None
    ) -> Page[Operation]:
        """An agent's operations, newest first; `before` is a time (RFC 3339)."""
        return Page(self._run(self._original.operations(agent_id, limit=limit, before=before)))

    def get_operation(self, agent_id: str, operation_id: str) -> Operation:
        """One operation. Raises `NotFoundError`."""
        return self._run(self._original.get_operation(agent_id, operation_id))

    def wait_operation(
        self, agent_id: str, operation_id: str, *, timeout: float | None = 600.0, interval: float = 1.0
    ) -> Operation:
        """Ask every `interval` seconds until an operation has ended, and return it.

        Raises `OperationFailedError` when it failed or was canceled, `TimeoutError` after `timeout` seconds.
        """
        return self._run(
            self._original.wait_operation(agent_id, operation_id, timeout=timeout, interval=interval)
        )

    def events(
        self, agent_id: str, *, limit: int | None = None, before: str | None = None
    ) -> Page[HostedEvent]:
        """What happened to an agent, newest first, at most 200 a page; `before` is a time (RFC 3339)."""
        return Page(self._run(self._original.events(agent_id, limit=limit, before=before)))

    def restart(self, agent_id: str) -> Operation | None:
        """Start the agent's program again; changed secrets are seen from then on."""
        return self._run(self._original.restart(agent_id))

    def logs(self, agent_id: str, *, tail: int = 300) -> HostedLogs:
        """The last lines of the log of the agent's program."""
        return self._run(self._original.logs(agent_id, tail=tail))

    @property
    def _original(self) -> sdk.HostedOperations:
        return cast("sdk.HostedOperations", self._wrapped)
