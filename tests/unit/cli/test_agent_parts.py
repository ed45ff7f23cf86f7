"""What belongs to durable agents and sessions, and repositories, against the contract's shapes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from opencomputer.cli import deploying
from tests.support.fake_node import FakeNode, Rule
from tests.unit.cli.conftest import Oc
from tests.unit.cli.process import OnTerminal
from tests.unit.cli.recorded import FORMS, Recorded, check_form

Golden = Callable[[str, str], None]

AGENT = f"agt_{1:024x}"
SESSION = f"ses_{1:024x}"
NOW = "2026-01-02T03:04:05.000Z"
HOOK = {
    "id": "hk_1",
    "agent_id": AGENT,
    "name": "ci",
    "status": "active",
    "secret_last4": "wxyz",
    "revoked_reason": None,
    "expires_at": None,
    "created_at": NOW,
}
SCHEDULE = {
    "id": "sch_1",
    "agent_id": AGENT,
    "name": "daily",
    "cron": "0 9 * * 1-5",
    "tz": None,
    "input": "Look \x1b[31maround.",
    "overlap": "skip",
    "state": "active",
    "next_fire_at": NOW,
    "last_fired_at": None,
    "consecutive_failures": 2,
    "last_error": "no credential",
    "created_at": NOW,
    "updated_at": NOW,
}
RUN = {"id": "srn_1", "schedule_id": "sch_1", "scheduled_for": None, "fired_at": NOW, "outcome": "enacted"}
STARTED = {**RUN, "session_id": SESSION, "error": None}
FAILED = {**RUN, "scheduled_for": NOW, "outcome": "failed", "session_id": None, "error": "no credential"}
SOURCE = {
    "agent_id": AGENT,
    "repo_id": "repo_1",
    "full_name": "acme/web",
    "path": "agents/a",
    "production_ref": "main",
    "status": "active",
    "active_deployed_sha": "ab" * 20,
}
WATCH = {
    "id": "wch_1",
    "type": "github_pr",
    "repo": "acme/web",
    "pr": 7,
    "wake_on": "review",
    "intent": "Answer what they ask about the change, all of it.",
    "status": "active",
    "created_at": NOW,
}
REPO = {"id": "repo_1", "provider": "github", "owner": "acme", "repo": "web", "name": None, "created_at": NOW}
SECRET = {"name": "TOKEN", "last4": "wxyz", "updated_at": NOW}
OF = f"--agent {AGENT}"
IT = f"/v3/agents/{AGENT}"

CASES = {
    "link": Recorded(
        f"agent link acme/web --path agents/a {OF}",
        *("POST", f"{IT}/deployment-source", {"source": SOURCE, "deployment_id": "dep_1"}, 201),
        {"repo": "acme/web", "path": "agents/a", "production_ref": "main", "deploy_now": True},
    ),
    "unlink": Recorded(f"agent unlink {OF} --yes", "DELETE", f"{IT}/deployment-source", {"ok": True}),
    "hooks": Recorded(
        f"agent hooks {OF} --include-revoked --cursor c --limit 5",
        *("GET", f"{IT}/hooks", {"data": [HOOK, {**HOOK, "expires_at": NOW}], "next_cursor": "more"}),
        query={"include_revoked": "true", "cursor": "c", "limit": "5"},
    ),
    "hook_create": Recorded(
        f"agent hook create ci --expires-at {NOW} {OF}",
        *("POST", f"{IT}/hooks", {"hook": HOOK, "hook_url": "https://a.test/hooks/ochk_v1_x"}, 201),
        {"name": "ci", "expires_at": NOW},
    ),
    "hook_get": Recorded(f"agent hook get hk_1 {OF}", "GET", f"{IT}/hooks/hk_1", HOOK),
    "hook_revoke": Recorded(f"agent hook revoke hk_1 {OF} --yes", "DELETE", f"{IT}/hooks/hk_1", None, 204),
    "schedules": Recorded(f"agent schedules {OF}", "GET", f"{IT}/schedules", {"schedules": [SCHEDULE]}),
    "schedule_create": Recorded(
        f"agent schedule create daily --cron 0~9~*~*~1-5 --input Look. --tz Europe/Oslo --overlap allow {OF}",
        *("POST", f"{IT}/schedules", {"schedule": SCHEDULE}, 201),
        {"name": "daily", "cron": "0 9 * * 1-5", "input": "Look.", "tz": "Europe/Oslo", "overlap": "allow"},
    ),
    "schedule_get": Recorded(
        *(f"agent schedule get sch_1 {OF}", "GET", f"{IT}/schedules/sch_1", {"schedule": SCHEDULE})
    ),
    "schedule_pause": Recorded(
        f"agent schedule pause sch_1 {OF}",
        *("PATCH", f"{IT}/schedules/sch_1", {"schedule": {**SCHEDULE, "state": "paused"}}, 200),
        {"paused": True},
    ),
    "schedule_resume": Recorded(
        f"agent schedule resume sch_1 {OF}",
        *("PATCH", f"{IT}/schedules/sch_1", SCHEDULE, 200),
        {"paused": False},
    ),
    "schedule_delete": Recorded(
        *(f"agent schedule rm sch_1 {OF}", "DELETE", f"{IT}/schedules/sch_1", None, 204)
    ),
    "schedule_fire": Recorded(
        *(f"agent schedule fire sch_1 {OF}", "POST", f"{IT}/schedules/sch_1/fire", {"run": STARTED}, 201)
    ),
    "schedule_runs": Recorded(
        f"agent schedule runs sch_1 --limit 9 {OF}",
        *("GET", f"{IT}/schedules/sch_1/runs", {"runs": [STARTED, FAILED], "next_cursor": None}),
        query={"limit": "9"},
    ),
    "secret_list": Recorded(f"agent secret ls {OF}", "GET", f"{IT}/secrets", {"data": [SECRET]}),
    "secret_delete": Recorded(f"agent secret rm TOKEN {OF}", "DELETE", f"{IT}/secrets/TOKEN", None, 204),
    "watch": Recorded(
        f"session watch {SESSION} --wake-on review --repo acme/web --pr 7 --intent Answer.",
        *("POST", f"/v3/sessions/{SESSION}/watches", {"watch": WATCH}, 201),
        {"type": "github_pr", "wake_on": "review", "repo": "acme/web", "pr": 7, "intent": "Answer."},
    ),
    "watches": Recorded(
        *(f"session watch-list {SESSION}", "GET", f"/v3/sessions/{SESSION}/watches", {"data": [WATCH]})
    ),
    "unwatch": Recorded(
        *(f"session unwatch {SESSION} wch_1", "DELETE", f"/v3/sessions/{SESSION}/watches/wch_1", {"ok": True})
    ),
    "repo_add": Recorded(
        *("repo add acme/web --name web", "POST", "/v3/repos", REPO, 201),
        {"provider": "github", "owner": "acme", "repo": "web", "name": "web"},
    ),
    "repo_list": Recorded(
        *("repo list", "GET", "/v3/repos", {"data": [REPO], "next_cursor": "more"}), query={"limit": "50"}
    ),
    "repo_get": Recorded("repo get repo_1", "GET", "/v3/repos/repo_1", REPO),
    "revisions_get": Recorded(
        f"agent revisions get 2 {OF}",
        *("GET", f"{IT}/revisions/2"),
        {
            "id": "rev_2",
            "number": 2,
            "digest": "sha256:ab",
            "prompt": "Help.",
            "model": "anthropic/x",
            "active": True,
            "created_at": NOW,
            "files": [{"path": "look/SKILL.md", "mode": "0644", "size": 5}],
        },
    ),
    "deployment_logs": Recorded(
        f"agent deployment dep_1 --logs {OF}",
        *("GET", f"{IT}/deployments/dep_1/logs"),
        {
            "data": [{"seq": 1, "chunk": "one\ntwo"}, {"seq": 2, "chunk": " \x1b[31mred\n"}],
            "next_cursor": None,
        },
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeNode]:
    with FakeNode() as node:
        node.durable.add_agent(1, NOW, name="fixer")
        node.durable.add_session(1, AGENT, NOW)
        yield node


@pytest.fixture
def node(server: FakeNode) -> FakeNode:
    """One node for all tests here, with an agent and a session."""
    server.rules.clear()
    server.seen.clear()
    return server


@pytest.mark.parametrize("name", CASES)
def test_requests_and_results_are_as_written_down(oc: Oc, node: FakeNode, golden: Golden, name: str) -> None:
    """As text, as JSON, and as what `--quiet` leaves."""
    case = CASES[name]
    case.teach(node)
    for form in FORMS:
        node.seen.clear()
        outcome = oc(*case.arguments(form))
        assert outcome.exit_code == 0, outcome.stderr
        case.check(node)
        check_form(form, outcome.stdout)
        golden(f"agents/{name}.{form}", outcome.stdout)


@pytest.mark.parametrize(
    ("command", "path", "said"),
    [
        (f"agent hooks {OF}", f"{IT}/hooks", "No hooks."),
        (f"agent schedules {OF}", f"{IT}/schedules", "No schedules."),
        (f"agent schedule runs sch_1 {OF}", f"{IT}/schedules/sch_1/runs", "No runs."),
        (f"agent secret list {OF}", f"{IT}/secrets", "No secrets."),
        (f"session watches {SESSION}", f"/v3/sessions/{SESSION}/watches", "No watches."),
        ("repo ls", "/v3/repos", "No repositories."),
    ],
)
def test_empty_lists_say_so(oc: Oc, node: FakeNode, command: str, path: str, said: str) -> None:
    Recorded(command, "GET", path, {"data": []}).teach(node)
    assert oc(*command.split()).stdout == f"{said}\n"
    assert oc(*command.split(), "--json").stdout == "[]\n"


def test_hooks_and_schedules_go_by_their_names(oc: Oc, node: FakeNode) -> None:
    Recorded("", "GET", f"{IT}/hooks", {"data": [HOOK]}).teach(node)
    Recorded("", "DELETE", f"{IT}/hooks/hk_1", None, 204).teach(node)
    Recorded("", "GET", f"{IT}/schedules", {"schedules": [SCHEDULE, {**SCHEDULE, "id": "sch_2"}]}).teach(node)
    assert oc("agent", "hook", "revoke", "ci", "--agent", "fixer", "--yes").exit_code == 0
    assert node.requests("DELETE", f"{IT}/hooks/hk_1")
    missing = oc("agent", "hook", "get", "other", "--agent", AGENT)
    assert (missing.exit_code, "none of the hooks has the name 'other'" in missing.stderr) == (1, True)
    twice = oc("agent", "schedule", "get", "daily", "--agent", AGENT)
    assert (twice.exit_code, "2 of the schedules have the name 'daily'" in twice.stderr) == (1, True)


@pytest.mark.parametrize("command", [f"agent unlink {OF}", f"agent hook revoke hk_1 {OF}"])
def test_what_cannot_be_undone_is_not_done_unasked(oc: Oc, node: FakeNode, command: str) -> None:
    outcome = oc(*command.split())
    assert (outcome.exit_code, "--yes" in outcome.stderr, node.seen) == (1, True, [])


def test_only_yes_is_a_yes(node: FakeNode) -> None:
    for answer, code in (("maybe", 1), ("Yes", 0)):
        Recorded("", "DELETE", f"{IT}/hooks/hk_1", None, 204).teach(node)
        with OnTerminal(node, "agent", "hook", "revoke", "hk_1", "--agent", AGENT) as terminal:
            terminal.read_until(b"Revoke the hook hk_1? [y/N] ")
            assert node.requests("DELETE", "/hk_1") == []
            terminal.type(f"{answer}\n".encode())
            assert terminal.wait() == code


def test_a_secret_is_read_and_not_shown(oc: Oc, node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {**SECRET, "deployment_required": True}
    Recorded("", "PUT", f"{IT}/secrets/TOKEN", answer).teach(node)
    monkeypatch.setattr("sys.stdin", io.StringIO("value\n\n"))
    outcome = oc("agent", "secret", "set", "TOKEN", "--from-stdin", "--agent", AGENT)
    assert (outcome.stdout, "oc agent deploy" in outcome.stderr) == ("✓ TOKEN set\n", True)
    assert node.requests("PUT", "/TOKEN")[0].body == {"value": "value\n"}
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert "the value is empty" in oc("agent", "secret", "set", "TOKEN", "--agent", AGENT).stderr


def test_a_link_whose_first_deployment_cannot_start_is_a_link(oc: Oc, node: FakeNode) -> None:
    answer = {"source": SOURCE, "deploy_error": {"type": "invalid_request", "message": "no agent.toml"}}
    Recorded("", "POST", f"{IT}/deployment-source", answer, 201).teach(node)
    outcome = oc("agent", "link", "acme/web", "--agent", AGENT, "--wait")
    assert (outcome.exit_code, outcome.stdout) == (0, "✓ linked to acme/web (main)\n")
    assert "no agent.toml" in outcome.stderr


def test_the_first_deployment_of_a_link_is_waited_for(
    oc: Oc, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploying, "POLL_SECONDS", 0)
    Recorded("", "POST", f"{IT}/deployment-source", {"source": SOURCE, "deployment_id": "dep_9"}).teach(node)
    path, failed = f"{IT}/deployments/dep_9", {"class": "install_failed", "message": "npm said no"}
    node.rules.append(Rule("GET", path, 200, {"id": "dep_9", "state": "building"}))
    node.rules.append(Rule("GET", path, 200, {"id": "dep_9", "state": "failed", "error": failed}))
    outcome = oc("agent", "link", "acme/web", "--agent", AGENT, "--wait")
    assert (outcome.exit_code, outcome.stderr) == (1, "Error: dep_9 failed: npm said no\n")


def test_the_source_of_an_agent_is_in_its_status(oc: Oc, node: FakeNode, golden: Golden) -> None:
    Recorded("", "GET", f"{IT}/deployment-source", {"source": SOURCE}).teach(node)
    golden("agents/status_linked.text", oc("agent", "status", AGENT).stdout)
    assert json.loads(oc("agent", "status", AGENT, "--json").stdout)["source"] == SOURCE


def test_a_session_works_on_repositories(oc: Oc, node: FakeNode) -> None:
    sources = ["--source", "acme/web", "--source", "acme/api@v2"]
    assert oc("session", "start", "--agent", AGENT, "--input", "x", *sources).exit_code == 0
    body = cast("dict[str, object]", node.requests("POST", "/sessions")[0].body)
    assert body["sources"] == [{"repo": "acme/web", "ref": "HEAD"}, {"repo": "acme/api", "ref": "v2"}]
    wrong = oc("session", "create", "--agent", AGENT, "--input", "x", "--source", "web")
    assert (wrong.exit_code, "OWNER/REPO" in wrong.stderr) == (1, True)


def test_a_repository_has_an_owner(oc: Oc, node: FakeNode) -> None:
    outcome = oc("repo", "add", "web")
    assert (outcome.exit_code, "OWNER/REPO" in outcome.stderr, node.seen) == (1, True, [])


def test_an_input_is_given_to_an_agents_url_once(oc: Oc, node: FakeNode, tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text('{"ticket": 7}')
    node.durable.agents[AGENT]["invoke_url"] = f"{node.url}/v3/at/fixer"
    receipt = {
        "request_id": "req_1",
        "session": {"id": SESSION, "status": "queued", "head": 1},
        "replayed": False,
    }
    node.rules.append(Rule("POST", "/v3/at/fixer/", 503, {"error": "busy"}, {"Retry-After": "0"}))
    Recorded("", "POST", "/v3/at/fixer/", receipt, 202).teach(node)
    outcome = oc("agent", "invoke", "fixer", "--file", f"{tmp_path}/input.json")
    assert (outcome.exit_code, outcome.stdout) == (0, f"✓ {SESSION}  queued\n")
    assert f"oc session attach {SESSION}" in outcome.stderr
    first, second = node.requests("POST", "/at/fixer/")
    assert (first.body, first.headers["authorization"]) == ({"ticket": 7}, f"Bearer {node.api_key}")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.headers["idempotency-key"].startswith("oc-cli-")
    assert json.loads(oc("agent", "invoke", AGENT, "--data", "null", "--json").stdout) == receipt


@pytest.mark.parametrize("given", [[], ["--data", "1", "--stdin"], ["--data", "{"], ["--file", "/no/such"]])
def test_an_agent_is_given_one_piece_of_json(oc: Oc, node: FakeNode, given: list[str]) -> None:
    outcome = oc("agent", "invoke", "fixer", *given)
    assert (outcome.exit_code, outcome.stdout, node.seen) == (1, "", [])


def test_a_deployment_that_is_watched_tells_what_it_prints(
    oc: Oc, node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploying, "POLL_SECONDS", 0)
    (tmp_path / "agent.toml").write_text('name = "fixer"\nmodel = "anthropic/x"\n')
    (tmp_path / "prompt.md").write_text("Help.")
    path = f"{IT}/deployments"
    node.rules.append(Rule("POST", path, 202, {"deployment": {"id": "dep_9", "state": "queued"}}))
    node.rules.append(Rule("GET", f"{path}/dep_9", 200, {"id": "dep_9", "state": "ready", "terminal": True}))
    pieces = [{"seq": 1, "cursor": "1", "chunk": "one\ntwo\n"}]
    node.rules.append(Rule("GET", f"{path}/dep_9/logs", 200, {"data": pieces}))
    node.rules.append(Rule("GET", f"{path}/dep_9/logs", 200, {"data": []}))
    outcome = oc("agent", "deploy", str(tmp_path), "--verbose", "--json")
    assert (outcome.exit_code, json.loads(outcome.stdout)["state"]) == (0, "ready")
    assert outcome.stderr == "model anthropic/x, prompt of 5 characters\none\ntwo\n"
    assert [seen.query for seen in node.requests("GET", "/logs")] == [{}, {"after": "1"}]


SCHEDULED = """
name = "fixer"
model = "anthropic/x"
[[schedules]]
name = "daily"
cron = "0 9 * * *"
input = "Look."
"""


def test_a_folder_is_looked_at_without_a_server(oc: Oc, node: FakeNode, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(SCHEDULED)
    (tmp_path / "prompt.md").write_text("Help.")
    outcome = oc("agent", "build", "--dir", str(tmp_path), "--check-only")
    assert outcome.stdout == "✓ fixer can be deployed: 0 files of skills\n"
    told = oc("agent", "build", "--dir", str(tmp_path), "--output", str(tmp_path / "out"))
    assert (told.exit_code, "oc agent deploy" in told.stderr) == (1, True)
    (tmp_path / "agent.toml").write_text(SCHEDULED + 'when = "never"\n')
    wrong = oc("agent", "build", "--dir", str(tmp_path))
    assert (wrong.exit_code, wrong.stderr) == (1, "Error: [[schedules]] in agent.toml have no when\n")
    (tmp_path / "agent.toml").write_text('name = "f"\nmodel = "a/b"\n[runtime]\nfamily = "flue"\n')
    flue = oc("agent", "build", "--dir", str(tmp_path), "--json")
    assert (flue.exit_code, "oc agent link" in flue.stderr, node.seen) == (1, True, [])


def test_schedules_of_a_folder_are_deployed_with_it(oc: Oc, node: FakeNode, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(SCHEDULED)
    (tmp_path / "prompt.md").write_text("Help.")
    deployment = {"id": "dep_9", "state": "ready", "terminal": True}
    node.rules.append(Rule("POST", f"{IT}/deployments", 201, {"deployment": deployment}))
    assert oc("agent", "deploy", str(tmp_path)).exit_code == 0
    body = cast("dict[str, dict[str, object]]", node.requests("POST", "/deployments")[0].body)
    assert body["input"]["schedules"] == [{"name": "daily", "cron": "0 9 * * *", "input": "Look."}]
