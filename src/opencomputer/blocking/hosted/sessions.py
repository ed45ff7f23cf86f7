# Generated from src/opencomputer/sdk/hosted/sessions.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.hosted.sessions`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.hosted.connection import HostedClient
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk.hosted import sessions as sdk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opencomputer.sdk.hosted.records import HostedResult, HostedSession


class HostedSessions(HostedClient):
    """The part of `HostedAgents` that is about sessions, which are not the durable ones of `/v3`."""

    def __init__(self, api_key: str | None = None, base_url: str | None = None) -> None:
        Twin.__init__(self, sdk.HostedSessions(api_key, base_url))

    def create_session(
        self, agent_id: str, input: object = None, *, metadata: Mapping[str, str] | None = None
    ) -> HostedSession:
        """Begin a piece of work in a sandbox of its own, which is gone when it has ended."""
        return self._run(self._original.create_session(agent_id, input, metadata=metadata))

    def list_sessions(self, agent_id: str) -> list[HostedSession]:
        """An agent's sessions."""
        return self._run(self._original.list_sessions(agent_id))

    def get_session(self, agent_id: str, session_id: str) -> HostedSession:
        """One session. Raises `NotFoundError`."""
        return self._run(self._original.get_session(agent_id, session_id))

    def delete_session(self, agent_id: str, session_id: str) -> None:
        """End a session and its sandbox. Raises `NotFoundError`."""
        self._run(self._original.delete_session(agent_id, session_id))

    def get_result(self, agent_id: str, session_id: str) -> HostedResult:
        """What a session that has ended left. Raises `ConflictError` while it runs."""
        return self._run(self._original.get_result(agent_id, session_id))

    @property
    def _original(self) -> sdk.HostedSessions:
        return cast("sdk.HostedSessions", self._wrapped)
