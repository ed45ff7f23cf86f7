"""Repositories, and what an agent has to do with them, as the server describes it."""

from __future__ import annotations

from dataclasses import dataclass

from opencomputer.sdk.answers import Described
from opencomputer.sdk.durable.agent_records import Deployment, DurableAgent
from opencomputer.sdk.durable.records import Record, part


@dataclass(frozen=True, kw_only=True)
class Repo(Record):
    """A repository that the server knows by name."""

    id: str
    provider: str = "github"
    owner: str = ""
    repo: str = ""
    name: str | None = None
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True, kw_only=True)
class GrantedRepository(Record):
    """A repository that the GitHub App may reach."""

    id: str
    full_name: str = ""
    default_branch: str = ""
    private: bool = False


@dataclass(frozen=True, kw_only=True)
class RepositoryGrant(Record):
    """What the GitHub App was given: `status` is active, not_installed or unavailable."""

    status: str = ""
    account: str | None = None
    repository_selection: str | None = None
    install_url: str | None = None
    configure_url: str | None = None
    truncated: bool = False


@dataclass(frozen=True, kw_only=True)
class RepositoryAccess(Record):
    """The repositories that an agent may work on: those of its policy that the grant has too.

    `policy` is `{"mode": "all"}` or `{"mode": "selected", "repository_ids": […]}`. `effective_repositories`
    is None while GitHub does not say.
    """

    policy: Described | None = None
    grant: RepositoryGrant | None = part(RepositoryGrant)
    effective_repositories: list[GrantedRepository] | None = part(GrantedRepository, many=True, default=None)
    unavailable_selected_repositories: list[GrantedRepository] = part(GrantedRepository, many=True)


@dataclass(frozen=True, kw_only=True)
class DeploymentSource(Record):
    """The folder of a repository from which an agent is deployed at every push."""

    agent_id: str = ""
    repo_id: str = ""
    full_name: str | None = None
    path: str = ""
    production_ref: str = "main"
    status: str = ""
    latest_seen_sha: str | None = None
    active_deployed_sha: str | None = None
    source_profile: str | None = None
    source_profile_version: int | None = None
    review_fingerprint: str | None = None


@dataclass(frozen=True, kw_only=True)
class LinkedSource(Record):
    """A new link, and the deployment that it began with; `deploy_error` says why there is none."""

    source: DeploymentSource | None = part(DeploymentSource)
    deployment_id: str | None = None
    deploy_error: Described | None = None


@dataclass(frozen=True, kw_only=True)
class RepositoryReview(Record):
    """What a folder of a repository would become. `interpretation["disposition"]` says whether it can."""

    repository: Described | None = None
    root: str = ""
    production_ref: str = ""
    sha: str = ""
    interpretation: Described | None = None
    profile: Described | None = None
    review_fingerprint: str = ""
    candidate_roots: list[Described] | None = None
    candidate_roots_truncated: bool = False

    def confirmed(self) -> Described:
        """What an import sends of it, so that just this is imported."""
        profile = (self.profile or self.interpretation or {}).get("source_profile")
        return {"sha": self.sha, "source_profile": profile, "fingerprint": self.review_fingerprint}


@dataclass(frozen=True, kw_only=True)
class Imported(Record):
    """An agent that was made from a repository, with its link and its first deployment."""

    agent: DurableAgent | None = part(DurableAgent)
    source: DeploymentSource | None = part(DeploymentSource)
    deployment: Deployment | None = part(Deployment)


@dataclass(frozen=True, kw_only=True)
class GitHubApp(Record):
    """A GitHub App: `mode` is oc_app, byo_stored_key or byo_broker; `status` active, suspended or revoked."""

    id: str
    provider: str = "github"
    mode: str = ""
    status: str = ""
    github_app_id: object = None
    app_slug: str | None = None
    app_name: str | None = None
    is_default: bool = False
    created_at: str = ""


@dataclass(frozen=True, kw_only=True)
class AppManifest(Record):
    """What is posted to `post_url`, in the form field `field`, to have GitHub make an App."""

    manifest: Described | None = None
    manifest_json: str | None = None
    post_url: str = ""
    field: str = "manifest"
    state: str = ""


@dataclass(frozen=True, kw_only=True)
class AppManifestUrl(Record):
    """A page that leads somebody through making an App."""

    start_url: str
    expires_at: str = ""


@dataclass(frozen=True, kw_only=True)
class Installation(Record):
    """An App in an account."""

    id: str
    app_id: str = ""
    status: str = ""
    account_login: str = ""
    github_installation_id: object = None
    repository_selection: str | None = None
    created_at: str = ""
