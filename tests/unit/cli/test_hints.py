"""Errors that a new user meets: one line, and another with what to do next. Exactly as people see them."""

from __future__ import annotations

import json
import socket
import ssl
import sys
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from opencomputer.cli import config
from opencomputer.cli.failures import failure_of
from opencomputer.cli.hints import Refusal, hint_for
from opencomputer.cli.local_server import local_server
from opencomputer.cli.unreachable import explained
from opencomputer.server.host.runsc_build import RunscMissing
from opencomputer.server.identity import DataFolderBusy
from opencomputer.server.listeners import AddressInUse
from opencomputer.server.settings import SettingsError
from tests.support.fake_node import FakeNode, Rule
from tests.support.fake_node.node import FakeSandbox
from tests.unit.cli.conftest import Oc

SANDBOX = "sb-00000001"
ROOM = "see what runs with `oc ls`, and end something with `oc kill SANDBOX`"
REFUSED = [
    # command, method and path, status, code, message → exit code, hint
    (
        "get sb-x",
        "GET /sandboxes/sb-x",
        404,
        "not_found",
        "there is no such sandbox",
        3,
        "see what is there: oc ls",
    ),
    (
        f"checkpoint restore {SANDBOX} cp-x",
        f"POST /sandboxes/{SANDBOX}/checkpoints/cp-x/restore",
        404,
        "not_found",
        "there is no such checkpoint",
        3,
        f"see what is there: oc checkpoint list {SANDBOX}",
    ),
    (
        f"exec kill {SANDBOX} 0000a009",
        f"POST /sandboxes/{SANDBOX}/exec/0000a009/kill",
        404,
        "not_found",
        "there is no such session",
        3,
        f"see what is there: oc exec list {SANDBOX}",
    ),
    (
        "create --template nope",
        "POST /sandboxes",
        404,
        "not_found",
        "there is no template of this name",
        3,
        "see what is there: oc template list",
    ),
    (
        "snapshot get nope",
        "GET /snapshots/nope",
        404,
        "not_found",
        "there is no such snapshot",
        3,
        "see what is there: oc snapshot list",
    ),
    (
        "ls",
        "GET /sandboxes",
        401,
        "unauthorized",
        "A valid API key or sandbox token is required.",
        3,
        "sign in with `oc login`; `oc config show` tells which key is used, and where it is from",
    ),
    ("create", "POST /sandboxes", 402, "plan_limit", "The plan does not include this.", 3, ROOM),
    (
        "create",
        "POST /sandboxes",
        429,
        "concurrency_limit",
        "The organisation's limit of running sandboxes is reached.",
        3,
        ROOM,
    ),
    (
        f"get {SANDBOX}",
        f"GET /sandboxes/{SANDBOX}",
        410,
        "sandbox_stopped",
        "The sandbox is stopped.",
        3,
        "it cannot come back; a checkpoint of it can, with `oc checkpoint spawn`; `oc create` makes another",
    ),
    (
        f"hibernate {SANDBOX}",
        f"POST /sandboxes/{SANDBOX}/hibernate",
        409,
        "operation_in_progress",
        "Another operation on this sandbox is in progress; try again shortly.",
        4,
        "try again shortly",
    ),
    (
        f"scale {SANDBOX} 8192",
        f"POST /sandboxes/{SANDBOX}/scale",
        403,
        "scaling_locked",
        "The size of this sandbox is locked.",
        3,
        "oc sandbox unlock SANDBOX",
    ),
    (
        "keys list",
        "GET /api-keys",
        501,
        "not_supported",
        "This server does not offer that.",
        5,
        "self-hosted servers do not have this yet; `oc --help` shows what else there is",
    ),
    (
        "keys list",
        "GET /api-keys",
        500,
        "internal",
        "Something went wrong on the server.",
        5,
        "the server's log says more about req_1; `oc doctor` looks at its machine",
    ),
]


@pytest.mark.parametrize(
    ("command", "route", "status", "code", "message", "exit_code", "hint"),
    REFUSED,
    ids=[f"{case[2]} {case[0]}" for case in REFUSED],
)
def test_a_refusal_says_what_to_do(
    oc: Oc,
    node: FakeNode,
    inside: FakeSandbox,
    command: str,
    route: str,
    status: int,
    code: str,
    message: str,
    exit_code: int,
    hint: str,
) -> None:
    method, path = route.split()
    body = {"error": message, "code": code}
    # Some calls are sent again before anybody hears of it.
    node.rules.append(Rule(method, path, status, body, {"x-request-id": "req_1"}, times=6))
    outcome = oc(*command.split())
    assert (outcome.exit_code, outcome.stdout) == (exit_code, "")
    assert outcome.stderr == f"Error: {message}\nHint: {hint}\n"
    as_json = oc(*command.split(), "--json")
    assert json.loads(as_json.stderr) == {"error": message, "code": exit_code}
    assert oc(*command.split(), "--quiet").stderr == f"Error: {message}\n"


def test_an_answer_of_something_else_is_not_shown_but_named(oc: Oc, node: FakeNode) -> None:
    node.rules.append(Rule("GET", "/sandboxes", 404, "<html>"))
    assert oc("ls").stderr == (
        f"Error: {node.url} answers 404, but not as this server does\n"
        "Hint: check the address: oc config show, oc config set api-url URL\n"
    )
    node.rules.append(Rule("GET", "/api-keys", 502, "<html>", times=2))
    assert oc("keys", "list").stderr == (
        f"Error: {node.url} answers 502, but not as this server does\n"
        "Hint: what stands before the server does not reach it\n"
    )


def test_nothing_listens_there(oc: Oc) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        outcome = oc("ls", "--api-url", url)
    assert outcome.exit_code == 1
    assert outcome.stderr == (
        f"Error: the server cannot be reached at {url}: nothing listens there\n"
        "Hint: start one on this machine with `oc serve`, or name another: oc config set api-url URL\n"
    )


def test_encryption_where_there_is_none(oc: Oc, node: FakeNode) -> None:
    outcome = oc("ls", "--api-url", node.url.replace("http://", "https://"))
    assert outcome.stderr == (
        "Error: 127.0.0.1 does not answer in TLS\nHint: perhaps its address begins with http://\n"
    )


REQUEST = httpx.Request("GET", "https://oc.example/api/sandboxes")
CERTIFICATE = ssl.SSLCertVerificationError(1, "verify failed")
CERTIFICATE.verify_message = "self-signed certificate"
ELSEWHERE = "check the address: oc config show, oc config set api-url URL"


@pytest.mark.parametrize(
    ("error", "cause", "message", "hint"),
    [
        (
            httpx.ConnectError("x", request=REQUEST),
            CERTIFICATE,
            "the certificate of oc.example cannot be verified: self-signed certificate",
            "if it has an authority of its own, name its certificate in SSL_CERT_FILE",
        ),
        (
            httpx.ConnectError("x", request=REQUEST),
            ExceptionGroup("several", [socket.gaierror(-2, "Name or service not known")]),
            "the server cannot be reached at https://oc.example: there is no host oc.example",
            ELSEWHERE,
        ),
        (
            httpx.ConnectError("x", request=REQUEST),
            ConnectionRefusedError(),
            "the server cannot be reached at https://oc.example: nothing listens there",
            ELSEWHERE,
        ),
        (
            httpx.ConnectTimeout("x", request=REQUEST),
            None,
            "the server cannot be reached at https://oc.example: it does not answer",
            ELSEWHERE,
        ),
        (
            httpx.ReadTimeout("x", request=REQUEST),
            None,
            "https://oc.example did not answer in time",
            "try again; `oc ls` shows what was done",
        ),
        (
            httpx.RemoteProtocolError("x", request=httpx.Request("GET", "http://oc.example/")),
            None,
            "the server cannot be reached at http://oc.example: the connection ended without an answer",
            "perhaps its address begins with https://",
        ),
        (httpx.ReadError("reset"), None, "the server cannot be reached: reset", ELSEWHERE),
    ],
)
def test_each_way_not_to_be_reached_is_told_apart(
    error: httpx.TransportError, cause: BaseException | None, message: str, hint: str
) -> None:
    error.__cause__ = cause
    found = explained(error)
    assert (found.message, found.hint) == (message, hint)
    failure = failure_of(error)
    assert failure is not None
    assert (failure.message, failure.exit_code, failure.hint) == (message, 1, hint)


def test_who_is_no_root_is_told_the_whole_command(
    oc: Oc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["oc", "serve", "--data", "/some where"])
    with pytest.raises(Exception) as failed, local_server():
        raise PermissionError(13, "Permission denied", "/var/lib/opencomputer")
    failure = failure_of(failed.value)
    assert failure is not None
    assert failure.message == "no permission for /var/lib/opencomputer"
    assert failure.hint == "as root: sudo oc serve --data '/some where'"


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (
            AddressInUse("cannot listen on 127.0.0.1:8080: Address already in use"),
            "cannot listen on 127.0.0.1:8080: Address already in use",
            "choose another: oc serve --listen 127.0.0.1:PORT",
        ),
        (
            DataFolderBusy("another server uses /data"),
            "another server uses /data",
            "stop that one, or: oc serve --data FOLDER",
        ),
        (
            SettingsError(["OPENCOMPUTER_POOL_MAX='many': must be a number"]),
            "OPENCOMPUTER_POOL_MAX='many': must be a number",
            "correct that here or in the environment",
        ),
        (
            RunscMissing("runsc is not installed"),
            "runsc is not installed",
            "see what this machine lacks: oc doctor",
        ),
    ],
)
def test_a_server_that_does_not_start_says_why(
    oc: Oc, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str, hint: str
) -> None:
    def serve(*_: object) -> None:
        raise error

    stand_in = ModuleType("opencomputer.server.main")
    stand_in.__dict__["serve"] = serve
    monkeypatch.setitem(sys.modules, "opencomputer.server.main", stand_in)
    outcome = oc("serve")
    assert (outcome.exit_code, outcome.stderr) == (1, f"Error: {message}\nHint: {hint}\n")


def test_a_file_that_cannot_be_written_is_one_line(oc: Oc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OC_CONFIG", "/proc/nowhere/config.json")
    outcome = oc("config", "set", "api-url", "http://x")
    assert (outcome.exit_code, outcome.stderr) == (1, "Error: /proc/nowhere: No such file or directory\n")


def test_a_profile_that_is_not_there(oc: Oc, clean_environment: Path) -> None:
    config.save(clean_environment, {"profiles": {"lab": {"api_url": "http://lab"}}})
    assert oc("ls", "--profile", "labb").stderr == (
        "Error: there is no profile 'labb'\nHint: oc login --profile labb\n"
    )


@pytest.mark.parametrize(
    ("status", "code", "path", "hint"),
    [
        (404, "not_found", "/v3/sessions/ses_x/events", "see what is there: oc session list"),
        (404, "not_found", "/v3/agents/agt_x", "see what is there: oc agent list"),
        (
            404,
            "not_found",
            f"/api/sandboxes/{SANDBOX}/preview/3000",
            f"see what is there: oc preview list {SANDBOX}",
        ),
        (
            404,
            "not_found",
            "/elsewhere/api/sandboxes",
            "check the address with `oc config show`; or the server may be older than this oc",
        ),
        (404, "not_found", "/v3/sessions/ses_1/fork", "see what is there: oc session turns ses_1"),
        (404, "not_found", "/v3/sessions/ses_1", "see what is there: oc session list"),
        (
            404,
            "not_found",
            "/v3/sessions/ses_1/destinations/d",
            "see what is there: oc session webhooks ses_1",
        ),
        (404, "", "/v3/agents/agt_1/revisions/9", "see what is there: oc agent revisions --agent agt_1"),
        (
            404,
            "not_found",
            "/v3/agents/agt_1/secrets/A",
            "see what is there: oc agent secret list --agent agt_1",
        ),
        (
            404,
            "not_found",
            "/auth/cli/device/decide",
            "look at the code again, or begin anew where it came from: oc login",
        ),
        (400, "invalid_request", "/api/sandboxes", ""),
        (403, "file_forbidden", f"/api/sandboxes/{SANDBOX}/files", ""),
        (409, "conflict", "/api/sandboxes", ""),
        (
            403,
            "forbidden",
            "/api/sandboxes",
            "`oc whoami` tells whose key is used; sandbox tokens open their own sandbox only",
        ),
        (503, "no_capacity", "/api/sandboxes", f"try again shortly, or {ROOM}"),
        (599, "", "/api/sandboxes", "the server's log says more; `oc doctor` looks at its machine"),
    ],
)
def test_hints_follow_from_status_code_and_path_alone(status: int, code: str, path: str, hint: str) -> None:
    assert hint_for(Refusal(status, code, path=path)) == hint
