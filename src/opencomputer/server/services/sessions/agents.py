"""The use cases of `/v3/agents`, and what sessions need of agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal

from opencomputer.server.contracts.agents import AgentTables
from opencomputer.server.contracts.runtimes import Runtime, SkillFile
from opencomputer.server.domain.errors import InvalidInput, NotFound
from opencomputer.server.domain.sessions.agent_changes import (
    DeploymentRequest,
    Edit,
    creation,
    first_revision,
)
from opencomputer.server.domain.sessions.agents import (
    DEFAULT_RUNTIME,
    Agent,
    AgentVersion,
    Behaviour,
    Deployer,
    Deployment,
    Reason,
    Revision,
    check_agent_name,
    check_checkpoints,
    check_limits,
    check_model_runs,
    check_prompt,
    check_repository,
    prompt_hash,
    provider_of,
)
from opencomputer.server.domain.sessions.credentials import ModelCredential, check_key, check_matches
from opencomputer.server.domain.sessions.errors import NameConflict, UnsupportedRuntime
from opencomputer.server.domain.sessions.naming import new_agent_id
from opencomputer.server.domain.sessions.session import PinnedAgent, SessionLimits
from opencomputer.server.services.sessions.credentials import Credentials
from opencomputer.server.services.sessions.editing import AgentBusy, Editing
from opencomputer.wire.ids import AgentId, OrgId

_ATTEMPTS = 20
_MAX_NUMBER = 2**31 - 1


class Unset(Enum):
    """In the place of what a request does not have."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True)
class NewAgent:
    """None: not given."""

    name: str
    model: str
    runtime: str | None = None
    prompt: str | None = None
    key: str | None = None
    credential: str | None = None
    limits: SessionLimits | None = None
    default_repo: str | None = None
    checkpoints_kept: int | None = None


@dataclass(frozen=True)
class AgentPatch:
    """None takes a binding away, where it may be UNSET; else it says that the member is not given."""

    prompt: str | None = None
    model: str | None = None
    key: str | None = None
    credential: str | Literal[Unset.UNSET] | None = UNSET
    limits: SessionLimits | Literal[Unset.UNSET] | None = UNSET
    default_repo: str | Literal[Unset.UNSET] | None = UNSET
    checkpoints_kept: int | None = None


class Agents:
    """Implements AgentDirectory. What is accepted makes a new version of the agent; sessions keep theirs."""

    def __init__(
        self,
        tables: AgentTables,
        editing: Editing,
        credentials: Credentials,
        runtimes: Mapping[str, Runtime],
    ) -> None:
        self._store = tables.agents
        self._history = tables.history
        self._editing = editing
        self._credentials = credentials
        self._runtimes = runtimes

    async def create(self, org_id: OrgId, deployer: Deployer, wanted: NewAgent) -> tuple[Agent, bool]:
        """The agent, and whether it is new: the same request again gives the one that it made.

        Raises InvalidInput, UnsupportedRuntime, ModelRuntimeMismatch, NoCredential, CredentialMismatch, and
        NameConflict when there is another agent of this name.
        """
        wanted = self._checked(wanted)
        for _ in range(_ATTEMPTS):
            present = await self._store.find(org_id, wanted.name)
            if present is not None:
                await self._check_same(present, wanted)
                return present, False
            try:
                return await self._add(org_id, deployer, wanted), True
            except NameConflict:
                # Somebody was faster: there is something to compare with now, unless it is gone again.
                continue
        raise AgentBusy

    async def get(self, org_id: OrgId, named: str) -> Agent:
        """By id, or exactly by name. Raises NotFound."""
        return await self._editing.require(org_id, named)

    async def find(self, org_id: OrgId, agent_id: str) -> Agent | None:
        return await self._store.get(org_id, AgentId(agent_id))

    async def list(self, org_id: OrgId, *, limit: int, before: Agent | None = None) -> Sequence[Agent]:
        """Newest first."""
        return await self._store.list(org_id, limit=limit, before=before)

    async def latest_deployments(self, agents: Sequence[Agent]) -> Mapping[AgentId, Deployment]:
        return await self._history.latest([each.id for each in agents])

    async def update(self, org_id: OrgId, named: str, deployer: Deployer, patch: AgentPatch) -> Agent:
        """Raises NotFound, and what `create` raises about the members."""
        if patch.key is not None and patch.credential is not UNSET:
            raise _key_and_credential()

        async def decide(agent: Agent) -> Edit:
            return await self._patched(agent, patch)

        return (await self._editing.change(org_id, named, deployer, Reason.PATCH, decide)).agent

    async def delete(self, org_id: OrgId, named: str) -> None:
        """Its sessions can still be read. Raises NotFound."""
        agent = await self.get(org_id, named)
        if not await self._store.delete(org_id, agent.id, self._editing.now()):
            raise NotFound("there is no such agent")

    async def versions(self, agent: Agent, *, limit: int, before: int | None) -> Sequence[AgentVersion]:
        """Newest first."""
        return await self._history.versions(agent.id, limit=limit, before=before)

    async def version(self, agent: Agent, named: str) -> AgentVersion | None:
        if not (named.isascii() and named.isdigit() and 0 < int(named[:10]) <= _MAX_NUMBER):
            return None
        found = await self._history.versions(agent.id, limit=1, before=int(named[:10]) + 1)
        return next((each for each in found if each.id == named), None)

    # What sessions need

    async def pin(
        self, org_id: OrgId, agent: str, *, revision: int | str | None = None, model: str | None = None
    ) -> PinnedAgent:
        """See AgentDirectory."""
        found = await self.get(org_id, agent)
        runtime = self.runtime(found.runtime)
        chosen = found.revision if revision is None else await self.revision(found, revision)
        effective = check_model_runs(model or chosen.model, runtime.name, runtime.providers)
        credential = await self._credentials.resolve(org_id, found, provider_of(effective))
        return PinnedAgent(
            agent_id=found.id,
            version=found.version,
            revision_id=chosen.id,
            revision=chosen.number,
            digest=chosen.digest,
            prompt=chosen.prompt,
            prompt_hash=prompt_hash(chosen.prompt),
            model=effective,
            runtime=found.runtime,
            credential=credential,
            skill_bundle_digest=chosen.skill_bundle_digest,
            limits=found.limits or SessionLimits(),
            checkpoints_kept=found.checkpoints_kept,
        )

    async def skills(self, org_id: OrgId, agent: PinnedAgent) -> Sequence[SkillFile]:
        """See AgentDirectory."""
        if agent.skill_bundle_digest is None:
            return ()
        bundle = await self._history.bundle(org_id, agent.skill_bundle_digest)
        if bundle is None:
            return ()
        return [SkillFile(each.path, each.content.encode(), each.executable) for each in bundle.files]

    async def is_deleted(self, org_id: OrgId, agent: PinnedAgent) -> bool:
        """See AgentDirectory."""
        return await self._store.get(org_id, agent.agent_id) is None

    async def revision(self, agent: Agent, named: int | str) -> Revision:
        """By number or id. Raises NotFound."""
        known = isinstance(named, str) or 0 < named <= _MAX_NUMBER
        revision = await self._history.revision(agent.id, named) if known else None
        if revision is None:
            raise NotFound("the agent has no such revision", field="revision")
        return revision

    def runtime(self, name: str) -> Runtime:
        """Raises UnsupportedRuntime."""
        runtime = self._runtimes.get(name)
        if runtime is None:
            known = ", ".join(sorted(self._runtimes)) or "none"
            raise UnsupportedRuntime(f"runtime: this server has {known}", field="runtime")
        return runtime

    # How

    def _checked(self, wanted: NewAgent) -> NewAgent:
        if wanted.key is not None and wanted.credential is not None:
            raise _key_and_credential()
        runtime = self.runtime(DEFAULT_RUNTIME if wanted.runtime is None else wanted.runtime)
        return replace(
            wanted,
            name=check_agent_name(wanted.name),
            prompt=None if wanted.prompt is None else check_prompt(wanted.prompt),
            model=check_model_runs(wanted.model, runtime.name, runtime.providers),
            key=None if wanted.key is None else check_key(wanted.key),
            limits=check_limits(wanted.limits),
            default_repo=check_repository(wanted.default_repo),
            checkpoints_kept=check_checkpoints(wanted.checkpoints_kept),
        )

    async def _add(self, org_id: OrgId, deployer: Deployer, wanted: NewAgent) -> Agent:
        made = self._editing.made(deployer, Reason.CREATE)
        provider, agent_id = provider_of(wanted.model), new_agent_id()
        new = None if wanted.key is None else self._credentials.made(org_id, provider, wanted.key)
        credential = None if new is None else new.id
        if wanted.credential is not None:
            credential = await self._credentials.chosen(org_id, wanted.credential, provider)
        behaviour = Behaviour(wanted.prompt or "", wanted.model)
        agent = Agent(
            id=agent_id,
            org_id=org_id,
            name=wanted.name,
            runtime=wanted.runtime or DEFAULT_RUNTIME,
            revision=first_revision(agent_id, behaviour, made),
            version=1,
            created_at=made.at,
            updated_at=made.at,
            credential=credential,
            limits=wanted.limits,
            default_repo=wanted.default_repo,
            checkpoints_kept=wanted.checkpoints_kept or 0,
        )
        await self._store.add(creation(agent, made, new))
        return agent

    async def _check_same(self, present: Agent, wanted: NewAgent) -> None:
        """Raises NameConflict unless everything that is given is as it is there."""
        given = (
            (wanted.prompt, present.revision.prompt),
            (wanted.model, present.revision.model),
            (wanted.runtime, present.runtime),
            (wanted.credential, present.credential),
            (wanted.limits, present.limits),
            (wanted.default_repo, present.default_repo),
            (wanted.checkpoints_kept, present.checkpoints_kept),
        )
        same = all(value is None or value == there for value, there in given)
        if same and wanted.key is not None:
            attached = await self._credentials.attached(present.org_id, present.credential)
            same = attached is not None and await self._credentials.has_key(attached, wanted.key)
        if not same:
            existing = {"id": present.id, "name": present.name}
            raise NameConflict(field="name", existing_agent=existing)

    async def _patched(self, agent: Agent, patch: AgentPatch) -> Edit:
        runtime, before = self.runtime(agent.runtime), agent.revision.behaviour
        behaviour = Behaviour(
            before.prompt if patch.prompt is None else check_prompt(patch.prompt),
            check_model_runs(patch.model or before.model, runtime.name, runtime.providers),
            before.skill_bundle_digest,
        )
        after, new, rotation = await self._with_credential(agent, patch, provider_of(behaviour.model))
        if patch.limits is not UNSET:
            after = replace(after, limits=check_limits(patch.limits))
        if patch.default_repo is not UNSET:
            after = replace(after, default_repo=check_repository(patch.default_repo))
        if patch.checkpoints_kept is not None:
            after = replace(after, checkpoints_kept=check_checkpoints(patch.checkpoints_kept) or 0)
        if behaviour == before:
            return Edit(after, credential=new, rotation=rotation)
        return Edit(
            after, behaviour=behaviour, credential=new, rotation=rotation, deployment=DeploymentRequest()
        )

    async def _with_credential(
        self, agent: Agent, patch: AgentPatch, provider: str
    ) -> tuple[Agent, ModelCredential | None, ModelCredential | None]:
        """The agent with the patch's credential; the one that is new for that; the one with a new key."""
        if patch.credential is not UNSET:
            chosen = patch.credential
            if chosen is not None:
                chosen = await self._credentials.chosen(agent.org_id, chosen, provider)
            return replace(agent, credential=chosen), None, None
        attached = await self._credentials.attached(agent.org_id, agent.credential)
        if patch.key is None:
            if attached is not None:
                check_matches(attached, provider)
            return agent, None, None
        if attached is None or attached.provider != provider:
            new = self._credentials.made(agent.org_id, provider, patch.key)
            return replace(agent, credential=new.id), new, None
        if await self._credentials.has_key(attached, patch.key):
            return agent, None, None
        return agent, None, self._credentials.rotated(attached, patch.key)


def _key_and_credential() -> InvalidInput:
    return InvalidInput("give key or credential, not both", field="credential")
