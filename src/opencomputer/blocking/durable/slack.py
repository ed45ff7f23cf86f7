# Generated from src/opencomputer/sdk/durable/slack.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.slack`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.page import Page
from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from opencomputer.sdk.durable import slack as sdk
    from opencomputer.sdk.durable.slack import ManagedSlack, SlackConnection, SlackManifest


class SlackOfAgents(Twin):
    """What `oc.agents` can do about Slack."""

    def slack_manifest(self, agent: str, reconnect: bool = False) -> SlackManifest:
        """Begin to give an agent an app of its own; `reconnect` where it has one."""
        return self._run(self._original.slack_manifest(agent, reconnect))

    def connect_slack(self, agent: str, app_id: str, bot_token: str, signing_secret: str) -> SlackConnection:
        """Take the app that was made into use. Its secrets are not given out again."""
        return self._run(self._original.connect_slack(agent, app_id, bot_token, signing_secret))

    def get_slack(self, agent: str) -> SlackConnection:
        """Its own app. Raises `NotFoundError` when it has none."""
        return self._run(self._original.get_slack(agent))

    def disconnect_slack(self, agent: str) -> None:
        """Forget its own app, with its secrets."""
        self._run(self._original.disconnect_slack(agent))

    def authorize_managed_slack(self, agent: str, return_deployment_id: str | None = None) -> ManagedSlack:
        """Begin to bring an agent into a workspace by the server's app; or how it is there already."""
        return self._run(self._original.authorize_managed_slack(agent, return_deployment_id))

    def get_managed_slack(self, agent: str) -> ManagedSlack:
        """How it is there. Raises `NotFoundError` when it never was."""
        return self._run(self._original.get_managed_slack(agent))

    def list_managed_slack_connections(self) -> Page[ManagedSlack]:
        """All agents in the server's app; `agent` says which."""
        return Page(self._run(self._original.list_managed_slack_connections()))

    def disconnect_managed_slack(self, agent: str) -> None:
        """Take it out of the workspace."""
        self._run(self._original.disconnect_managed_slack(agent))

    @property
    def _original(self) -> sdk.SlackOfAgents:
        return cast("sdk.SlackOfAgents", self._wrapped)
