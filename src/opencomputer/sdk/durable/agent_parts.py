"""What belongs to one agent: deployments, revisions, activations and skills."""

from __future__ import annotations

from collections.abc import Mapping

from opencomputer.sdk.durable.agent_records import (
    Activation,
    AgentSkills,
    Deployed,
    Deployment,
    DeploymentLog,
    Revision,
)
from opencomputer.sdk.durable.bodies import new_key, set_members
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.records import Page, inner, page_of
from opencomputer.sdk.paths import path_of


class _Part:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection


class Deployments(_Part):
    """Attempts to give an agent a new revision."""

    async def create(
        self,
        agent: str,
        *,
        input: Mapping[str, object],
        activate: bool | None = None,
        idempotency_key: str | None = None,
        client_context: Mapping[str, object] | None = None,
    ) -> Deployment:
        """Deploy `{"type": "inline", "prompt": …, "model": …, "skills": […]}`: the complete behaviour.

        Skills that are left out are none. `activate=False` only stages the revision.
        """
        key = idempotency_key or new_key()
        body = set_members(input=input, activate=activate, idempotency_key=key, client_context=client_context)
        path = path_of("agents", agent, "deployments")
        request = Request("POST", path, repeatable=True, json=body, headers={"Idempotency-Key": key})
        return Deployment.read(inner(await self._connection.object(request), "deployment"))

    async def list(
        self, agent: str, *, limit: int | None = None, before: str | None = None
    ) -> Page[Deployment]:
        """Newest first, failed ones included."""
        path = path_of("agents", agent, "deployments")
        answer = await self._connection.object(reading(path, limit=limit, before=before))
        return page_of(answer, Deployment.read, lambda cursor: self.list(agent, limit=limit, before=cursor))

    async def get(self, agent: str, deployment: str) -> Deployment:
        """One of them."""
        path = path_of("agents", agent, "deployments", deployment)
        return Deployment.read(inner(await self._connection.object(reading(path)), "deployment"))

    async def logs(
        self, agent: str, deployment: str, *, after: str | None = None, limit: int | None = None
    ) -> Page[DeploymentLog]:
        """What it printed, in order."""
        path = path_of("agents", agent, "deployments", deployment, "logs")
        answer = await self._connection.object(reading(path, after=after, limit=limit))
        return page_of(
            answer,
            DeploymentLog.read,
            lambda cursor: self.logs(agent, deployment, after=cursor, limit=limit),
        )


class Revisions(_Part):
    """The immutable snapshots of an agent's behaviour."""

    async def list(self, agent: str) -> Page[Revision]:
        """Newest first."""
        answer = await self._connection.object(reading(path_of("agents", agent, "revisions")))
        return page_of(answer, Revision.read)

    async def get(self, agent: str, revision: int | str) -> Revision:
        """One of them by number or id, with the files of its skills."""
        answer = await self._connection.object(reading(path_of("agents", agent, "revisions", revision)))
        return Revision.read(answer)

    async def activate(self, agent: str, revision: int | str) -> str:
        """Let new sessions start with this one: promotes one that is staged, or rolls back. Its id."""
        path = path_of("agents", agent, "revisions", revision, "activate")
        answer = await self._connection.object(Request("POST", path, repeatable=True))
        return str(answer.get("active_revision_id", ""))


class Activations(_Part):
    """When which revision became the active one."""

    async def list(self, agent: str) -> Page[Activation]:
        """Newest first."""
        answer = await self._connection.object(reading(path_of("agents", agent, "activations")))
        return page_of(answer, Activation.read)


class Skills(_Part):
    """Folders of instructions for the agent, each with a `SKILL.md`."""

    async def get(self, agent: str) -> AgentSkills:
        """Those of the active revision."""
        answer = await self._connection.object(reading(path_of("agents", agent, "skills")))
        return AgentSkills.read(answer)

    async def put(self, agent: str, zipped: bytes) -> Deployed:
        """Replace all of them by those of a zip archive: a new revision, active at once."""
        headers = {"Content-Type": "application/zip"}
        path = path_of("agents", agent, "skills")
        answer = await self._connection.object(Request("PUT", path, content=zipped, headers=headers))
        return Deployed.read(answer)

    async def delete(self, agent: str) -> Deployed:
        """Remove all of them: a new revision, active at once."""
        return Deployed.read(
            await self._connection.object(Request("DELETE", path_of("agents", agent, "skills")))
        )
