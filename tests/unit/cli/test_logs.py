"""`oc logs`: lines as people read them or as the server sent them; what it asks for and what it refuses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from opencomputer.sdk import logs as sdk
from tests.support.fake_node import FakeNode
from tests.support.fake_node.node import FakeSandbox
from tests.unit.cli.conftest import Oc

SANDBOX = "sb-00000001"
OUT: dict[str, object] = {
    "_time": "2026-01-02T03:04:05.067Z",
    "source": "exec_stdout",
    "line": "hello \x1b[31mred",
    "exec_id": "0000a001",
    "command": "sh",
    "argv": ["-c", "echo hello"],
}
EVENTS: list[dict[str, object]] = [
    OUT,
    OUT | {"source": "exec_stderr", "line": "oh", "lost": 7},
    {"_time": "2026-01-02T03:04:06Z", "source": "var_log", "line": "noted", "path": "/var/log/x.log"},
    {"_time": "2026-01-02T03:04:06.5Z", "source": "agent", "line": '{"type":"ready"}', "exec_id": "a"},
    OUT | {"line": "", "exit_code": 3, "_time": "nonsense"},
]


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_lines_are_printed_for_people(oc: Oc, node: FakeNode, inside: FakeSandbox) -> None:
    node.log = EVENTS
    outcome = oc("logs", SANDBOX)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert outcome.stdout.splitlines() == [
        "03:04:05.067 exec_stdout  hello  [31mred",
        "… at least 7 more that were not kept",
        "03:04:05.067 exec_stderr  oh",
        "03:04:06.000 var_log      /var/log/x.log: noted",
        '03:04:06.500 agent        {"type":"ready"}',
        "------------ exec_stdout  exited with 3: sh -c 'echo hello'",
    ]


def test_with_json_each_event_is_a_line_as_it_came(oc: Oc, node: FakeNode, inside: FakeSandbox) -> None:
    node.log = EVENTS
    outcome = oc("logs", SANDBOX, "--json")
    assert [json.loads(line) for line in outcome.stdout.splitlines()] == EVENTS


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ("", {"tail": "true"}),
        ("-f", {"tail": "true"}),
        ("--no-tail --since 30m --limit 5", {"tail": "false", "since": "30m", "limit": "5"}),
        (
            "--no-tail --until 2026-01-02T03:04:05Z --grep x --source var_log,agent",
            {"tail": "false", "until": "2026-01-02T03:04:05Z", "q": "x", "source": "var_log,agent"},
        ),
    ],
)
def test_options_are_asked_for(
    oc: Oc, node: FakeNode, inside: FakeSandbox, options: str, query: dict[str, str]
) -> None:
    assert oc("logs", SANDBOX, *options.split()).exit_code == 0
    (request,) = node.requests("GET", "/logs")
    assert request.query == query


@pytest.mark.parametrize("status", ["hibernated", "stopped"])
def test_what_does_not_run_has_only_history(oc: Oc, node: FakeNode, status: str) -> None:
    node.add_sandbox(status=status)
    outcome = oc("logs", SANDBOX)
    assert outcome.exit_code == 0
    assert [request.query["tail"] for request in node.requests("GET", "/logs")] == ["false"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--since yesterday", "--since takes a duration like 30m or 2h, or RFC 3339"),
        ("--until 2h", "--until takes RFC 3339"),
        ("--source var_log,kernel", "not 'kernel'"),
        ("--limit 10001", "10001"),
    ],
)
def test_what_makes_no_sense_is_refused_here(
    oc: Oc, node: FakeNode, inside: FakeSandbox, options: str, words: str
) -> None:
    outcome = oc("logs", SANDBOX, *options.split())
    assert outcome.exit_code == 1
    assert words in outcome.stderr
    assert node.seen == []


def test_a_lost_connection_is_made_anew_and_no_line_told_twice(
    oc: Oc, node: FakeNode, inside: FakeSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "RECONNECT_SECONDS", 0.0)
    node.log, node.log_cuts = EVENTS[:4], [1, 0]
    assert oc("logs", SANDBOX, "--json").stdout.count("\n") == 4
    asked = [request.headers.get("last-event-id") for request in node.requests("GET", "/logs")]
    assert asked == [None, "1", "1"]
