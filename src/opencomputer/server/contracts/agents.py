"""Agents and the credentials for their models: where they are kept, and what sessions need of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from opencomputer.server.contracts.runtimes import SkillFile
from opencomputer.server.contracts.secrets import EncryptedRows
from opencomputer.server.domain.sessions.agents import (
    Activation,
    Agent,
    AgentChange,
    AgentVersion,
    Deployment,
    Revision,
)
from opencomputer.server.domain.sessions.credentials import ModelCredential
from opencomputer.server.domain.sessions.session import PinnedAgent
from opencomputer.server.domain.sessions.skills import SkillBundle
from opencomputer.wire.ids import AgentId, DeploymentId, ModelCredentialId, OrgId


class AgentDirectory(Protocol):
    async def pin(
        self, org_id: OrgId, agent: str, *, revision: int | str | None = None, model: str | None = None
    ) -> PinnedAgent:
        """What a session that starts now keeps of an agent, named by id or exactly by name.

        `revision` is a number or an id, the active one by default; `model` replaces the revision's. The
        credential is resolved (agent-sessions.md section 3.11). Raises NotFound, AgentNotDeployed,
        ModelRuntimeMismatch, NoCredential, ManagedUnavailable.
        """
        ...

    async def skills(self, org_id: OrgId, agent: PinnedAgent) -> Sequence[SkillFile]: ...

    async def is_deleted(self, org_id: OrgId, agent: PinnedAgent) -> bool: ...


class ModelKeys(Protocol):
    async def key(self, org_id: OrgId, credential: str) -> str | None:
        """The key of a credential of the organisation as it is now; None when it was deleted.

        Not for MANAGED: the operator's key is the gateway's own.
        """
        ...


class AgentStore(Protocol):
    """Agents as organisations see them: those that were deleted are not there."""

    async def add(self, change: AgentChange) -> None:
        """Write a new agent. Raises NameConflict when the organisation has one of this name."""
        ...

    async def apply(self, change: AgentChange) -> bool:
        """Write a change as a whole. False, and nothing is written: it was made from what is not there any
        more, an earlier version of the agent or a credential."""
        ...

    async def get(self, org_id: OrgId, agent_id: AgentId) -> Agent | None: ...

    async def find(self, org_id: OrgId, name: str) -> Agent | None: ...

    async def list(self, org_id: OrgId, *, limit: int, before: Agent | None = None) -> Sequence[Agent]:
        """Newest first; with `before`, those that come after it in that order."""
        ...

    async def using(self, org_id: OrgId, credential: str) -> Sequence[Agent]: ...

    async def delete(self, org_id: OrgId, agent_id: AgentId, at: datetime) -> bool:
        """Its history stays, for sessions; its name is free."""
        ...


class AgentHistory(Protocol):
    """What has become of agents that are there. The caller has checked whose they are. Newest first."""

    async def revisions(
        self, agent_id: AgentId, *, limit: int, before: int | None = None
    ) -> Sequence[Revision]:
        """With `before`, those with smaller numbers."""
        ...

    async def revision(self, agent_id: AgentId, named: int | str) -> Revision | None:
        """By number or id."""
        ...

    async def related(self, agent_id: AgentId, digest: str) -> Sequence[Revision]:
        """The revision of this digest, if there is one, and the newest of all."""
        ...

    async def bundle(self, org_id: OrgId, digest: str) -> SkillBundle | None: ...

    async def deployments(
        self, agent_id: AgentId, *, limit: int, before: DeploymentId | None = None
    ) -> Sequence[Deployment]: ...

    async def deployment(self, agent_id: AgentId, deployment_id: DeploymentId) -> Deployment | None: ...

    async def deployment_of_key(self, agent_id: AgentId, key: str) -> Deployment | None: ...

    async def latest(self, agents: Sequence[AgentId]) -> Mapping[AgentId, Deployment]:
        """The latest deployment of each of these agents that has one."""
        ...

    async def activations(
        self, agent_id: AgentId, *, limit: int, before: str | None = None
    ) -> Sequence[Activation]: ...

    async def activation(self, agent_id: AgentId, activation_id: str) -> Activation | None: ...

    async def versions(
        self, agent_id: AgentId, *, limit: int, before: int | None = None
    ) -> Sequence[AgentVersion]: ...


class CredentialStore(EncryptedRows, Protocol):
    async def add(self, credential: ModelCredential) -> None:
        """Where it is the default of its provider, the one that was so before is not any more."""
        ...

    async def get(self, org_id: OrgId, credential_id: str) -> ModelCredential | None: ...

    async def list(self, org_id: OrgId) -> Sequence[ModelCredential]:
        """Oldest first."""
        ...

    async def default(self, org_id: OrgId, provider: str) -> ModelCredential | None: ...

    async def rotate(self, credential: ModelCredential) -> bool:
        """Write its ciphertext and what shows of the key. False: it is not there any more."""
        ...

    async def set_default(self, credential: ModelCredential, at: datetime) -> bool: ...

    async def delete(self, credential_id: ModelCredentialId, changes: Sequence[AgentChange]) -> bool | None:
        """Delete a credential and change the agents that used it, as a whole.

        None: it is not there. False: one of the agents has changed meanwhile.
        """
        ...


@dataclass(frozen=True)
class AgentTables:
    """Everything about agents and their credentials that is kept."""

    agents: AgentStore
    history: AgentHistory
    credentials: CredentialStore
