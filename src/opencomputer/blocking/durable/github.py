# Generated from src/opencomputer/sdk/durable/github.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.github`; see there."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.page import Page
from opencomputer.blocking.support.twin import Twin, view

if TYPE_CHECKING:
    from opencomputer.sdk.durable import github as sdk
    from opencomputer.sdk.durable.repository_records import (
        AppManifest,
        AppManifestUrl,
        GitHubApp,
        Installation,
        Repo,
    )


class Repos(Twin):
    """Repositories that the organisation has given the server to know."""

    def create(self, owner: str, repo: str, provider: str = "github", name: str | None = None) -> Repo:
        """Make one known; one that is known already is given back."""
        return self._run(self._original.create(owner, repo, provider, name))

    def get(self, repo: str) -> Repo:
        """One of them by id. Raises `NotFoundError`."""
        return self._run(self._original.get(repo))

    def update(self, repo: str, name: str) -> Repo:
        """Call it something else here."""
        return self._run(self._original.update(repo, name))

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Repo]:
        """Newest first."""
        return Page(self._run(self._original.list(limit=limit, cursor=cursor)))

    @property
    def _original(self) -> sdk.Repos:
        return cast("sdk.Repos", self._wrapped)


class GitHubApps(Twin):
    """The server's GitHub App and the organisation's own."""

    def list(self) -> Page[GitHubApp]:
        """All of them, the server's own included."""
        return Page(self._run(self._original.list()))

    def register(
        self,
        mode: str,
        *,
        github_app_id: str | int | None = None,
        private_key: str | None = None,
        broker_url: str | None = None,
        broker_secret: str | None = None,
        app_name: str | None = None,
        app_slug: str | None = None,
        is_default: bool | None = None,
    ) -> GitHubApp:
        """Bring an App: byo_stored_key with its id and PEM key, or byo_broker with a URL and a secret.

        Secrets are not given out again. Raises `ValidationError` when GitHub does not know the key.
        """
        return self._run(
            self._original.register(
                mode,
                github_app_id=github_app_id,
                private_key=private_key,
                broker_url=broker_url,
                broker_secret=broker_secret,
                app_name=app_name,
                app_slug=app_slug,
                is_default=is_default,
            )
        )

    def update(
        self,
        app: str,
        *,
        private_key: str | None = None,
        broker_url: str | None = None,
        broker_secret: str | None = None,
        app_name: str | None = None,
        app_slug: str | None = None,
        is_default: bool | None = None,
    ) -> GitHubApp:
        """Change what is given; a new secret replaces the old one at once."""
        return self._run(
            self._original.update(
                app,
                private_key=private_key,
                broker_url=broker_url,
                broker_secret=broker_secret,
                app_name=app_name,
                app_slug=app_slug,
                is_default=is_default,
            )
        )

    def delete(self, app: str) -> None:
        """Forget one of the organisation's own."""
        self._run(self._original.delete(app))

    def create_manifest_url(
        self,
        *,
        name: str | None = None,
        organization: str | None = None,
        url: str | None = None,
        is_default: bool | None = None,
    ) -> AppManifestUrl:
        """A page of the server on which somebody can have GitHub make an App."""
        return self._run(
            self._original.create_manifest_url(
                name=name, organization=organization, url=url, is_default=is_default
            )
        )

    def create_manifest(
        self,
        redirect_url: str,
        *,
        name: str | None = None,
        organization: str | None = None,
        url: str | None = None,
        is_default: bool | None = None,
    ) -> AppManifest:
        """What to post to GitHub from a page of your own, which it leads back to `redirect_url`."""
        return self._run(
            self._original.create_manifest(
                redirect_url, name=name, organization=organization, url=url, is_default=is_default
            )
        )

    def complete_manifest(self, code: str, *, is_default: bool | None = None) -> GitHubApp:
        """Take the App into use that GitHub gave the `code` for."""
        return self._run(self._original.complete_manifest(code, is_default=is_default))

    @property
    def _original(self) -> sdk.GitHubApps:
        return cast("sdk.GitHubApps", self._wrapped)


class GitHubInstallations(Twin):
    """The accounts that have installed an App."""

    def list(
        self, app_id: str | None = None, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[Installation]:
        """Newest first; those of one App, or of all."""
        return Page(self._run(self._original.list(app_id, limit=limit, cursor=cursor)))

    @property
    def _original(self) -> sdk.GitHubInstallations:
        return cast("sdk.GitHubInstallations", self._wrapped)


class GitHub(Twin):
    """Apps, and where they are installed."""

    @cached_property
    def apps(self) -> GitHubApps:
        return view(GitHubApps, self._original.apps)

    @cached_property
    def installations(self) -> GitHubInstallations:
        return view(GitHubInstallations, self._original.installations)

    @property
    def _original(self) -> sdk.GitHub:
        return cast("sdk.GitHub", self._wrapped)
