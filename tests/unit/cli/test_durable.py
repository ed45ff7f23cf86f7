"""Durable agents and sessions on the command line, against a fake of `/v3`."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.fake_node import FakeNode
from tests.support.fake_node.durable_routes import Durable
from tests.unit.cli.conftest import Oc
from tests.unit.cli.process import OnTerminal, finish, start

Golden = Callable[[str, str], None]

AGENT = f"agt_{1:024x}"
SESSION = f"ses_{1:024x}"
TURN = "trn_1"
NOW = "2026-01-02T03:04:05.000Z"
USAGE = {"reported": True, "tokens": 1234, "total_cost_usd": 0.0123}
WORK: list[dict[str, object]] = [
    {"type": "turn.started", "level": "progress", "turn_id": TURN, "body": {"turn_id": TURN}},
    {
        "type": "tool.call",
        "level": "internal",
        "turn_id": TURN,
        "body": {"tool": "bash", "args_summary": "ls"},
    },
    {"type": "agent.message", "turn_id": TURN, "body": {"text": "There is \x1b[31mnothing."}},
    {"type": "turn.completed", "turn_id": TURN, "body": {"yield_reason": "completed", "usage": USAGE}},
]


@pytest.fixture
def durable(node: FakeNode) -> Durable:
    """An agent with two revisions, and one session that has worked."""
    durable = node.durable
    durable.add_agent(1, NOW, name="fixer", limits={"turns": 3}, checkpoints={"keep": 2})
    digest = "sha256:" + "ab" * 32
    durable.revisions = [
        {"id": f"rev_{number}", "number": number, "digest": digest, "active": number == 1, "created_at": NOW}
        for number in (2, 1)
    ]
    durable.deployments = [
        {"id": "dep_1", "state": "ready", "terminal": True, "input_type": "inline", "created_at": NOW}
    ]
    turn = {"id": TURN, "state": "ok", "yield_reason": "completed", "active_seconds": 12.34, "usage": USAGE}
    durable.turns = [turn]
    durable.add_session(1, AGENT, NOW, status="idle", last_turn=turn, key="order-7", usage={"tokens": 1234})
    durable.append(SESSION, {"type": "user.message", "body": {"text": "Look."}}, *WORK)
    durable.destinations = [
        {"id": "dst_9", "url": "https://a.test/h", "level": "user", "types": ["turn.*"], "enabled": True}
    ]
    durable.deliveries = [
        {"id": "dlv_9", "destination": "dst_9", "event_seq": 5, "status": "dead_letter", "attempts": 8}
    ]
    durable.credentials["cred_1"] = {
        "id": "cred_1",
        "provider": "anthropic",
        "name": "ours",
        "last4": "wxyz",
        "is_default": True,
        "created_at": NOW,
    }
    return durable


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "command",
    [
        "agent create helper --model anthropic/x --prompt Help.",
        "agent list",
        "agent get fixer",
        "agent update fixer --prompt New.",
        "agent delete fixer --yes",
        "agent status fixer",
        "agent revisions fixer",
        "agent rollback 1 --agent fixer",
        "agent activations fixer",
        "agent deployments fixer",
        "agent deployment dep_1 --agent fixer",
        "session create --agent fixer --input Look.",
        "session list",
        f"session get {SESSION}",
        f"session result {SESSION}",
        f"session turns {SESSION}",
        f"session logs {SESSION}",
        f"session steer {SESSION} more",
        f"session cancel {SESSION}",
        f"session archive {SESSION}",
        f"session rewind {SESSION} {TURN}",
        f"session fork {SESSION} {TURN}",
        f"session token {SESSION}",
        f"session webhooks list {SESSION}",
        f"session webhooks add {SESSION} https://b.test",
        f"session webhooks rm {SESSION} dst_9",
        f"session webhooks deliveries {SESSION}",
        f"session webhooks redeliver {SESSION} dlv_9",
        "credential add --key sk-secret-abcd --name ci",
        "credential list",
        "credential rotate cred_1 --key sk-other-efgh",
        "credential set-default cred_1",
        "credential remove cred_1",
    ],
)
def test_results_are_printed_as_written_down(
    oc: Oc, durable: Durable, golden: Golden, command: str, form: str
) -> None:
    outcome = oc(*command.split(), *(["--json"] if form == "json" else []))
    assert (outcome.exit_code, outcome.stderr.count("Error")) == (0, 0)
    if form == "json":
        json.loads(outcome.stdout)
    words = command.replace(SESSION, "").split("--")[0].split()
    golden(f"durable/{'_'.join(words[:2] + words[2:3] * (words[1] == 'webhooks'))}.{form}", outcome.stdout)


@pytest.mark.parametrize("command", ["agent list", "session list", "credential list"])
def test_empty_lists_say_so(oc: Oc, node: FakeNode, command: str) -> None:
    assert oc(*command.split()).stdout == f"No {command.split()[0]}s.\n"
    assert oc(*command.split(), "--json").stdout == "[]\n"


def test_ls_is_for_both_kinds_of_agents(oc: Oc, node: FakeNode, durable: Durable) -> None:
    assert "fixer" in oc("agent", "ls").stdout
    sandbox = node.add_sandbox()
    assert oc("agent", "ls", str(sandbox.description["sandboxID"])).stdout == "No agents.\n"


def test_an_agent_is_found_by_id_option_or_folder(
    oc: Oc, durable: Durable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "which agent?" in oc("agent", "get").stderr
    (tmp_path / "agent.toml").write_text('name = "fixer"\n')
    for given in ([], [AGENT], ["--agent", "fixer"]):
        assert AGENT in oc("agent", "get", *given).stdout
    missing = oc("agent", "get", "nobody")
    assert (missing.exit_code, missing.stderr) == (1, "Error: there is no agent named 'nobody'\n")


def test_a_folder_becomes_an_agent_and_then_a_revision(oc: Oc, node: FakeNode, tmp_path: Path) -> None:
    manifest = 'name = "new"\nmodel = "anthropic/x"\n[runtime]\nfamily = "claude"\n'
    (tmp_path / "agent.toml").write_text(manifest)
    (tmp_path / "prompt.md").write_text("Help.")
    made = oc("agent", "deploy", str(tmp_path))
    assert made.exit_code == 0, made.stderr
    assert made.stdout == f"✓ new  {AGENT}  revision 1 (active)\nAgent URL: http://agents.test/a\n"
    assert node.requests("POST", "/deployments") == []
    (tmp_path / "skills/look").mkdir(parents=True)
    (tmp_path / "skills/look/SKILL.md").write_text("Look.")
    assert "revision 2 (active)" in oc("agent", "deploy", str(tmp_path)).stdout
    staged = oc("agent", "deploy", str(tmp_path), "--no-activate", "--json")
    assert json.loads(staged.stdout)["id"] == "dep_2"
    (sent,) = node.requests("POST", "/deployments")[-1:]
    body = cast("dict[str, Any]", sent.body)
    assert body["activate"] is False
    assert body["input"]["skills"] == [{"path": "look/SKILL.md", "content": "Look.", "mode": "0644"}]
    (tmp_path / "agent.toml").write_text(manifest.replace("claude", "codex"))
    refused = oc("agent", "deploy", str(tmp_path))
    assert (refused.exit_code, "runs on claude" in refused.stderr) == (1, True)


def test_a_new_folder_can_be_deployed_and_keeps_what_is_there(oc: Oc, node: FakeNode, tmp_path: Path) -> None:
    folder = tmp_path / 'my "agent"'
    made = oc("agent", "init", str(folder), "--json")
    assert json.loads(made.stdout)["created"] == ["agent.toml", "prompt.md", "skills/example/SKILL.md"]
    (folder / "prompt.md").write_text("Mine.")
    again = oc("agent", "init", str(folder))
    assert (again.stdout, again.stderr.count("is there already")) == ("Nothing to do.\n", 3)
    assert oc("agent", "deploy", str(folder)).exit_code == 0
    assert next(iter(node.durable.agents.values()))["name"] == 'my "agent"'
    assert (folder / "prompt.md").read_text() == "Mine."


def test_a_folder_that_is_none_says_why(oc: Oc, tmp_path: Path) -> None:
    outcome = oc("agent", "deploy", str(tmp_path))
    assert (outcome.exit_code, "there is no agent.toml" in outcome.stderr) == (1, True)


def test_what_cannot_be_undone_is_not_done_unasked(oc: Oc, durable: Durable) -> None:
    outcome = oc("agent", "delete", "fixer")
    assert (outcome.exit_code, "--yes" in outcome.stderr) == (1, True)
    assert durable.agents


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("session get ses_none", 3, "no such thing"),
        ("agent create fixer --model a/b --prompt x", 4, "has this name"),
        ("agent create other --model a/b", 1, "--prompt"),
        ("session create --agent fixer --input x --limits 3", 1, "JSON object"),
        (f"session logs {SESSION} --level all", 1, "user, progress, internal"),
        (f"session token {SESSION} --scope write", 1, "read, steer"),
        ("agent create fixer", 1, "--model"),
    ],
)
def test_failures_say_why_and_exit_as_written_down(
    oc: Oc, durable: Durable, command: str, code: int, said: str
) -> None:
    outcome = oc(*command.split())
    assert (outcome.exit_code, outcome.stdout) == (code, "")
    assert said in outcome.stderr


def test_an_archived_session_hears_nothing_more(oc: Oc, durable: Durable) -> None:
    oc("session", "archive", SESSION)
    outcome = oc("session", "steer", SESSION, "hello", "--json")
    assert json.loads(outcome.stderr) == {"error": "The session is archived.", "code": 4}


def test_everything_about_a_new_session_is_sent(oc: Oc, node: FakeNode, durable: Durable) -> None:
    options = (
        '--model anthropic/y --revision 2 --key k --metadata a=1 --limits {"turns":2} --webhook https://h'
    )
    oc("session", "create", "--agent", AGENT, "--input", "go", *options.split(), "--idempotency-key", "once")
    (sent,) = node.requests("POST", "/sessions")
    assert sent.headers["idempotency-key"] == "once"
    assert sent.body == {
        "agent": AGENT,
        "input": "go",
        "model": "anthropic/y",
        "revision": 2,
        "key": "k",
        "metadata": {"a": "1"},
        "limits": {"turns": 2},
        "webhook": "https://h",
    }


def test_a_new_session_is_followed_until_its_first_turn_has_ended(
    oc: Oc, durable: Durable, golden: Golden
) -> None:
    durable.first_turn = WORK
    outcome = oc("session", "create", "--agent", "fixer", "--input", "Look.", "--follow")
    assert outcome.exit_code == 0
    golden("durable/session_create_follow.text", outcome.stdout)
    failed = {"yield_reason": "error", "error": {"code": "credential_missing", "message": "The key is gone."}}
    durable.first_turn = [{"type": "turn.completed", "turn_id": TURN, "body": failed}]
    outcome = oc("session", "create", "--agent", "fixer", "--input", "Look.", "--follow")
    assert (outcome.exit_code, "✗ failed: The key is gone." in outcome.stdout) == (1, True)


def test_a_log_is_followed_until_the_person_has_seen_enough(node: FakeNode, durable: Durable) -> None:
    process = start(node, "session", "logs", SESSION, "--follow", "--after", "3")
    assert process.stdout
    lines = [process.stdout.readline().decode() for _ in range(2)]
    assert lines == ["[4] agent.message  There is  [31mnothing.\n", "[5] turn.completed  completed\n"]
    node.do(durable.append, SESSION, {"type": "agent.message", "body": {"text": "One more thing."}})
    assert process.stdout.readline() == b"[6] agent.message  One more thing.\n"
    process.send_signal(signal.SIGINT)
    code, rest, err = finish(process)
    assert (code, rest, err) == (130, b"", b"")


def test_who_attaches_sees_the_past_says_something_and_leaves_it_working(
    node: FakeNode, durable: Durable
) -> None:
    with OnTerminal(node, "session", "attach", SESSION) as terminal:
        terminal.read_until(b"done")
        terminal.type(b"Look again.\n")
        terminal.read_until("› Look again.".encode())
        terminal.type(b"\x03")
        assert terminal.wait() == 0
        assert f"oc session attach {SESSION}".encode() in terminal.seen
    assert durable.sessions[SESSION]["status"] == "idle"


def test_sessions_may_be_elsewhere(
    oc: Oc, node: FakeNode, durable: Durable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCOMPUTER_API_URL", "http://127.0.0.1:9")
    assert oc("agent", "list", "--sessions-api-url", node.url).exit_code == 0
    monkeypatch.setenv("SESSIONS_API_URL", node.url)
    assert "fixer" in oc("agent", "list").stdout


def test_quiet_prints_only_ids(oc: Oc, durable: Durable) -> None:
    assert oc("agent", "list", "--quiet").stdout == f"{AGENT}\n"
    assert oc("session", "list", "-q").stdout == f"{SESSION}\n"
    made = oc("session", "create", "--agent", "fixer", "--input", "x", "-q")
    assert (made.stdout, made.stderr) == (f"ses_{2:024x}\n", "")
    assert oc("agent", "create", "b", "--model", "a/b", "--prompt", "x", "-q").stdout == f"agt_{2:024x}\n"
    assert oc("session", "fork", SESSION, "-q").stdout == f"ses_{3:024x}\n"


def test_a_session_stands_for_its_hands(oc: Oc, node: FakeNode, durable: Durable) -> None:
    missing = oc("exec", "list", SESSION)
    assert (missing.exit_code, "no machine for its hands yet" in missing.stderr) == (1, True)
    hands = str(node.add_sandbox().description["sandboxID"])
    durable.sessions[SESSION]["sandboxes"] = {"brain": None, "hands": hands}
    assert oc("exec", "list", SESSION).exit_code == 0
    assert node.requests("GET", f"/sandboxes/{hands}/exec")
