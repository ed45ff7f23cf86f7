"""Hosted agents from the command line, against the contract's shapes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator

import pytest

from opencomputer.cli import hosted_operations
from opencomputer.cli.commands import hosted_work
from tests.support.fake_node import FakeNode, Rule
from tests.unit.cli.conftest import Oc
from tests.unit.cli.recorded import FORMS, Recorded, check_form

Golden = Callable[[str, str], None]

NOW = "2026-01-02T03:04:05Z"
IT = "/v1/agents/bot"
AGENT: dict[str, object] = {
    "id": "bot",
    "display_name": "Bot",
    "core": "hermes",
    "model": None,
    "channels": [{"name": "telegram", "bot_username": "its_bot"}],
    "packages": [{"name": "gbrain"}],
    "created_at": NOW,
}
DETAIL = {
    **AGENT,
    "status": "degraded",
    "instance_id": "inst_1",
    "instance_status": "running",
    "sandbox_id": "sb-1",
    "conditions": [
        {"type": "CoreReady", "status": "true"},
        {
            "type": "ChannelReady",
            "status": "false",
            "reason": "WebhookMissing",
            "message": "none \x1b[31mset",
        },
    ],
    "current_operation": None,
    "last_error": {
        "phase": "connect_telegram",
        "code": "channel_not_ready",
        "message": "no answer",
        "at": NOW,
    },
}
INSTANCE = {
    "id": "inst_1",
    "status": "running",
    "sandbox_id": "sb-1",
    "metadata": {"a": "b"},
    "created_at": NOW,
}
EVENT = {"id": "ev_1", "type": "info", "phase": "queued", "message": "it began", "at": NOW}


def operation(state: str, phase: str, **fields: object) -> dict[str, object]:
    """An operation that makes an agent."""
    made = {"id": "op_1", "agent_id": "bot", "kind": "create", "state": state, "phase": phase}
    return made | {"created_at": NOW} | fields


def frames(*parts: dict[str, object]) -> str:
    """A reply as it is streamed."""
    return "".join(f"data: {json.dumps(part)}\n\n" for part in parts)


REPLY = frames(
    {"type": "text", "content": "Hello, ", "conversation_id": "c1"},
    {"type": "text", "content": "you.\n\x1b[31mBye.", "conversation_id": "c1"},
    {"type": "done"},
)

CASES = {
    "list": Recorded("agent list --hosted", "GET", "/v1/agents", {"agents": [AGENT, {"id": "raw"}]}),
    "get": Recorded("agent get bot --hosted", "GET", IT, DETAIL),
    "delete": Recorded("agent delete bot --hosted --yes", "DELETE", IT, {}),
    "disconnect": Recorded("agent disconnect bot telegram --yes", "DELETE", f"{IT}/channels/telegram", {}),
    "channels": Recorded(*("agent channels bot", "GET", f"{IT}/channels"), {"channels": AGENT["channels"]}),
    "uninstall": Recorded("agent uninstall bot gbrain --yes", "DELETE", f"{IT}/packages/gbrain", None, 204),
    "packages": Recorded(
        *("agent packages bot", "GET", f"{IT}/packages"),
        {"packages": [{"name": "gbrain", "installed_at": NOW}]},
    ),
    "events": Recorded(
        f"agent events bot --before {NOW}",
        *("GET", f"{IT}/events", {"events": [EVENT], "next_before": None}),
        query={"limit": "50", "before": NOW},
    ),
    "operations": Recorded(
        "agent operations bot", "GET", f"{IT}/operations", {"operations": [operation("success", "done")]}
    ),
    "operation": Recorded(
        "agent operations bot op_1", "GET", f"{IT}/operations/op_1", operation("running", "pull_image")
    ),
    "restart": Recorded("agent restart bot", "POST", f"{IT}/restart", {"operation": operation("queued", "")}),
    "logs": Recorded(
        *("agent logs bot --tail 2", "GET", f"{IT}/logs"),
        {"agent_id": "bot", "source": "gateway.log", "lines": 2, "content": "one\ntwo \x1b[31mred\n"},
        query={"tail": "2"},
    ),
    "instances": Recorded("agent instances bot", "GET", f"{IT}/instances", {"instances": [INSTANCE]}),
    "instances_create": Recorded(
        "agent instances create bot --metadata a=b",
        *("POST", f"{IT}/instances", INSTANCE, 201),
        {"metadata": {"a": "b"}},
    ),
    "instances_get": Recorded("agent instances get bot inst_1", "GET", f"{IT}/instances/inst_1", INSTANCE),
    "instances_delete": Recorded(
        "agent instances delete bot inst_1", "DELETE", f"{IT}/instances/inst_1", {"id": "inst_1"}
    ),
    "install_no_wait": Recorded(
        "agent install bot gbrain --no-wait",
        *("POST", f"{IT}/packages/gbrain"),
        {"agent_id": "bot", "package": "gbrain", "operation": operation("queued", "")},
    ),
    "create_no_wait": Recorded(
        "agent create bot --core hermes --secret A=1 --model a/b --display-name Bot --no-wait",
        *("POST", "/v1/agents", {**AGENT, "operation": operation("queued", "queued")}, 201),
        {"id": "bot", "core": "hermes", "secrets": {"A": "1"}, "model": "a/b", "display_name": "Bot"},
    ),
    "run": Recorded(
        'agent run bot --input {"prompt":"x"}',
        *("POST", f"{IT}/sessions", {"id": "sess_1", "status": "creating"}, 201),
        {"input": {"prompt": "x"}},
    ),
    "send": Recorded(
        "agent send bot Hi. --instance inst_1 --conversation c1",
        *("POST", f"{IT}/instances/inst_1/messages", REPLY, 200),
        {"content": "Hi.", "conversation_id": "c1"},
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeNode]:
    with FakeNode() as node:
        yield node


@pytest.fixture
def node(server: FakeNode, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """One node for all tests here; nobody waits between two looks."""
    server.rules.clear()
    server.seen.clear()
    monkeypatch.setattr(hosted_operations, "POLL_SECONDS", 0)
    monkeypatch.setattr(hosted_work, "POLL_SECONDS", 0)
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
        golden(f"hosted/{name}.{form}", outcome.stdout)


@pytest.mark.parametrize(
    ("command", "path", "said"),
    [
        ("agent list --hosted", "/v1/agents", "No hosted agents."),
        ("agent channels bot", f"{IT}/channels", "No channels."),
        ("agent packages bot", f"{IT}/packages", "No packages."),
        ("agent events bot", f"{IT}/events", "No events."),
        ("agent operations bot", f"{IT}/operations", "No operations."),
        ("agent instances bot", f"{IT}/instances", "No instances."),
    ],
)
def test_empty_lists_say_so(oc: Oc, node: FakeNode, command: str, path: str, said: str) -> None:
    name = path.rpartition("/")[2]
    Recorded(command, "GET", path, {name: []}).teach(node)
    assert oc(*command.split()).stdout == f"{said}\n"


def test_making_one_tells_each_phase_and_waits_until_it_is_ready(oc: Oc, node: FakeNode) -> None:
    begun = {**AGENT, "operation": operation("queued", "queued")}
    node.rules.append(Rule("POST", "/v1/agents", 201, begun))
    polls = [operation("running", "pull_image"), operation("running", "pull_image", message="half of it")]
    for answer in (*polls, operation("success", "wait_core_ready")):
        node.rules.append(Rule("GET", f"{IT}/operations/op_1", 200, answer))
    Recorded("", "GET", IT, {**DETAIL, "status": "ready"}).teach(node)
    outcome = oc("agent", "create", "bot", "--core", "hermes")
    assert (outcome.exit_code, outcome.stdout) == (0, "✓ bot is ready\n")
    assert outcome.stderr.splitlines()[:4] == ["Making bot …", "queued", "pull_image", "wait_core_ready"]
    assert "oc agent connect bot telegram" in outcome.stderr


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("checkpoint_org_mismatch", 3),
        ("checkpoint_not_found", 3),
        ("telegram_unauthorized", 3),
        ("webhook_register_failed", 1),
        ("secret_store_failed", 1),
        ("core_not_ready", 5),
        ("channel_not_ready", 5),
        ("sandbox_provision_timeout", 5),
        ("git_clone_failed", 5),
        ("package_verify_failed", 1),
        ("something_else", 1),
    ],
)
def test_an_operation_that_fails_says_why_and_what_may_help(
    oc: Oc, node: FakeNode, code: str, exit_code: int
) -> None:
    failed = operation("error", "pull_image", error={"code": code, "message": "it was not there"})
    Recorded("", "POST", f"{IT}/packages/gbrain", {"operation": failed}).teach(node)
    outcome = oc("agent", "install", "bot", "gbrain")
    assert (outcome.exit_code, outcome.stdout) == (exit_code, "")
    *block, error = outcome.stderr.splitlines()
    assert block[1:4] == ["Phase:   pull_image", f"Code:    {code}", "Message: it was not there"]
    assert block[4].startswith("Try:     see" if exit_code == 1 else "Try:     ")
    assert error == f"Error: create failed in pull_image ({code}): it was not there"
    as_json = oc("agent", "install", "bot", "gbrain", "--json")
    assert json.loads(as_json.stderr.splitlines()[-1])["code"] == exit_code


def test_what_is_not_heard_of_any_more_goes_on_in_the_background(oc: Oc, node: FakeNode) -> None:
    Recorded("", "POST", f"{IT}/packages/gbrain", {"operation": operation("running", "verify")}).teach(node)
    Recorded("", "GET", f"{IT}/operations/op_1", {"error": {"message": "broken"}}, 500).teach(node)
    outcome = oc("agent", "install", "bot", "gbrain", "--json")
    assert outcome.exit_code == 0
    assert json.loads(outcome.stdout) == {
        "id": "bot",
        "status": "starting",
        "async": True,
        "check_with": "oc agent get bot --hosted",
        "note": "It goes on in the background.",
    }
    assert "oc agent get bot" in oc("agent", "install", "bot", "gbrain").stdout


def test_a_channel_is_connected_when_nothing_has_to_be_paid_for(oc: Oc, node: FakeNode) -> None:
    entitlement = {"feature": "telegram", "entitled": True, "reason": "ungated"}
    Recorded("", "GET", f"{IT}/channels/telegram/entitlement", entitlement).teach(node)
    Recorded("", "POST", f"{IT}/channels/telegram", {"agent_id": "bot", "status": "connected"}).teach(node)
    outcome = oc("agent", "connect", "bot", "telegram", "--bot-token", "1:x")
    assert outcome.stdout == "✓ bot is connected to telegram\n"
    assert node.requests("POST", "/telegram")[0].body == {"bot_token": "1:x"}


def test_a_channel_that_has_to_be_paid_for_is_not_asked_for(oc: Oc, node: FakeNode) -> None:
    path = f"{IT}/channels/telegram/entitlement"
    Recorded("", "GET", path, {"entitled": False, "reason": "subscription_required"}).teach(node)
    outcome = oc("agent", "connect", "bot", "telegram", "--bot-token", "1:x")
    assert (outcome.exit_code, "subscri" in outcome.stderr) == (3, True)
    assert node.requests("POST", "/telegram") == []


def test_a_bot_has_a_token(oc: Oc, node: FakeNode) -> None:
    node.rules.append(Rule("GET", f"{IT}/channels/telegram/entitlement", 404, {"error": "no such path"}))
    assert "--bot-token" in oc("agent", "connect", "bot", "telegram").stderr
    unknown = oc("agent", "connect", "bot", "smoke")
    assert (unknown.exit_code, "smoke is no channel" in unknown.stderr) == (1, True)


def test_a_name_that_no_durable_agent_has_may_be_a_hosted_one(oc: Oc, node: FakeNode) -> None:
    Recorded("", "GET", IT, DETAIL).teach(node)
    Recorded("", "DELETE", IT, {}).teach(node)
    assert "Core:      hermes" in oc("agent", "get", "bot").stdout
    assert oc("agent", "delete", "bot", "--yes").exit_code == 0
    assert node.requests("DELETE", IT)
    neither = oc("agent", "get", "nobody")
    assert (neither.exit_code, neither.stderr) == (1, "Error: there is no agent named 'nobody'\n")


def test_a_result_is_waited_for(oc: Oc, node: FakeNode) -> None:
    session = {"id": "sess_1", "status": "running"}
    Recorded("", "POST", f"{IT}/sessions", session, 201).teach(node)
    node.rules.append(Rule("GET", f"{IT}/sessions/sess_1", 200, session))
    node.rules.append(Rule("GET", f"{IT}/sessions/sess_1", 200, {**session, "status": "completed"}))
    result = {"data": {"answer": 42}, "completed_at": NOW}
    Recorded("", "GET", f"{IT}/sessions/sess_1/result", result).teach(node)
    assert json.loads(oc("agent", "run", "bot", "--wait").stdout) == {"answer": 42}
    node.rules.insert(
        0, Rule("GET", f"{IT}/sessions/sess_1", 200, {**session, "status": "failed", "exit_code": 3})
    )
    failed = oc("agent", "run", "bot", "--wait")
    assert (failed.exit_code, failed.stderr) == (1, "Error: sess_1 failed with exit code 3\n")


def test_the_running_instance_is_told(oc: Oc, node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    asleep = {**INSTANCE, "id": "inst_0", "status": "hibernated"}
    Recorded("", "GET", f"{IT}/instances", {"instances": [asleep, INSTANCE]}).teach(node)
    error = frames({"type": "error", "message": "the model is away"})
    Recorded("", "POST", f"{IT}/instances/inst_1/messages", error).teach(node)
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello?\n"))
    outcome = oc("agent", "send", "bot")
    assert (outcome.exit_code, outcome.stderr) == (5, "Error: the model is away\n")
    assert node.requests("POST", "/messages")[0].body == {"content": "Hello?\n"}


def test_a_conversation_is_told_again_with_each_line(
    oc: Oc, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    Recorded("", "GET", f"{IT}/instances", {"instances": [INSTANCE]}).teach(node)
    Recorded("", "POST", f"{IT}/instances/inst_1/messages", REPLY).teach(node)
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi.\n\nMore.\n:exit\nnever\n"))
    outcome = oc("agent", "chat", "bot")
    assert (outcome.exit_code, outcome.stdout) == (0, "Hello, you.\n [31mBye.\n" * 2)
    assert outcome.stderr.count("you> ") == 4
    _, second = node.requests("POST", "/messages")
    assert second.body == {
        "messages": [
            {"role": "user", "content": "Hi."},
            {"role": "assistant", "content": "Hello, you.\n\x1b[31mBye."},
            {"role": "user", "content": "More."},
        ]
    }


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("agent create bot --core hermes --prompt x", "--display-name"),
        ("agent create bot", "--core"),
        ("agent run bot --input {", "takes JSON"),
        ("agent run sb-1", "what is it to do?"),
        ("agent run sb-1 x --wait", "take no prompt"),
        ("agent disconnect bot telegram", "--yes"),
        ("agent uninstall bot gbrain", "--yes"),
        ("agent chat bot --json", "oc agent send"),
        ("agent events bot --limit 201", "201"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(
    oc: Oc, node: FakeNode, command: str, said: str
) -> None:
    outcome = oc(*command.split())
    assert (outcome.exit_code, outcome.stdout, node.seen) == (1, "", [])
    assert said in outcome.stderr
