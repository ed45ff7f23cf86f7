"""Sessions of hosted agents: one input in, one result out."""

from __future__ import annotations

from collections.abc import Mapping

from opencomputer.sdk.control_plane import Call, get
from opencomputer.sdk.durable.bodies import set_members
from opencomputer.sdk.hosted.connection import HostedClient, agent_path
from opencomputer.sdk.hosted.records import HostedResult, HostedSession


class HostedSessions(HostedClient):
    """The part of `HostedAgents` that is about sessions, which are not the durable ones of `/v3`."""

    async def create_session(
        self, agent_id: str, input: object = None, *, metadata: Mapping[str, str] | None = None
    ) -> HostedSession:
        """Begin a piece of work in a sandbox of its own, which is gone when it has ended."""
        body = set_members(input=input, metadata=metadata)
        return HostedSession.read(await self._object(Call("POST", _path(agent_id), json=body)))

    async def list_sessions(self, agent_id: str) -> list[HostedSession]:
        """An agent's sessions."""
        return await self._listed(_path(agent_id), "sessions", HostedSession)

    async def get_session(self, agent_id: str, session_id: str) -> HostedSession:
        """One session. Raises `NotFoundError`."""
        return HostedSession.read(await self._object(get(_path(agent_id, session_id))))

    async def delete_session(self, agent_id: str, session_id: str) -> None:
        """End a session and its sandbox. Raises `NotFoundError`."""
        await self._deleted(_path(agent_id, session_id))

    async def get_result(self, agent_id: str, session_id: str) -> HostedResult:
        """What a session that has ended left. Raises `ConflictError` while it runs."""
        return HostedResult.read(await self._object(get(_path(agent_id, session_id, "result"))))


def _path(agent_id: str, *parts: str) -> str:
    return agent_path(agent_id, "sessions", *parts)
