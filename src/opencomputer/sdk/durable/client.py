"""The entry points: `OpenComputer` with an API key, `connect_session` with a session's token."""

from __future__ import annotations

from opencomputer.sdk.durable.agents import Agents
from opencomputer.sdk.durable.client_session import ClientSession
from opencomputer.sdk.durable.connection import (
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT_SECONDS,
    Connection,
    Options,
)
from opencomputer.sdk.durable.credentials import Credentials
from opencomputer.sdk.durable.endpoint import DurableEndpoint
from opencomputer.sdk.durable.github import GitHub, Repos
from opencomputer.sdk.durable.sessions import Sessions
from opencomputer.sdk.http import httpx


class OpenComputer:
    """Durable agents and sessions of one organisation. Close it, or use it as a context manager.

    Key and address default to the same variables as for sandboxes: `OPENCOMPUTER_API_KEY` and
    `OPENCOMPUTER_API_URL`. Calls that do no harm when they are sent twice are repeated `max_retries` times.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        max_retries: int = DEFAULT_RETRIES,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        options = Options(retries=max_retries, timeout_seconds=timeout, client=http_client)
        self.connection = Connection(DurableEndpoint.resolve(api_key, base_url), options)
        self.agents = Agents(self.connection)
        self.sessions = Sessions(self.connection)
        self.credentials = Credentials(self.connection)
        self.repos = Repos(self.connection)
        self.github = GitHub(self.connection)

    async def aclose(self) -> None:
        """Close the connections; may be called again."""
        await self.connection.aclose()

    async def __aenter__(self) -> OpenComputer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def connect_session(
    session_id: str,
    client_token: str,
    *,
    base_url: str | None = None,
    http_client: httpx.AsyncClient | None = None,
) -> ClientSession:
    """A session as the holder of its client token sees it; no API key is needed. No request is made yet."""
    endpoint = DurableEndpoint(DurableEndpoint.resolve("-", base_url).base, client_token)
    return ClientSession(Connection(endpoint, Options(client=http_client)), session_id)
