"""Agents in Slack: by an app of your own, or by the one that the server has."""

from __future__ import annotations

from dataclasses import dataclass

from opencomputer.sdk.answers import Described
from opencomputer.sdk.durable.bodies import set_members
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.records import Page, Record, page_of
from opencomputer.sdk.paths import path_of


@dataclass(frozen=True, kw_only=True)
class SlackManifest(Record):
    """The app to make on Slack's pages: `create_url` leads there, `steps` say how to go on."""

    manifest: Described | None = None
    manifest_json: str | None = None
    create_url: str = ""
    steps: list[object] | None = None
    status: str = ""


@dataclass(frozen=True, kw_only=True)
class SlackConnection(Record):
    """An agent's own app: `status` is pending, active, revoked or error."""

    id: str
    agent_id: str = ""
    handle: str | None = None
    status: str = ""
    slack_app_id: str | None = None
    team_id: str | None = None
    account_login: str | None = None
    open_url: str | None = None
    bot_token_verified: bool = False
    signing_verified: bool = False
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True, kw_only=True)
class ManagedSlack(Record):
    """An agent in the server's app. While `status` is pending, somebody must open `authorize_url`."""

    mode: str = "managed"
    status: str = ""
    workspace: Described | None = None
    app: Described | None = None
    open_url: str | None = None
    connected_at: str | None = None
    error_code: str | None = None
    authorize_url: str | None = None
    expires_at: str | None = None
    agent: Described | None = None


class SlackOfAgents:
    """What `oc.agents` can do about Slack."""

    _connection: Connection

    async def slack_manifest(self, agent: str, reconnect: bool = False) -> SlackManifest:
        """Begin to give an agent an app of its own; `reconnect` where it has one."""
        path = path_of("agents", agent, "slack", "manifest")
        body = {"reconnect": True} if reconnect else {}
        return SlackManifest.read(await self._connection.object(Request("POST", path, json=body)))

    async def connect_slack(
        self, agent: str, app_id: str, bot_token: str, signing_secret: str
    ) -> SlackConnection:
        """Take the app that was made into use. Its secrets are not given out again."""
        body = {"app_id": app_id, "bot_token": bot_token, "signing_secret": signing_secret}
        request = Request("POST", path_of("agents", agent, "slack"), json=body)
        return SlackConnection.read(await self._connection.object(request))

    async def get_slack(self, agent: str) -> SlackConnection:
        """Its own app. Raises `NotFoundError` when it has none."""
        return SlackConnection.read(await self._connection.object(reading(path_of("agents", agent, "slack"))))

    async def disconnect_slack(self, agent: str) -> None:
        """Forget its own app, with its secrets."""
        await self._connection.send(Request("DELETE", path_of("agents", agent, "slack")))

    async def authorize_managed_slack(
        self, agent: str, return_deployment_id: str | None = None
    ) -> ManagedSlack:
        """Begin to bring an agent into a workspace by the server's app; or how it is there already."""
        path = path_of("agents", agent, "slack", "managed", "authorize")
        body = set_members(return_deployment_id=return_deployment_id)
        return ManagedSlack.read(await self._connection.object(Request("POST", path, json=body)))

    async def get_managed_slack(self, agent: str) -> ManagedSlack:
        """How it is there. Raises `NotFoundError` when it never was."""
        path = path_of("agents", agent, "slack", "managed")
        return ManagedSlack.read(await self._connection.object(reading(path)))

    async def list_managed_slack_connections(self) -> Page[ManagedSlack]:
        """All agents in the server's app; `agent` says which."""
        answer = await self._connection.json(reading("/slack/managed/connections"))
        return page_of(answer, ManagedSlack.read)

    async def disconnect_managed_slack(self, agent: str) -> None:
        """Take it out of the workspace."""
        await self._connection.send(Request("DELETE", path_of("agents", agent, "slack", "managed")))
