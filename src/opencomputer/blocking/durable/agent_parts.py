# Generated from src/opencomputer/sdk/durable/agent_parts.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.agent_parts`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.page import Page
from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opencomputer.sdk.durable import agent_parts as sdk
    from opencomputer.sdk.durable.agent_records import (
        Activation,
        AgentSkills,
        Deployed,
        Deployment,
        DeploymentLog,
        Revision,
    )


class Deployments(Twin):
    """Attempts to give an agent a new revision."""

    def create(
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
        return self._run(
            self._original.create(
                agent,
                input=input,
                activate=activate,
                idempotency_key=idempotency_key,
                client_context=client_context,
            )
        )

    def list(self, agent: str, *, limit: int | None = None, before: str | None = None) -> Page[Deployment]:
        """Newest first, failed ones included."""
        return Page(self._run(self._original.list(agent, limit=limit, before=before)))

    def get(self, agent: str, deployment: str) -> Deployment:
        """One of them."""
        return self._run(self._original.get(agent, deployment))

    def logs(
        self, agent: str, deployment: str, *, after: str | None = None, limit: int | None = None
    ) -> Page[DeploymentLog]:
        """What it printed, in order."""
        return Page(self._run(self._original.logs(agent, deployment, after=after, limit=limit)))

    @property
    def _original(self) -> sdk.Deployments:
        return cast("sdk.Deployments", self._wrapped)


class Revisions(Twin):
    """The immutable snapshots of an agent's behaviour."""

    def list(self, agent: str) -> Page[Revision]:
        """Newest first."""
        return Page(self._run(self._original.list(agent)))

    def get(self, agent: str, revision: int | str) -> Revision:
        """One of them by number or id, with the files of its skills."""
        return self._run(self._original.get(agent, revision))

    def activate(self, agent: str, revision: int | str) -> str:
        """Let new sessions start with this one: promotes one that is staged, or rolls back. Its id."""
        return self._run(self._original.activate(agent, revision))

    @property
    def _original(self) -> sdk.Revisions:
        return cast("sdk.Revisions", self._wrapped)


class Activations(Twin):
    """When which revision became the active one."""

    def list(self, agent: str) -> Page[Activation]:
        """Newest first."""
        return Page(self._run(self._original.list(agent)))

    @property
    def _original(self) -> sdk.Activations:
        return cast("sdk.Activations", self._wrapped)


class Skills(Twin):
    """Folders of instructions for the agent, each with a `SKILL.md`."""

    def get(self, agent: str) -> AgentSkills:
        """Those of the active revision."""
        return self._run(self._original.get(agent))

    def put(self, agent: str, zipped: bytes) -> Deployed:
        """Replace all of them by those of a zip archive: a new revision, active at once."""
        return self._run(self._original.put(agent, zipped))

    def delete(self, agent: str) -> Deployed:
        """Remove all of them: a new revision, active at once."""
        return self._run(self._original.delete(agent))

    @property
    def _original(self) -> sdk.Skills:
        return cast("sdk.Skills", self._wrapped)
