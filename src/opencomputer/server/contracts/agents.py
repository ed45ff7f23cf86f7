"""What sessions need of agents and of the credentials for their models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from opencomputer.server.contracts.runtimes import SkillFile
from opencomputer.server.domain.sessions.session import PinnedAgent
from opencomputer.wire.ids import OrgId


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
