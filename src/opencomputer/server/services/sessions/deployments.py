"""The use cases of deployments, revisions, activations and skills: how agents get another behaviour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from opencomputer.server.contracts.agents import AgentTables
from opencomputer.server.domain.errors import IdempotencyMismatch, NotFound
from opencomputer.server.domain.sessions.agent_changes import DeploymentRequest, Edit
from opencomputer.server.domain.sessions.agents import (
    Activation,
    Agent,
    Behaviour,
    Deployer,
    Deployment,
    LogLine,
    Reason,
    Revision,
    check_model_runs,
    check_prompt,
    provider_of,
)
from opencomputer.server.domain.sessions.credentials import check_matches
from opencomputer.server.domain.sessions.errors import Unsupported
from opencomputer.server.domain.sessions.schedules import WantedSchedule, check_wanted_all
from opencomputer.server.domain.sessions.skills import SkillBundle
from opencomputer.server.services.sessions.agents import Agents
from opencomputer.server.services.sessions.credentials import Credentials
from opencomputer.server.services.sessions.editing import Edited, Editing
from opencomputer.wire.ids import DeploymentId, OrgId


@dataclass(frozen=True)
class InlineDeployment:
    """A whole behaviour. `model` None: the agent's; `skills` None: none; `schedules` None: they stay."""

    prompt: str
    model: str | None = None
    skills: SkillBundle | None = None
    activate: bool = True
    via: str = "api"
    idempotency_key: str | None = None
    request_hash: str | None = None
    schedules: Sequence[WantedSchedule] | None = None


class Deployments:
    def __init__(
        self,
        tables: AgentTables,
        editing: Editing,
        agents: Agents,
        credentials: Credentials,
        tell: Callable[[], None] = lambda: None,
    ) -> None:
        """`tell` is called when schedules may have changed."""
        self._tell = tell
        self._history = tables.history
        self._editing = editing
        self._agents = agents
        self._credentials = credentials

    async def deploy(self, org_id: OrgId, named: str, deployer: Deployer, wanted: InlineDeployment) -> Edited:
        """Make a revision, or find the one that is so already; it becomes the active one if it shall.

        Its schedules count when it does. The same request under the same key gives the deployment it made.
        Raises NotFound, InvalidInput, ModelRuntimeMismatch, Unsupported, InvalidCron and IdempotencyMismatch.
        """

        async def decide(agent: Agent) -> Edit | Edited:
            replayed = await self._replayed(agent, wanted)
            return replayed or await self._edit(agent, wanted)

        edited = await self._editing.change(org_id, named, deployer, Reason.DEPLOY, decide)
        if wanted.schedules is not None:
            self._tell()
        return edited

    async def set_skills(
        self, org_id: OrgId, named: str, deployer: Deployer, skills: SkillBundle | None
    ) -> Edited:
        """Replace an agent's skills, or take them away; everything else stays."""

        async def decide(agent: Agent) -> Edit:
            self._check_takes(agent, skills)
            digest = None if skills is None else skills.digest
            behaviour = replace(agent.revision.behaviour, skill_bundle_digest=digest)
            request = DeploymentRequest(log=_log(behaviour, skills))
            return Edit(agent, behaviour=behaviour, bundle=skills, deployment=request)

        return await self._editing.change(org_id, named, deployer, Reason.SKILLS, decide)

    async def activate(self, org_id: OrgId, named: str, deployer: Deployer, revision: int | str) -> Agent:
        """Move the pointer: forward to what was staged, or back. Raises NotFound."""

        async def decide(agent: Agent) -> Edit:
            return Edit(replace(agent, revision=await self._agents.revision(agent, revision)))

        return (await self._editing.change(org_id, named, deployer, Reason.ACTIVATE, decide)).agent

    async def skills(self, agent: Agent, revision: Revision) -> SkillBundle | None:
        if revision.skill_bundle_digest is None:
            return None
        return await self._history.bundle(agent.org_id, revision.skill_bundle_digest)

    async def require_takes_skills(self, org_id: OrgId, named: str) -> None:
        """Raises NotFound, and Unsupported when the agent's runtime has no skills."""
        agent = await self._agents.get(org_id, named)
        if not self._agents.runtime(agent.runtime).takes_skills:
            raise _no_skills(agent)

    async def list(
        self, agent: Agent, *, limit: int, before: DeploymentId | None = None
    ) -> Sequence[Deployment]:
        """Newest first."""
        return await self._history.deployments(agent.id, limit=limit, before=before)

    async def find(self, agent: Agent, deployment_id: str) -> Deployment | None:
        return await self._history.deployment(agent.id, DeploymentId(deployment_id))

    async def get(self, agent: Agent, deployment_id: str) -> Deployment:
        deployment = await self.find(agent, deployment_id)
        if deployment is None:
            raise NotFound("the agent has no such deployment")
        return deployment

    async def revisions(self, agent: Agent, *, limit: int, before: int | None) -> Sequence[Revision]:
        """Newest first."""
        return await self._history.revisions(agent.id, limit=limit, before=before)

    async def activations(self, agent: Agent, *, limit: int, before: str | None) -> Sequence[Activation]:
        """Newest first."""
        return await self._history.activations(agent.id, limit=limit, before=before)

    async def activation(self, agent: Agent, activation_id: str) -> Activation | None:
        return await self._history.activation(agent.id, activation_id)

    async def _replayed(self, agent: Agent, wanted: InlineDeployment) -> Edited | None:
        if wanted.idempotency_key is None:
            return None
        found = await self._history.deployment_of_key(agent.id, wanted.idempotency_key)
        if found is None:
            return None
        if found.request_hash != wanted.request_hash:
            raise IdempotencyMismatch(field="idempotency_key")
        return Edited(agent, found, replayed=True)

    async def _edit(self, agent: Agent, wanted: InlineDeployment) -> Edit:
        runtime = self._agents.runtime(agent.runtime)
        model = wanted.model or agent.revision.model
        check_model_runs(model, runtime.name, runtime.providers)
        self._check_takes(agent, wanted.skills)
        attached = await self._credentials.attached(agent.org_id, agent.credential)
        if attached is not None:
            check_matches(attached, provider_of(model))
        digest = None if wanted.skills is None else wanted.skills.digest
        behaviour = Behaviour(check_prompt(wanted.prompt), model, digest)
        request = DeploymentRequest(
            wanted.via, wanted.idempotency_key, wanted.request_hash, _log(behaviour, wanted.skills)
        )
        return Edit(
            agent,
            behaviour=behaviour,
            bundle=wanted.skills,
            activate=wanted.activate,
            deployment=request,
            schedules=self._schedules(wanted),
        )

    def _schedules(self, wanted: InlineDeployment) -> Sequence[WantedSchedule] | None:
        if wanted.schedules is None:
            return None
        checked = check_wanted_all(wanted.schedules, self._editing.now(), "input.schedules")
        return checked if wanted.activate else None

    def _check_takes(self, agent: Agent, skills: SkillBundle | None) -> None:
        if skills is not None and not self._agents.runtime(agent.runtime).takes_skills:
            raise _no_skills(agent)


def _no_skills(agent: Agent) -> Unsupported:
    return Unsupported(f"skills: the runtime {agent.runtime} has none", field="skills")


def _log(behaviour: Behaviour, skills: SkillBundle | None) -> Sequence[LogLine]:
    """What a deployment consists of, in numbers: nothing of its content."""
    files = 0 if skills is None else len(skills.files)
    size = len(behaviour.prompt.encode())
    text = f"prompt of {size} bytes, model {behaviour.model}, {files} skill files\n"
    return (LogLine("source", text),)
