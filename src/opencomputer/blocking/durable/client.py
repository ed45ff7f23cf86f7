# Generated from src/opencomputer/sdk/durable/client.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.client`; see there."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from opencomputer.blocking.durable.agents import Agents
from opencomputer.blocking.durable.client_session import ClientSession
from opencomputer.blocking.durable.credentials import Credentials
from opencomputer.blocking.durable.github import GitHub, Repos
from opencomputer.blocking.durable.sessions import Sessions
from opencomputer.blocking.support.twin import Twin, view
from opencomputer.sdk.durable import client as sdk

if TYPE_CHECKING:
    from opencomputer.sdk.http import httpx


class OpenComputer(Twin):
    """Durable agents and sessions of one organisation. Close it, or use it as a context manager.

    Key and address default to the same variables as for sandboxes: `OPENCOMPUTER_API_KEY` and
    `OPENCOMPUTER_API_URL`. Calls that do no harm when they are sent twice are repeated `max_retries` times.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        max_retries: int = 2,
        timeout: float = 60.0,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(
            sdk.OpenComputer(
                api_key, base_url=base_url, max_retries=max_retries, timeout=timeout, http_client=http_client
            )
        )

    @cached_property
    def agents(self) -> Agents:
        return view(Agents, self._original.agents)

    @cached_property
    def sessions(self) -> Sessions:
        return view(Sessions, self._original.sessions)

    @cached_property
    def credentials(self) -> Credentials:
        return view(Credentials, self._original.credentials)

    @cached_property
    def repos(self) -> Repos:
        return view(Repos, self._original.repos)

    @cached_property
    def github(self) -> GitHub:
        return view(GitHub, self._original.github)

    def aclose(self) -> None:
        """Close the connections; may be called again."""
        self._run(self._original.aclose())

    def __enter__(self) -> OpenComputer:
        return self._self_or(OpenComputer, self._run(self._original.__aenter__()))

    def __exit__(self, *_: object) -> None:
        self._run(self._original.__aexit__(*_))

    @property
    def _original(self) -> sdk.OpenComputer:
        return cast("sdk.OpenComputer", self._wrapped)


def connect_session(
    session_id: str,
    client_token: str,
    *,
    base_url: str | None = None,
    http_client: httpx.AsyncClient | None = None,
) -> ClientSession:
    """A session as the holder of its client token sees it; no API key is needed. No request is made yet."""
    return view(
        ClientSession,
        sdk.connect_session(session_id, client_token, base_url=base_url, http_client=http_client),
    )
