"""What is added to a hosted agent: secrets, channels and packages."""

from __future__ import annotations

from collections.abc import Sequence

from opencomputer.sdk.control_plane import Call, get
from opencomputer.sdk.durable.bodies import set_members
from opencomputer.sdk.hosted.connection import HostedClient, agent_path
from opencomputer.sdk.hosted.records import (
    ChannelChange,
    Entitlement,
    HostedChannel,
    HostedPackage,
    HostedSecret,
    PackageChange,
)
from opencomputer.sdk.texts import listed_if_given


class HostedParts(HostedClient):
    """The part of `HostedAgents` that is about secrets, channels and packages."""

    async def set_secret(
        self, agent_id: str, key: str, value: str, *, allowed_hosts: Sequence[str] | None = None
    ) -> HostedSecret:
        """Set a secret of an agent; running instances see it after `restart`."""
        body = set_members(value=value, allowed_hosts=listed_if_given(allowed_hosts, "allowed_hosts"))
        call = Call("PUT", agent_path(agent_id, "secrets", key), repeatable=True, json=body)
        return HostedSecret.read({"key": key, **await self._object(call)})

    async def list_secrets(self, agent_id: str) -> list[HostedSecret]:
        """The names of an agent's secrets and their hosts, never the values."""
        return await self._listed(agent_path(agent_id, "secrets"), "secrets", HostedSecret)

    async def delete_secret(self, agent_id: str, key: str) -> None:
        """Delete a secret. Raises `NotFoundError`."""
        await self._deleted(agent_path(agent_id, "secrets", key))

    async def connect_channel(self, agent_id: str, channel: str, **fields: object) -> ChannelChange:
        """Connect a messaging platform: "telegram" with `bot_token`, "slack" with its tokens."""
        call = Call("POST", agent_path(agent_id, "channels", channel), json=fields)
        return ChannelChange.read(await self._object(call))

    async def entitlement(self, agent_id: str, channel: str) -> Entitlement:
        """Whether a channel may be connected, where a server lets that be paid for."""
        path = agent_path(agent_id, "channels", channel, "entitlement")
        return Entitlement.read(await self._object(get(path)))

    async def disconnect_channel(self, agent_id: str, channel: str) -> None:
        """Disconnect a messaging platform; nothing of it stays."""
        await self._deleted(agent_path(agent_id, "channels", channel))

    async def list_channels(self, agent_id: str) -> list[HostedChannel]:
        """The messaging platforms that an agent is connected to."""
        return await self._listed(agent_path(agent_id, "channels"), "channels", HostedChannel)

    async def install_package(self, agent_id: str, package: str) -> PackageChange:
        """Install a package, as "gbrain"; one that is there already stays as it is."""
        return PackageChange.read(await self._object(Call("POST", agent_path(agent_id, "packages", package))))

    async def uninstall_package(self, agent_id: str, package: str) -> None:
        """Take a package away. Its data is kept for when it is installed again."""
        await self._deleted(agent_path(agent_id, "packages", package))

    async def list_packages(self, agent_id: str) -> list[HostedPackage]:
        """The packages that an agent has."""
        return await self._listed(agent_path(agent_id, "packages"), "packages", HostedPackage)
