"""Repositories by name, and the GitHub Apps by which the server reaches them: `oc.repos`, `oc.github`."""

from __future__ import annotations

from opencomputer.sdk.durable.bodies import set_members
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.records import Page, page_of
from opencomputer.sdk.durable.repository_records import (
    AppManifest,
    AppManifestUrl,
    GitHubApp,
    Installation,
    Repo,
)
from opencomputer.sdk.paths import path_of


class Repos:
    """Repositories that the organisation has given the server to know."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, owner: str, repo: str, provider: str = "github", name: str | None = None) -> Repo:
        """Make one known; one that is known already is given back."""
        body = set_members(provider=provider, owner=owner, repo=repo, name=name)
        return Repo.read(await self._connection.object(Request("POST", "/repos", repeatable=True, json=body)))

    async def get(self, repo: str) -> Repo:
        """One of them by id. Raises `NotFoundError`."""
        return Repo.read(await self._connection.object(reading(path_of("repos", repo))))

    async def update(self, repo: str, name: str) -> Repo:
        """Call it something else here."""
        request = Request("PATCH", path_of("repos", repo), json={"name": name})
        return Repo.read(await self._connection.object(request))

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Repo]:
        """Newest first."""
        answer = await self._connection.object(reading("/repos", limit=limit, cursor=cursor))
        return page_of(answer, Repo.read, lambda after: self.list(limit=limit, cursor=after))


class GitHubApps:
    """The server's GitHub App and the organisation's own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> Page[GitHubApp]:
        """All of them, the server's own included."""
        answer = await self._connection.json(reading("/github/apps"))
        return page_of(answer, GitHubApp.read)

    async def register(
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
        body = set_members(
            mode=mode,
            github_app_id=github_app_id,
            private_key=private_key,
            broker_url=broker_url,
            broker_secret=broker_secret,
            app_name=app_name,
            app_slug=app_slug,
            is_default=is_default,
        )
        return GitHubApp.read(await self._connection.object(Request("POST", "/github/apps", json=body)))

    async def update(
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
        body = set_members(
            private_key=private_key,
            broker_url=broker_url,
            broker_secret=broker_secret,
            app_name=app_name,
            app_slug=app_slug,
            is_default=is_default,
        )
        request = Request("PATCH", path_of("github", "apps", app), json=body)
        return GitHubApp.read(await self._connection.object(request))

    async def delete(self, app: str) -> None:
        """Forget one of the organisation's own."""
        await self._connection.send(Request("DELETE", path_of("github", "apps", app)))

    async def create_manifest_url(
        self,
        *,
        name: str | None = None,
        organization: str | None = None,
        url: str | None = None,
        is_default: bool | None = None,
    ) -> AppManifestUrl:
        """A page of the server on which somebody can have GitHub make an App."""
        body = set_members(name=name, organization=organization, url=url, is_default=is_default)
        request = Request("POST", "/github/apps/manifest", json=body)
        return AppManifestUrl.read(await self._connection.object(request))

    async def create_manifest(
        self,
        redirect_url: str,
        *,
        name: str | None = None,
        organization: str | None = None,
        url: str | None = None,
        is_default: bool | None = None,
    ) -> AppManifest:
        """What to post to GitHub from a page of your own, which it leads back to `redirect_url`."""
        body = set_members(
            redirect_url=redirect_url, name=name, organization=organization, url=url, is_default=is_default
        )
        request = Request("POST", "/github/apps/manifest", json=body)
        return AppManifest.read(await self._connection.object(request))

    async def complete_manifest(self, code: str, *, is_default: bool | None = None) -> GitHubApp:
        """Take the App into use that GitHub gave the `code` for."""
        body = set_members(code=code, is_default=is_default)
        request = Request("POST", "/github/apps/manifest/conversions", json=body)
        return GitHubApp.read(await self._connection.object(request))


class GitHubInstallations:
    """The accounts that have installed an App."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self, app_id: str | None = None, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[Installation]:
        """Newest first; those of one App, or of all."""

        async def page(cursor: str | None) -> Page[Installation]:
            request = reading("/github/installations", app_id=app_id, limit=limit, cursor=cursor)
            return page_of(await self._connection.object(request), Installation.read, page)

        return await page(cursor)


class GitHub:
    """Apps, and where they are installed."""

    def __init__(self, connection: Connection) -> None:
        self.apps = GitHubApps(connection)
        self.installations = GitHubInstallations(connection)
