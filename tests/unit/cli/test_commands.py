"""Commands print what is written down in tests/golden/cli, and exit as they should."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from tests.support.fake_node import FakeNode, FakeSession, Rule
from tests.support.fake_node.node import FakeSandbox
from tests.support.fake_node.sessions import AgentScript
from tests.unit.cli.conftest import Oc

Golden = Callable[[str, str], None]

SANDBOX = "sb-00000001"


@pytest.fixture
def furnished(node: FakeNode, inside: FakeSandbox, stopped_clock: None) -> FakeNode:
    """A node with two sandboxes, sessions, an agent and two keys."""
    node.add_sandbox(templateID="python", memoryMB=16384, cpuCount=4, status="hibernated")
    running = FakeSession("0000a001", ["sh", "-c", "sleep 9; echo 'done'"])
    ended = FakeSession("0000a002", ["true"])
    ended.exit_code = 7
    agent = AgentScript("0000a003", [])
    inside.sessions.update({one.session_id: one for one in (running, ended, agent)})
    for name, revoked in (("laptop", None), ("old \x1b[31mred", "2026-01-02T04:00:00Z")):
        key_id = f"key-{len(node.keys) + 1}"
        node.keys[key_id] = {
            "id": key_id,
            "name": name,
            "prefix": "osb_feed",
            "createdAt": node.now(),
            "lastUsedAt": None,
            "revokedAt": revoked,
        }
    return node


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "command",
    [
        "create",
        "ls",
        f"get {SANDBOX}",
        f"kill {SANDBOX}",
        "sandbox list",
        f"sandbox set-timeout {SANDBOX} 60",
        f"sandbox set-timeout {SANDBOX} 0",
        f"exec list {SANDBOX}",
        f"exec kill {SANDBOX} 0000a001 --signal 15",
        f"agent ls {SANDBOX}",
        f"agent kill {SANDBOX} 0000a003",
        "keys create ci",
        "keys list",
        "keys revoke key-1",
    ],
)
def test_results_are_printed_as_written_down(
    oc: Oc, furnished: FakeNode, golden: Golden, command: str, form: str
) -> None:
    outcome = oc(*command.split(), *(["--json"] if form == "json" else []))
    assert outcome.exit_code == 0
    if form == "json":
        json.loads(outcome.stdout)
    golden(f"{command.replace(' ', '_').replace('--', '')}.{form}", outcome.stdout)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("command", ["ls", f"exec list {SANDBOX}", f"agent ls {SANDBOX}", "keys list"])
def test_empty_lists_say_so(
    oc: Oc, node: FakeNode, inside: FakeSandbox, golden: Golden, command: str, form: str
) -> None:
    if command == "ls":
        node.sandboxes.clear()
    outcome = oc(*command.split(), *(["--json"] if form == "json" else []))
    assert outcome.exit_code == 0
    golden(f"empty_{command.replace(' ', '_')}.{form}", outcome.stdout)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "",
            "exec",
            "exec run",
            "agent",
            "agent run",
            "sandbox",
            "cp",
            "shell",
            "keys",
            "template",
            "serve",
        ),
        *("session", "session create", "session webhooks", "credential"),
    ],
)
def test_help_is_as_written_down(oc: Oc, golden: Golden, command: str) -> None:
    outcome = oc(*command.split(), "--help")
    assert outcome.exit_code == 0
    golden(f"help_{command.replace(' ', '_') or 'oc'}", outcome.stdout)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    ("status", "error", "exit_code"),
    [
        (400, "memoryMB must be a tier", 3),
        (404, "There is no such sandbox.", 3),
        (409, "Another operation is in progress.", 4),
        (501, "This server does not offer that.", 5),
        (507, "The sandbox's disk is full.", 5),
    ],
)
def test_a_refusal_is_one_line_and_its_class_the_exit_code(
    oc: Oc, node: FakeNode, form: str, status: int, error: str, exit_code: int
) -> None:
    node.rules.append(Rule("GET", f"/sandboxes/{SANDBOX}", status, {"error": error}))
    outcome = oc("get", SANDBOX, *(["--json"] if form == "json" else []))
    assert (outcome.exit_code, outcome.stdout) == (exit_code, "")
    if form == "json":
        assert json.loads(outcome.stderr) == {"error": error, "code": exit_code}
    else:
        first, *hint = outcome.stderr.splitlines()
        assert first == f"Error: {error}"
        assert all(line.startswith("Hint: ") for line in hint)


@pytest.mark.parametrize(
    "command",
    [
        "nonsense",
        "get",
        f"get {SANDBOX} more",
        "create --nonsense",
        "create --memory lots",
        "create --env novalue",
        f"exec {SANDBOX}",
        f"exec {SANDBOX} --wait --detach -- true",
        f"shell {SANDBOX}",
        "cp a b",
        "cp sb-1:a sb-2:b",
        "cp /no/such/file sb-00000001:",
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_bad_arguments_are_one_line_and_exit_code_1(
    oc: Oc, inside: FakeSandbox, golden: Golden, command: str, form: str
) -> None:
    outcome = oc(*(["--json"] if form == "json" else []), *command.split())
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert len([line for line in outcome.stderr.splitlines() if not line.startswith("Hint: ")]) == 1
    name = command.replace(" ", "_").replace("--", "").replace("/", "")
    golden(f"error_{name}.{form}", outcome.stderr)


def test_text_from_the_server_cannot_steer_the_terminal(oc: Oc, node: FakeNode) -> None:
    evil = "\x1b]0;title\x07\nnext line\x7f"
    node.add_sandbox(templateID=evil)
    node.rules.append(Rule("GET", "/sandboxes/sb-x", 404, {"error": evil}))
    for outcome in (oc("ls"), oc("get", SANDBOX), oc("ls", "--json"), oc("get", "sb-x")):
        assert not set("\x1b\x07\x7f") & set(outcome.stdout + outcome.stderr)


def test_create_sends_only_what_was_asked_for(oc: Oc, node: FakeNode) -> None:
    oc("create")
    oc(
        *("create", "--template", "python", "--timeout", "60", "--cpu", "2", "--memory", "8192"),
        *("--disk", "30000", "--burst", "--env", "A=1,B=2", "--env", "C=3", "--metadata", "team=x"),
    )
    plain, full = (request.body for request in node.requests("POST", "/sandboxes"))
    assert plain == {"templateID": "base", "timeout": 0}
    assert full == {
        "templateID": "python",
        "timeout": 60,
        "cpuCount": 2,
        "memoryMB": 8192,
        "diskMB": 30000,
        "burst": True,
        "envs": {"A": "1", "B": "2", "C": "3"},
        "metadata": {"team": "x"},
    }


def test_without_a_key_a_warning_comes_first(oc: Oc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENCOMPUTER_API_KEY")
    outcome = oc("ls")
    assert outcome.exit_code == 3
    warning, error, hint = outcome.stderr.splitlines()
    assert "OPENCOMPUTER_API_KEY" in warning
    assert error == "Error: A valid API key is required."
    assert "oc login" in hint


def test_a_server_that_is_not_there_is_one_line(oc: Oc) -> None:
    outcome = oc("ls", "--api-url", "http://127.0.0.1:9")
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith("Error: the server cannot be reached")


@pytest.mark.parametrize("url", ["nonsense", "ftp://x", "http://x:port"])
def test_an_address_that_is_none_is_one_line(oc: Oc, url: str) -> None:
    outcome = oc("ls", "--api-url", url)
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith("Error: the server's address is not valid")


@pytest.mark.parametrize(
    "command",
    [("get", ""), ("kill", ".."), ("keys", "revoke", ""), ("session", "get", "")],
)
def test_an_empty_id_is_told_of_before_anything_is_sent(
    oc: Oc, node: FakeNode, command: Sequence[str]
) -> None:
    """As when the variable is empty that a script took it from."""
    outcome = oc(*command)
    assert (outcome.exit_code, outcome.stdout, node.seen) == (1, "", [])
    assert "is no id and no name" in outcome.stderr
    assert "variable" in outcome.stderr


def test_what_cannot_be_sent_is_one_line(oc: Oc, inside: FakeSandbox) -> None:
    wrong_key = oc("ls", "--api-key", "osb_ü")
    assert wrong_key.exit_code == 1
    assert wrong_key.stderr.startswith("Error: the API key has 'ü' in it")
    no_text = oc("exec", SANDBOX, "--", "printf", "\udcff")
    assert (no_text.exit_code, no_text.stderr) == (1, "Error: '\\udcff' cannot be sent to a server\n")


def test_version_names_the_program(oc: Oc) -> None:
    outcome = oc("--version")
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith("oc version ")
