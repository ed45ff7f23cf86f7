# Generated from src/opencomputer/sdk/hosted/client.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.hosted.client`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.hosted.instances import HostedInstances
from opencomputer.blocking.hosted.operations import HostedOperations
from opencomputer.blocking.hosted.parts import HostedParts
from opencomputer.blocking.hosted.sessions import HostedSessions
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk.hosted import client as sdk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opencomputer.sdk.hosted.records import HostedAgent


class HostedAgents(HostedInstances, HostedSessions, HostedParts, HostedOperations):
    """Hosted agents. Close it, or use it as a context manager.

    The key defaults to `OPENCOMPUTER_API_KEY`; the address is the root of a server, by default that of
    `OPENCOMPUTER_API_URL`. They are an optional part of a server: where they are not offered,
    `NotSupportedError` is raised.
    """

    def __init__(self, api_key: str | None = None, base_url: str | None = None) -> None:
        Twin.__init__(self, sdk.HostedAgents(api_key, base_url))

    def create(
        self,
        id: str,
        core: str | None = None,
        *,
        config: Mapping[str, object] | None = None,
        secrets: Mapping[str, str] | None = None,
        model: str | None = None,
        display_name: str | None = None,
        wait: bool = True,
    ) -> HostedAgent:
        """Make an agent: with a `core`, "hermes" or "openclaw", or raw with a `config` of its own.

        `id` is yours to choose: lower-case letters, digits and hyphens. With `wait` this returns when the
        agent is ready, half a minute later as a rule, and raises `OperationFailedError` when that fails.
        Raises `ConflictError` when there is an agent of this id.
        """
        return self._run(
            self._original.create(
                id, core, config=config, secrets=secrets, model=model, display_name=display_name, wait=wait
            )
        )

    def list(self) -> list[HostedAgent]:
        """All agents, without how they do: see `get`."""
        return self._run(self._original.list())

    def get(self, id: str) -> HostedAgent:
        """An agent and how it does. Raises `NotFoundError`."""
        return self._run(self._original.get(id))

    def update(
        self,
        id: str,
        *,
        display_name: str | None = None,
        config: Mapping[str, object] | None = None,
        model: str | None = None,
    ) -> HostedAgent:
        """Change what is given."""
        return self._run(self._original.update(id, display_name=display_name, config=config, model=model))

    def delete(self, id: str) -> None:
        """Delete an agent with its sessions, instances, channels and secrets. Raises `NotFoundError`."""
        self._run(self._original.delete(id))

    @property
    def _original(self) -> sdk.HostedAgents:
        return cast("sdk.HostedAgents", self._wrapped)
