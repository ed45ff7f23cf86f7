# Generated from src/opencomputer/sdk/hosted/parts.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.hosted.parts`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.hosted.connection import HostedClient
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk.hosted import parts as sdk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opencomputer.sdk.hosted.records import (
        ChannelChange,
        Entitlement,
        HostedChannel,
        HostedPackage,
        HostedSecret,
        PackageChange,
    )


class HostedParts(HostedClient):
    """The part of `HostedAgents` that is about secrets, channels and packages."""

    def __init__(self, api_key: str | None = None, base_url: str | None = None) -> None:
        Twin.__init__(self, sdk.HostedParts(api_key, base_url))

    def set_secret(
        self, agent_id: str, key: str, value: str, *, allowed_hosts: Sequence[str] | None = None
    ) -> HostedSecret:
        """Set a secret of an agent; running instances see it after `restart`."""
        return self._run(self._original.set_secret(agent_id, key, value, allowed_hosts=allowed_hosts))

    def list_secrets(self, agent_id: str) -> list[HostedSecret]:
        """The names of an agent's secrets and their hosts, never the values."""
        return self._run(self._original.list_secrets(agent_id))

    def delete_secret(self, agent_id: str, key: str) -> None:
        """Delete a secret. Raises `NotFoundError`."""
        self._run(self._original.delete_secret(agent_id, key))

    def connect_channel(self, agent_id: str, channel: str, **fields: object) -> ChannelChange:
        """Connect a messaging platform: "telegram" with `bot_token`, "slack" with its tokens."""
        return self._run(self._original.connect_channel(agent_id, channel, **fields))

    def entitlement(self, agent_id: str, channel: str) -> Entitlement:
        """Whether a channel may be connected, where a server lets that be paid for."""
        return self._run(self._original.entitlement(agent_id, channel))

    def disconnect_channel(self, agent_id: str, channel: str) -> None:
        """Disconnect a messaging platform; nothing of it stays."""
        self._run(self._original.disconnect_channel(agent_id, channel))

    def list_channels(self, agent_id: str) -> list[HostedChannel]:
        """The messaging platforms that an agent is connected to."""
        return self._run(self._original.list_channels(agent_id))

    def install_package(self, agent_id: str, package: str) -> PackageChange:
        """Install a package, as "gbrain"; one that is there already stays as it is."""
        return self._run(self._original.install_package(agent_id, package))

    def uninstall_package(self, agent_id: str, package: str) -> None:
        """Take a package away. Its data is kept for when it is installed again."""
        self._run(self._original.uninstall_package(agent_id, package))

    def list_packages(self, agent_id: str) -> list[HostedPackage]:
        """The packages that an agent has."""
        return self._run(self._original.list_packages(agent_id))

    @property
    def _original(self) -> sdk.HostedParts:
        return cast("sdk.HostedParts", self._wrapped)
