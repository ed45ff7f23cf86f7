"""Domain objects as the contract shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi import Request

from opencomputer.server.domain.machine import ExitStatus
from opencomputer.server.http import render
from opencomputer.server.services.facade import Presentation, Services
from opencomputer.server.services.sandboxes.commands import Progress
from opencomputer.wire.ids import ProcessId


def progress(exit_: ExitStatus | None, stdout: bytes = b"", stderr: bytes = b"") -> Progress:
    made = Progress(ProcessId("00000000"), datetime(2026, 1, 1, tzinfo=UTC), exit=exit_)
    made.stdout.add(stdout)
    made.stderr.add(stderr)
    return made


def shown(exit_: ExitStatus | None, stdout: bytes = b"", stderr: bytes = b"") -> dict[str, Any]:
    result = render.command_result(progress(exit_, stdout, stderr), 5)
    return result.model_dump(by_alias=True, exclude_none=True)


def test_a_result_says_what_there_is_to_say_and_no_more() -> None:
    assert shown(ExitStatus(0)) == {"exitCode": 0, "stdout": "", "stderr": ""}


@pytest.mark.parametrize(
    ("status", "code", "signal"),
    [
        (ExitStatus(139, signal=11), 139, "SIGSEGV"),
        (ExitStatus(128 + 34, signal=34), 162, "SIGRTMIN"),
        (ExitStatus(128 + 40, signal=40), 168, "signal 40"),
        (ExitStatus(None), -1, None),
    ],
)
def test_signals_have_names_and_the_unknown_is_minus_one(
    status: ExitStatus, code: int, signal: str | None
) -> None:
    result = shown(status)
    assert (result["exitCode"], result.get("signal")) == (code, signal)


def test_what_was_killed_while_nobody_knows_how_is_unknown() -> None:
    assert shown(None)["exitCode"] == -1


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        (b"", "the process timed out after 5 seconds\n"),
        (b"line\n", "line\nthe process timed out after 5 seconds\n"),
        (b"no line", "no line\nthe process timed out after 5 seconds\n"),
    ],
)
def test_a_timeout_is_a_line_of_its_own(stderr: bytes, expected: str) -> None:
    assert shown(ExitStatus(137, signal=9, reason="timeout"), stderr=stderr)["stderr"] == expected


def test_why_a_program_did_not_start_is_told_on_its_error_stream() -> None:
    assert shown(ExitStatus(127, error="x: command not found"))["stderr"] == "x: command not found\n"


def test_what_is_cut_is_said() -> None:
    assert shown(ExitStatus(0), stdout=bytes((1 << 20) + 1))["truncated"] is True
    assert "truncated" not in shown(ExitStatus(0), stdout=bytes(1 << 20))


def test_a_command_that_runs_has_no_exit_code_yet() -> None:
    view = render.command_progress(progress(None, b"so far")).model_dump(by_alias=True, exclude_none=True)
    assert view == {"running": True, "stdout": "so far", "stderr": ""}


def origin(public_url: str | None, *, scheme: str = "http", **headers: str) -> str:
    request = Request(
        {
            "type": "http",
            "method": "GET",
            "scheme": scheme,
            "path": "/",
            "query_string": b"",
            "server": ("127.0.0.1", 8080),
            "headers": [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()],
        }
    )
    presentation = Presentation(public_url, "localhost", "local", 0)
    services = object.__new__(Services)
    object.__setattr__(services, "presentation", presentation)
    return render.public_origin(request, services)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"host": "a:1"}, "http://a:1"),
        ({"host": "a:1", "x_forwarded_proto": "https"}, "https://a:1"),
        ({"host": "a:1", "x_forwarded_proto": "https", "x_forwarded_host": "b"}, "https://b"),
        ({}, "http://127.0.0.1:8080"),
    ],
)
def test_the_origin_is_the_one_the_caller_used(headers: dict[str, str], expected: str) -> None:
    assert origin(None, **headers) == expected


def test_a_configured_origin_wins_and_has_no_slash_at_its_end() -> None:
    assert origin("https://oc.example/", host="a:1") == "https://oc.example"


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "a:1", "x_forwarded_proto": "https, http"},
        {"host": "a:1", "x_forwarded_proto": "javascript"},
        {"host": "a:1", "x_forwarded_host": "b, c"},
        {"host": "a:1", "x_forwarded_host": "b/path?x"},
    ],
)
def test_the_origin_is_always_a_plain_one(headers: dict[str, str]) -> None:
    """Proxies append to these headers, and anybody may send them."""
    made = origin(None, **headers)
    scheme, _, rest = made.partition("://")
    assert scheme in ("http", "https")
    assert not set(rest) & set(" ,/?#")
