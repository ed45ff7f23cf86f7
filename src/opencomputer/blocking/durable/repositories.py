# Generated from src/opencomputer/sdk/durable/repositories.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.repositories`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opencomputer.sdk.durable import repositories as sdk
    from opencomputer.sdk.durable.repository_records import (
        DeploymentSource,
        Imported,
        LinkedSource,
        RepositoryAccess,
        RepositoryReview,
    )


class RepositoriesOfAgents(Twin):
    """What `oc.agents` can do about the repositories that an agent works on."""

    def get_repository_access(self, agent: str) -> RepositoryAccess:
        """Which it may touch now."""
        return self._run(self._original.get_repository_access(agent))

    def update_repository_access(self, agent: str, policy: Mapping[str, object]) -> RepositoryAccess:
        """Replace the policy: `{"mode": "all"}`, or `{"mode": "selected", "repository_ids": […]}`.

        To select none switches work on repositories off.
        """
        return self._run(self._original.update_repository_access(agent, policy))

    @property
    def _original(self) -> sdk.RepositoriesOfAgents:
        return cast("sdk.RepositoriesOfAgents", self._wrapped)


class DeploymentSources(Twin):
    """The folder of a repository that an agent is deployed from at every push."""

    def link(
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
        return self._run(self._original.link(agent, repo, path, production_ref, deploy_now))

    def get(self, agent: str) -> DeploymentSource:
        """Where it comes from. Raises `NotFoundError` when it is not linked."""
        return self._run(self._original.get(agent))

    def unlink(self, agent: str) -> None:
        """Deploy nothing at pushes any more. What is deployed stays."""
        self._run(self._original.unlink(agent))

    @property
    def _original(self) -> sdk.DeploymentSources:
        return cast("sdk.DeploymentSources", self._wrapped)


class RepositoryImports(Twin):
    """Making agents from what is in a repository."""

    def review(self, repo: str, path: str = "", production_ref: str | None = None) -> RepositoryReview:
        """What a folder would become. None of its code is run."""
        return self._run(self._original.review(repo, path, production_ref))

    def import_(
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
        return self._run(self._original.import_(name, source, review, credential, idempotency_key))

    @property
    def _original(self) -> sdk.RepositoryImports:
        return cast("sdk.RepositoryImports", self._wrapped)
