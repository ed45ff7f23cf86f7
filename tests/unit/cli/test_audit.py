"""The audit log from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.fake_node import FakeNode, Rule
from tests.support.fake_node.node import FakeSandbox
from tests.unit.cli.conftest import Oc

SANDBOX = "sb-00000001"
Golden = Callable[[str, str], None]

_COMMON: dict[str, object] = {
    "at": "2026-01-02T03:04:05Z",
    "port": 443,
    "protocol": "tls",
    "withheld": [],
    "lost": 0,
}
EVENTS: list[dict[str, object]] = [
    {**_COMMON, "position": 7, "host": "api.example.com", "decision": "allowed", "reason": None,
     "secrets": ["API_KEY"], "bytesOut": 2048, "bytesIn": 12},
    {**_COMMON, "position": 9, "host": "evil.example\x1b[31m", "decision": "denied", "reason": "allowlist",
     "secrets": [], "bytesOut": 0, "bytesIn": 0},
]  # fmt: skip


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_is_printed_as_written_down(
    oc: Oc, node: FakeNode, inside: FakeSandbox, golden: Golden, form: str
) -> None:
    node.rules.append(Rule("GET", f"/sandboxes/{SANDBOX}/audit", 200, {"events": EVENTS, "next": 9}))
    outcome = oc("audit", SANDBOX, *(["--json"] if form == "json" else []))
    assert outcome.exit_code == 0, outcome.stderr
    if form == "json":
        assert json.loads(outcome.stdout) == EVENTS
    golden(f"audit_{SANDBOX}.{form}", outcome.stdout)


def test_a_log_is_followed_from_where_it_was_left_until_the_sandbox_is_gone(
    oc: Oc, node: FakeNode, inside: FakeSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opencomputer.cli.commands.audit.FOLLOW_SECONDS", 0.0)
    path = f"/sandboxes/{SANDBOX}/audit"
    node.rules.append(Rule("GET", path, 200, {"events": EVENTS[:1], "next": 7}))
    node.rules.append(Rule("GET", path, 200, {"events": EVENTS[1:], "next": 9}))
    node.rules.append(Rule("GET", path, 404, {"error": "there is no such sandbox"}, times=9))
    outcome = oc("audit", SANDBOX, "--follow", "--json", "--decision", "denied")
    assert outcome.exit_code == 3
    assert [json.loads(line) for line in outcome.stdout.splitlines()] == EVENTS
    asked = [seen.query for seen in node.seen if seen.path.endswith("/audit")]
    assert [(query["after"], query["decision"]) for query in asked[:3]] == [
        ("0", "denied"), ("7", "denied"), ("9", "denied"),
    ]  # fmt: skip


def test_help_is_as_written_down(oc: Oc, golden: Golden) -> None:
    golden("help_audit", oc("audit", "--help").stdout)


def test_a_decision_that_is_none_is_refused(oc: Oc) -> None:
    assert oc("audit", SANDBOX, "--decision", "maybe").exit_code != 0
