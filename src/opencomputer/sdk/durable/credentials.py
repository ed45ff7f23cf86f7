"""Keys for models: what `oc.credentials` offers."""

from __future__ import annotations

from opencomputer.sdk.durable.agent_records import Credential
from opencomputer.sdk.durable.bodies import set_members
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.records import Page, page_of
from opencomputer.sdk.paths import path_of


class Credentials:
    """The organisation's credentials. Keys go in and are never given out again."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self,
        *,
        key: str,
        provider: str | None = None,
        name: str | None = None,
        is_default: bool | None = None,
    ) -> Credential:
        """Keep a key; `provider` is anthropic by default."""
        body = set_members(key=key, provider=provider, name=name, is_default=is_default)
        return Credential.read(await self._connection.object(Request("POST", "/credentials", json=body)))

    async def list(self) -> Page[Credential]:
        """Oldest first."""
        answer = await self._connection.json(reading("/credentials"))
        return page_of(answer, Credential.read)

    async def rotate(self, credential: str, key: str) -> Credential:
        """Replace the key, also for sessions that run."""
        request = Request("PATCH", path_of("credentials", credential), json={"key": key})
        return Credential.read(await self._connection.object(request))

    async def set_default(self, credential: str, *, provider: str | None = None) -> Credential:
        """Use this one where an agent has none of its own."""
        body = set_members(credential=credential, provider=provider)
        request = Request("PUT", "/credentials/default", json=body)
        return Credential.read(await self._connection.object(request))

    async def delete(self, credential: str) -> None:
        """Forget a key. Sessions that use it fail at their next turn."""
        await self._connection.send(Request("DELETE", path_of("credentials", credential)))
