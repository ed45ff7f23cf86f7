"""Every call of the client of durable agents and sessions, by name and parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest

from opencomputer import OpenComputer, connect_session, verify_webhook
from opencomputer.sdk.durable.session import Session
from opencomputer.sdk.durable.session_records import SessionData

OF_CLIENT = {
    "agents.create": "*, name, model, prompt=None, runtime=None, key=None, credential=None, limits=None",
    "agents.get": "agent",
    "agents.list": "*, limit=None, cursor=None",
    "agents.update": "agent, *, prompt=None, model=None, key=None, credential=NOT_GIVEN, limits=NOT_GIVEN",
    "agents.delete": "agent",
    "agents.deploy": "dir='.', *, agent_id=None, activate=None",
    "agents.invoke": "agent_or_url, payload, *, idempotency_key=None",
    "agents.get_repository_access": "agent",
    "agents.update_repository_access": "agent, policy",
    "agents.slack_manifest": "agent, reconnect=False",
    "agents.connect_slack": "agent, app_id, bot_token, signing_secret",
    "agents.get_slack": "agent",
    "agents.disconnect_slack": "agent",
    "agents.authorize_managed_slack": "agent, return_deployment_id=None",
    "agents.get_managed_slack": "agent",
    "agents.list_managed_slack_connections": "",
    "agents.disconnect_managed_slack": "agent",
    "agents.deployments.create": "agent, *, input, activate=None, idempotency_key=None, client_context=None",
    "agents.deployments.list": "agent, *, limit=None, before=None",
    "agents.deployments.get": "agent, deployment",
    "agents.deployments.logs": "agent, deployment, *, after=None, limit=None",
    "agents.revisions.list": "agent",
    "agents.revisions.get": "agent, revision",
    "agents.revisions.activate": "agent, revision",
    "agents.activations.list": "agent",
    "agents.skills.get": "agent",
    "agents.skills.put": "agent, zipped",
    "agents.skills.delete": "agent",
    "agents.deployment_source.link": "agent, repo, path, production_ref=None, deploy_now=None",
    "agents.deployment_source.get": "agent",
    "agents.deployment_source.unlink": "agent",
    "agents.schedules.create": "agent, name, cron, input, tz=None, overlap=None",
    "agents.schedules.list": "agent",
    "agents.schedules.get": "agent, schedule",
    "agents.schedules.update": "agent, schedule, *, cron=None, tz=NOT_GIVEN, input=None, overlap=None, "
    "paused=None",
    "agents.schedules.delete": "agent, schedule",
    "agents.schedules.fire": "agent, schedule",
    "agents.schedules.runs": "agent, schedule, *, limit=None, cursor=None",
    "agents.hooks.create": "agent, name, *, expires_at=None",
    "agents.hooks.list": "agent, *, include_revoked=None, limit=None, cursor=None",
    "agents.hooks.get": "agent, hook",
    "agents.hooks.delete": "agent, hook",
    "agents.repository.review": "repo, path='', production_ref=None",
    "agents.repository.import_": "name, source, review, credential='managed', idempotency_key=None",
    "sessions.create": "*, agent, input, model=None, revision=None, key=None, metadata=None, limits=None, "
    "webhook=None, destinations=None, sources=None, idempotency_key=None",
    "sessions.get": "session",
    "sessions.list": "*, agent=None, status=None, key=None, after=None, before=None, limit=None, cursor=None",
    "credentials.create": "*, key, provider=None, name=None, is_default=None",
    "credentials.list": "",
    "credentials.delete": "credential",
    "credentials.rotate": "credential, key",
    "credentials.set_default": "credential, *, provider=None",
    "repos.create": "owner, repo, provider='github', name=None",
    "repos.get": "repo",
    "repos.update": "repo, name",
    "repos.list": "*, limit=None, cursor=None",
    "github.apps.list": "",
    "github.apps.register": "mode, *, github_app_id=None, private_key=None, broker_url=None, "
    "broker_secret=None, app_name=None, app_slug=None, is_default=None",
    "github.apps.update": "app, *, private_key=None, broker_url=None, broker_secret=None, app_name=None, "
    "app_slug=None, is_default=None",
    "github.apps.delete": "app",
    "github.apps.create_manifest_url": "*, name=None, organization=None, url=None, is_default=None",
    "github.apps.create_manifest": "redirect_url, *, name=None, organization=None, url=None, is_default=None",
    "github.apps.complete_manifest": "code, *, is_default=None",
    "github.installations.list": "app_id=None, *, limit=None, cursor=None",
}
OF_SESSION = {
    "events": "*, level='internal', type=None, after=0, reconnect=True",
    "list_events": "*, after=0, level=None, type=None, turn_id=None, limit=None",
    "event": "event_id",
    "event_content": "event_id",
    "messages": "*, after=0, limit=None",
    "steer": "text, *, idempotency_key=None",
    "refresh": "",
    "turns": "*, limit=None, cursor=None",
    "turn": "turn_id",
    "result": "",
    "list_sources": "",
    "cancel": "",
    "archive": "",
    "mint_client_token": "scopes=('read', 'steer'), *, ttl_seconds=None",
    "wait": "*, timeout=None",
    "destinations.create": "url, *, secret=None, level=None, types=None, include_raw=None, enabled=None",
    "destinations.list": "",
    "destinations.get": "destination",
    "destinations.update": "destination, *, url=NOT_GIVEN, secret=NOT_GIVEN, level=NOT_GIVEN, "
    "types=NOT_GIVEN, include_raw=NOT_GIVEN, enabled=NOT_GIVEN",
    "destinations.delete": "destination",
    "deliveries.list": "*, destination=None, status=None, after=None, limit=None",
    "deliveries.get": "delivery",
    "deliveries.redeliver": "delivery",
    "watches.create": "type='github_pr', repo=None, pr=None, wake_on=None, intent=None",
    "watches.list": "",
    "watches.delete": "watch",
}
FUNCTIONS = (
    (OpenComputer, "api_key=None, *, base_url=None, max_retries=2, timeout=60.0, http_client=None"),
    (connect_session, "session_id, client_token, *, base_url=None"),
    (verify_webhook, "raw_body, headers, secret, *, tolerance_seconds=300, now_seconds=None"),
)
PROPERTIES = ["id", "client_token", "status", "last_turn", "usage", "sources", "metadata", "snapshot"]


def described(function: Callable[..., Any]) -> str:
    bare = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in inspect.signature(function).parameters.values()
    ]
    return str(inspect.Signature(bare)).strip("()")


CLIENT = OpenComputer("key", base_url="http://node.test")


@pytest.mark.parametrize("name", OF_CLIENT)
def test_a_call_of_the_client_takes_what_it_should(name: str) -> None:
    assert described(attrgetter(name)(CLIENT)).startswith(OF_CLIENT[name])


@pytest.mark.parametrize("name", OF_SESSION)
def test_a_call_of_a_session_takes_what_it_should(name: str) -> None:
    session = Session(CLIENT.connection, SessionData(id="ses_1"))
    assert described(attrgetter(name)(session)) == OF_SESSION[name]
    assert all(hasattr(session, each) for each in PROPERTIES)


@pytest.mark.parametrize(("function", "parameters"), FUNCTIONS)
def test_the_ways_in_take_what_they_should(function: Callable[..., Any], parameters: str) -> None:
    assert described(function).startswith(parameters)
