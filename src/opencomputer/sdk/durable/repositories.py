"""Agents and repositories: which ones an agent may touch, and from which one it is deployed."""

from __future__ import annotations

from collections.abc import Mapping

from opencomputer.sdk.durable.bodies import new_key, set_members
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.records import inner
from opencomputer.sdk.durable.repository_records import (
    DeploymentSource,
    Imported,
    LinkedSource,
    RepositoryAccess,
    RepositoryReview,
)
from opencomputer.sdk.paths import path_of


class RepositoriesOfAgents:
    """What `oc.agents` can do about the repositories that an agent works on."""

    _connection: Connection

    async def get_repository_access(self, agent: str) -> RepositoryAccess:
        """Which it may touch now."""
        path = path_of("agents", agent, "repository-access")
        return RepositoryAccess.read(await self._connection.object(reading(path)))

    async def update_repository_access(self, agent: str, policy: Mapping[str, object]) -> RepositoryAccess:
        """Replace the policy: `{"mode": "all"}`, or `{"mode": "selected", "repository_ids": […]}`.

        To select none switches work on repositories off.
        """
        path = path_of("agents", agent, "repository-access")
        request = Request("PUT", path, repeatable=True, json=dict(policy))
        return RepositoryAccess.read(await self._connection.object(request))


class DeploymentSources:
    """The folder of a repository that an agent is deployed from at every push."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def link(
        self,
        agent: str,
        repo: str,
        path: str,
        production_ref: str | None = None,
        deploy_now: bool | None = None,
    ) -> LinkedSource:
        """Link a folder (`""` is the root) of `owner/name` or a repository's id, and deploy it now.

        Pushes to `production_ref`, by default main, are activated, those to other branches staged.
        """
        body = set_members(repo=repo, path=path, production_ref=production_ref, deploy_now=deploy_now)
        request = Request("POST", path_of("agents", agent, "deployment-source"), json=body)
        return LinkedSource.read(await self._connection.object(request))

    async def get(self, agent: str) -> DeploymentSource:
        """Where it comes from. Raises `NotFoundError` when it is not linked."""
        answer = await self._connection.object(reading(path_of("agents", agent, "deployment-source")))
        return DeploymentSource.read(inner(answer, "source"))

    async def unlink(self, agent: str) -> None:
        """Deploy nothing at pushes any more. What is deployed stays."""
        await self._connection.send(Request("DELETE", path_of("agents", agent, "deployment-source")))


class RepositoryImports:
    """Making agents from what is in a repository."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def review(self, repo: str, path: str = "", production_ref: str | None = None) -> RepositoryReview:
        """What a folder would become. None of its code is run."""
        body = set_members(repo=repo, path=path, production_ref=production_ref)
        request = Request("POST", "/github/deploy-app/inspect", json=body)
        return RepositoryReview.read(await self._connection.object(request))

    async def import_(
        self,
        name: str,
        source: Mapping[str, object],
        review: RepositoryReview | Mapping[str, object],
        credential: str = "managed",
        idempotency_key: str | None = None,
    ) -> Imported:
        """Make an agent of what was reviewed; `source` is `{"repo", "path", "production_ref"}`.

        Raises `ConflictError` when the repository has changed since then, and makes nothing.
        """
        confirmed = review.confirmed() if isinstance(review, RepositoryReview) else dict(review)
        body = {
            "name": name,
            "credential": credential,
            "source": {"type": "github", **source},
            "review": confirmed,
        }
        headers = {"Idempotency-Key": idempotency_key or new_key()}
        request = Request("POST", "/agents/import", repeatable=True, json=body, headers=headers)
        return Imported.read(await self._connection.object(request))
