"""What each call about starters, repositories, GitHub, Slack and watches sends, and what it gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opencomputer import OpenComputer
from opencomputer.sdk.durable.repository_records import RepositoryReview
from opencomputer.sdk.durable.session import Session
from opencomputer.sdk.durable.session_records import SessionData

Call = Callable[[OpenComputer], Awaitable[Any]]

SCHEDULE = {"id": "sch_1", "agent_id": "agt_1", "name": "nightly", "cron": "0 3 * * *", "tz": None}
RUN = {"id": "srn_1", "outcome": "enacted", "session_id": "ses_1", "scheduled_for": None}
HOOK = {"id": "hk_1", "name": "sentry", "status": "active", "secret_last4": "abcd"}
SOURCE = {"agent_id": "agt_1", "repo_id": "repo_1", "path": "", "production_ref": "main", "status": "active"}
SLACK = {"id": "sla_1", "agent_id": "agt_1", "handle": "@fixer", "status": "active"}
MANAGED = {"mode": "managed", "status": "active", "workspace": {"id": "T1", "name": "us"}}
REPO = {"id": "repo_1", "provider": "github", "owner": "us", "repo": "it", "name": None}
APP = {"id": "gha_1", "mode": "byo_stored_key", "status": "active", "is_default": True}
WATCH = {"id": "wch_1", "type": "github_pr", "repo": "us/it", "pr": 7, "wake_on": "checks"}
REVIEW = {
    "root": "agents/a",
    "sha": "c" * 40,
    "profile": {"source_profile": "flue-app-v1"},
    "review_fingerprint": "sha256:" + "d" * 64,
}
ACCESS = {
    "policy": {"mode": "selected", "repository_ids": ["repo_1"]},
    "grant": {"status": "active", "account": "us"},
    "effective_repositories": [{"id": "repo_1", "full_name": "us/it", "default_branch": "main"}],
    "unavailable_selected_repositories": [],
}
CONFIRMED = {"sha": "c" * 40, "source_profile": "flue-app-v1", "fingerprint": "sha256:" + "d" * 64}


@dataclass
class Case:
    """A call, the request that it makes, and how its outcome answers to some questions."""

    call: Call
    request: str
    answer: object = None
    status: int = 200
    body: object = None
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    outcome: Mapping[str, object] = field(default_factory=dict[str, object])
    repeated: bool = False


def session(client: OpenComputer) -> Session:
    return Session(client.connection, SessionData(id="ses_1"))


def page(*items: object, **more: object) -> dict[str, object]:
    return {"data": list(items), "next_cursor": None, **more}


CASES: dict[str, Case] = {
    "schedules.create": Case(
        lambda oc: oc.agents.schedules.create(
            "agt_1", "nightly", "0 3 * * *", "look", "Europe/Berlin", "allow"
        ),
        "POST /agents/agt_1/schedules",
        {"schedule": SCHEDULE},
        201,
        body={
            "name": "nightly",
            "cron": "0 3 * * *",
            "input": "look",
            "tz": "Europe/Berlin",
            "overlap": "allow",
        },
        outcome={"id": "sch_1", "tz": None},
    ),
    "schedules.list": Case(
        lambda oc: oc.agents.schedules.list("agt_1"),
        "GET /agents/agt_1/schedules",
        {"schedules": [SCHEDULE]},
        outcome={"data.0.name": "nightly"},
        repeated=True,
    ),
    "schedules.get, bare": Case(
        lambda oc: oc.agents.schedules.get("agt_1", "sch_1"),
        "GET /agents/agt_1/schedules/sch_1",
        SCHEDULE,
        outcome={"cron": "0 3 * * *"},
        repeated=True,
    ),
    "schedules.update, to UTC": Case(
        lambda oc: oc.agents.schedules.update("agt_1", "sch_1", tz=None, paused=True),
        "PATCH /agents/agt_1/schedules/sch_1",
        {"schedule": {**SCHEDULE, "state": "paused"}},
        body={"tz": None, "paused": True},
        outcome={"state": "paused"},
    ),
    "schedules.update, zone stays": Case(
        lambda oc: oc.agents.schedules.update("agt_1", "sch_1", input="new"),
        "PATCH /agents/agt_1/schedules/sch_1",
        {"schedule": SCHEDULE},
        body={"input": "new"},
    ),
    "schedules.delete": Case(
        lambda oc: oc.agents.schedules.delete("agt_1", "sch_1"),
        "DELETE /agents/agt_1/schedules/sch_1",
        status=204,
    ),
    "schedules.fire": Case(
        lambda oc: oc.agents.schedules.fire("agt_1", "sch_1"),
        "POST /agents/agt_1/schedules/sch_1/fire",
        {"run": RUN},
        201,
        outcome={"outcome": "enacted", "session_id": "ses_1"},
    ),
    "schedules.runs": Case(
        lambda oc: oc.agents.schedules.runs("agt_1", "sch_1", limit=1),
        "GET /agents/agt_1/schedules/sch_1/runs",
        {"runs": [RUN], "next_cursor": "c2"},
        query={"limit": "1"},
        outcome={"data.0.id": "srn_1", "next_cursor": "c2"},
        repeated=True,
    ),
    "hooks.create": Case(
        lambda oc: oc.agents.hooks.create("agt_1", "sentry", expires_at="2030-01-01T00:00:00Z"),
        "POST /agents/agt_1/hooks",
        {"hook": HOOK, "hook_url": "https://agt-1.agents.test/hooks/ochk_v1_x"},
        201,
        body={"name": "sentry", "expires_at": "2030-01-01T00:00:00Z"},
        outcome={"hook.id": "hk_1", "hook_url": "https://agt-1.agents.test/hooks/ochk_v1_x"},
    ),
    "hooks.list": Case(
        lambda oc: oc.agents.hooks.list("agt_1", include_revoked=True, limit=5),
        "GET /agents/agt_1/hooks",
        page(HOOK),
        query={"include_revoked": "true", "limit": "5"},
        outcome={"data.0.secret_last4": "abcd"},
        repeated=True,
    ),
    "hooks.get": Case(
        lambda oc: oc.agents.hooks.get("agt_1", "hk_1"),
        "GET /agents/agt_1/hooks/hk_1",
        HOOK,
        outcome={"status": "active"},
        repeated=True,
    ),
    "hooks.delete": Case(
        lambda oc: oc.agents.hooks.delete("agt_1", "hk_1"), "DELETE /agents/agt_1/hooks/hk_1", status=204
    ),
    "deployment_source.link": Case(
        lambda oc: oc.agents.deployment_source.link("agt_1", "us/it", "a", deploy_now=False),
        "POST /agents/agt_1/deployment-source",
        {"source": SOURCE, "deploy_error": {"type": "unavailable", "message": "later"}},
        201,
        body={"repo": "us/it", "path": "a", "deploy_now": False},
        outcome={"source.repo_id": "repo_1", "deployment_id": None, "deploy_error.type": "unavailable"},
    ),
    "deployment_source.get": Case(
        lambda oc: oc.agents.deployment_source.get("agt_1"),
        "GET /agents/agt_1/deployment-source",
        {"source": SOURCE},
        outcome={"status": "active"},
        repeated=True,
    ),
    "deployment_source.unlink": Case(
        lambda oc: oc.agents.deployment_source.unlink("agt_1"),
        "DELETE /agents/agt_1/deployment-source",
        {"ok": True},
    ),
    "repository.review": Case(
        lambda oc: oc.agents.repository.review("us/it", "agents/a", "main"),
        "POST /github/deploy-app/inspect",
        REVIEW,
        body={"repo": "us/it", "path": "agents/a", "production_ref": "main"},
        outcome={"root": "agents/a"},
    ),
    "repository.import_": Case(
        lambda oc: oc.agents.repository.import_(
            "fixer",
            {"repo": "us/it", "path": "agents/a", "production_ref": "main"},
            RepositoryReview.read(REVIEW),
            idempotency_key="k1",
        ),
        "POST /agents/import",
        {"agent": {"id": "agt_1"}, "source": SOURCE, "deployment": {"id": "dep_1"}},
        201,
        body={
            "name": "fixer",
            "credential": "managed",
            "source": {"type": "github", "repo": "us/it", "path": "agents/a", "production_ref": "main"},
            "review": CONFIRMED,
        },
        outcome={"agent.id": "agt_1", "source.path": "", "deployment.id": "dep_1"},
        repeated=True,
    ),
    "get_repository_access": Case(
        lambda oc: oc.agents.get_repository_access("agt_1"),
        "GET /agents/agt_1/repository-access",
        {**ACCESS, "effective_repositories": None},
        outcome={"grant.status": "active", "effective_repositories": None},
        repeated=True,
    ),
    "update_repository_access": Case(
        lambda oc: oc.agents.update_repository_access("agt_1", {"mode": "selected", "repository_ids": []}),
        "PUT /agents/agt_1/repository-access",
        ACCESS,
        body={"mode": "selected", "repository_ids": []},
        outcome={"effective_repositories.0.full_name": "us/it", "policy.mode": "selected"},
        repeated=True,
    ),
    "slack_manifest": Case(
        lambda oc: oc.agents.slack_manifest("agt_1", reconnect=True),
        "POST /agents/agt_1/slack/manifest",
        {
            "manifest": {"port": "1"},
            "manifest_json": "{}",
            "create_url": "https://slack.test",
            "steps": ["a"],
        },
        body={"reconnect": True},
        outcome={"manifest": {"port": "1"}, "steps": ["a"]},
    ),
    "connect_slack": Case(
        lambda oc: oc.agents.connect_slack("agt_1", "A1", "xoxb", "s"),
        "POST /agents/agt_1/slack",
        SLACK,
        body={"app_id": "A1", "bot_token": "xoxb", "signing_secret": "s"},
        outcome={"handle": "@fixer"},
    ),
    "get_slack": Case(
        lambda oc: oc.agents.get_slack("agt_1"),
        "GET /agents/agt_1/slack",
        SLACK,
        outcome={"id": "sla_1"},
        repeated=True,
    ),
    "disconnect_slack": Case(
        lambda oc: oc.agents.disconnect_slack("agt_1"), "DELETE /agents/agt_1/slack", {"ok": True}
    ),
    "authorize_managed_slack": Case(
        lambda oc: oc.agents.authorize_managed_slack("agt_1", "dep_1"),
        "POST /agents/agt_1/slack/managed/authorize",
        {"mode": "managed", "status": "pending", "authorize_url": "https://slack.test/o", "expires_at": "t"},
        body={"return_deployment_id": "dep_1"},
        outcome={"status": "pending", "authorize_url": "https://slack.test/o"},
    ),
    "get_managed_slack": Case(
        lambda oc: oc.agents.get_managed_slack("agt_1"),
        "GET /agents/agt_1/slack/managed",
        MANAGED,
        outcome={"workspace.name": "us"},
        repeated=True,
    ),
    "list_managed_slack_connections": Case(
        lambda oc: oc.agents.list_managed_slack_connections(),
        "GET /slack/managed/connections",
        {"data": [{**MANAGED, "agent": {"id": "agt_1", "name": "fixer"}}]},
        outcome={"data.0.agent.name": "fixer"},
        repeated=True,
    ),
    "disconnect_managed_slack": Case(
        lambda oc: oc.agents.disconnect_managed_slack("agt_1"),
        "DELETE /agents/agt_1/slack/managed",
        {"ok": True, "status": "disconnected"},
    ),
    "repos.create": Case(
        lambda oc: oc.repos.create("us", "it"),
        "POST /repos",
        REPO,
        201,
        body={"provider": "github", "owner": "us", "repo": "it"},
        outcome={"id": "repo_1"},
        repeated=True,
    ),
    "repos.get": Case(
        lambda oc: oc.repos.get("repo_1"), "GET /repos/repo_1", REPO, outcome={"repo": "it"}, repeated=True
    ),
    "repos.update": Case(
        lambda oc: oc.repos.update("repo_1", "ours"), "PATCH /repos/repo_1", REPO, body={"name": "ours"}
    ),
    "repos.list": Case(
        lambda oc: oc.repos.list(limit=2, cursor="c"),
        "GET /repos",
        page(REPO),
        query={"limit": "2", "cursor": "c"},
        outcome={"data.0.owner": "us"},
        repeated=True,
    ),
    "github.apps.list": Case(
        lambda oc: oc.github.apps.list(),
        "GET /github/apps",
        {"data": [APP]},
        outcome={"data.0.is_default": True},
        repeated=True,
    ),
    "github.apps.register": Case(
        lambda oc: oc.github.apps.register("byo_stored_key", github_app_id=7, private_key="PEM"),
        "POST /github/apps",
        APP,
        201,
        body={"mode": "byo_stored_key", "github_app_id": 7, "private_key": "PEM"},
        outcome={"id": "gha_1"},
    ),
    "github.apps.update": Case(
        lambda oc: oc.github.apps.update("gha_1", is_default=False),
        "PATCH /github/apps/gha_1",
        APP,
        body={"is_default": False},
    ),
    "github.apps.delete": Case(
        lambda oc: oc.github.apps.delete("gha_1"),
        "DELETE /github/apps/gha_1",
        {"id": "gha_1", "deleted": True},
    ),
    "github.apps.create_manifest_url": Case(
        lambda oc: oc.github.apps.create_manifest_url(organization="us"),
        "POST /github/apps/manifest",
        {"start_url": "https://node.test/start", "expires_at": "t"},
        body={"organization": "us"},
        outcome={"start_url": "https://node.test/start"},
    ),
    "github.apps.create_manifest": Case(
        lambda oc: oc.github.apps.create_manifest("https://mine.test"),
        "POST /github/apps/manifest",
        {
            "manifest": {"hook_attributes": {}},
            "post_url": "https://github.test",
            "field": "manifest",
            "state": "s",
        },
        body={"redirect_url": "https://mine.test"},
        outcome={"state": "s", "manifest": {"hook_attributes": {}}},
    ),
    "github.apps.complete_manifest": Case(
        lambda oc: oc.github.apps.complete_manifest("code", is_default=True),
        "POST /github/apps/manifest/conversions",
        APP,
        201,
        body={"code": "code", "is_default": True},
        outcome={"mode": "byo_stored_key"},
    ),
    "github.installations.list": Case(
        lambda oc: oc.github.installations.list("gha_1", limit=3),
        "GET /github/installations",
        {"data": [{"id": "ghi_1", "account_login": "us"}]},
        query={"app_id": "gha_1", "limit": "3"},
        outcome={"data.0.account_login": "us"},
        repeated=True,
    ),
    "watches.create": Case(
        lambda oc: session(oc).watches.create(repo="us/it", pr=7, wake_on="review", intent="merge it"),
        "POST /sessions/ses_1/watches",
        {"watch": WATCH},
        201,
        body={"type": "github_pr", "repo": "us/it", "pr": 7, "wake_on": "review", "intent": "merge it"},
        outcome={"id": "wch_1", "pr": 7},
    ),
    "watches.list": Case(
        lambda oc: session(oc).watches.list(),
        "GET /sessions/ses_1/watches",
        {"data": [WATCH]},
        outcome={"data.0.wake_on": "checks"},
        repeated=True,
    ),
    "watches.delete": Case(
        lambda oc: session(oc).watches.delete("wch_1"), "DELETE /sessions/ses_1/watches/wch_1", {"ok": True}
    ),
    "list_sources": Case(
        lambda oc: session(oc).list_sources(),
        "GET /sessions/ses_1/sources",
        [{"name": "it", "status": "failed", "error_code": "source.timeout", "retryable": True}],
        outcome={"0.error_code": "source.timeout", "0.retryable": True},
        repeated=True,
    ),
    "sessions.create with sources": Case(
        lambda oc: oc.sessions.create(agent="agt_1", input="go", sources=[{"repo": "us/it", "ref": "main"}]),
        "POST /sessions",
        {"session": {"id": "ses_1"}, "client_token": "eyJ", "sources": [{"name": "it", "status": "pending"}]},
        201,
        body={"agent": "agt_1", "input": "go", "sources": [{"repo": "us/it", "ref": "main"}]},
        outcome={"client_token": "eyJ", "sources.0.status": "pending"},
        repeated=True,
    ),
}
