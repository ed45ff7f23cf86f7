"""`oc login`, `logout` and `whoami`: what is asked of the server, what is kept, what is never shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opencomputer.cli import config, signing_in
from opencomputer.sdk import device_login
from opencomputer.sdk.device_login import Waiting
from tests.support.login_server import KEY, PENDING, LoginServer, login_server
from tests.unit.cli.conftest import Oc

OLD_KEY = "osb_" + "9" * 64


@pytest.fixture
def server(oc: Oc, clean_environment: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoginServer]:
    """The server that the file names; nothing else says which, or with which key."""

    async def at_once(seconds: float) -> None: ...

    monkeypatch.setattr(device_login, "Waiting", lambda: Waiting(at_once))
    monkeypatch.setattr(signing_in, "credential_name", lambda: "oc CLI on laptop")
    for variable in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "OC_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("OPENCOMPUTER_API_KEY", "OPENCOMPUTER_API_URL"):
        monkeypatch.delenv(variable)
    with login_server() as made:
        config.save(clean_environment, {"api_url": made.url})
        yield made


def signed_in(server: LoginServer, **changes: str) -> dict[str, object]:
    login = {"credential_id": "key-9", "key_prefix": KEY[:12], "name": "oc CLI on laptop"}
    return {"api_url": server.url, "api_key": KEY, "login": {**login, "api_url": server.url, **changes}}


def test_a_login_is_shown_awaited_saved_and_checked(
    oc: Oc, server: LoginServer, clean_environment: Path
) -> None:
    server.exchanges.insert(0, PENDING)
    outcome = oc("login")
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.stdout == (
        f"Signed in as: ada@example.com\nWorkspace:    Ada's\nAPI:          {server.url}\n"
    )
    assert f"{server.url}/auth/cli/verify?code=BCDF-GHJK" in outcome.stderr
    assert "BCDF-GHJK" in outcome.stderr
    assert "No browser was opened." in outcome.stderr
    assert KEY not in outcome.stdout + outcome.stderr
    assert config.read_json(clean_environment) == signed_in(server)
    assert server.paths() == [
        "POST /auth/cli/device",
        "POST /auth/cli/device/exchange",
        "POST /auth/cli/device/exchange",
        "GET /api/whoami",
    ]
    assert server.seen[-1][2] == KEY


def test_json_has_the_identity_and_never_the_key(oc: Oc, server: LoginServer) -> None:
    outcome = oc("login", "--json", "--quiet")
    assert json.loads(outcome.stdout) == {
        "user_id": "user-1",
        "email": "ada@example.com",
        "org_id": "org-1",
        "org_name": "Ada's",
        "api_url": server.url,
        "credential": {"id": "key-9", "key_prefix": KEY[:12], "name": "oc CLI on laptop"},
    }
    assert "BCDF-GHJK" in outcome.stderr, "without the code nobody can go on, quiet or not"


def test_a_login_that_works_is_left_alone(oc: Oc, server: LoginServer, clean_environment: Path) -> None:
    config.save(clean_environment, signed_in(server))
    assert oc("login").stdout.startswith("Signed in as: ada@example.com")
    assert server.paths() == ["GET /api/whoami", "GET /api/whoami"]


def test_a_login_whose_key_was_revoked_is_made_anew(
    oc: Oc, server: LoginServer, clean_environment: Path
) -> None:
    config.save(clean_environment, signed_in(server) | {"api_key": OLD_KEY})
    assert oc("login").exit_code == 0
    assert config.read_json(clean_environment)["api_key"] == KEY


@pytest.mark.parametrize("given", ["flag", "environment"])
def test_a_key_that_would_be_used_instead_has_to_go_first(
    oc: Oc, server: LoginServer, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    if given == "environment":
        monkeypatch.setenv("OPENCOMPUTER_API_KEY", OLD_KEY)
    outcome = oc("login", *(["--api-key", OLD_KEY] if given == "flag" else []))
    assert outcome.exit_code == 1
    assert "unset OPENCOMPUTER_API_KEY" in outcome.stderr
    assert server.seen == []


@pytest.mark.parametrize("saved", ["by hand", "for another server"])
def test_what_is_saved_is_replaced_by_force_only(
    oc: Oc, server: LoginServer, clean_environment: Path, saved: str
) -> None:
    by_hand: dict[str, object] = {"api_url": server.url, "api_key": OLD_KEY}
    elsewhere = signed_in(server, api_url="https://elsewhere.example")
    before = by_hand if saved == "by hand" else elsewhere
    config.save(clean_environment, before)
    outcome = oc("login")
    assert outcome.exit_code == 1
    assert "oc login --force" in outcome.stderr
    assert config.read_json(clean_environment) == before
    assert server.seen == []


def test_force_revokes_the_login_that_it_replaces(
    oc: Oc, server: LoginServer, clean_environment: Path
) -> None:
    config.save(clean_environment, signed_in(server) | {"api_key": OLD_KEY})
    assert oc("login", "--force").exit_code == 0
    assert server.seen[-1][:3] == ("DELETE", "/auth/cli/credential", OLD_KEY)
    server.revoke_status = 500
    config.save(clean_environment, signed_in(server) | {"api_key": OLD_KEY})
    outcome = oc("login", "--force")
    assert outcome.exit_code == 0
    assert "could not be revoked" in outcome.stderr


@pytest.mark.parametrize(
    ("code", "status", "exit_code", "said"),
    [
        ("authorization_expired", 400, 3, "nobody approved the login in time"),
        ("authorization_denied", 403, 3, "the login was denied"),
        ("cli_login_unavailable", 503, 5, "this server does not offer logins"),
        ("invalid_request", 400, 3, "did not understand"),
        ("account_provisioning_unavailable", 503, 5, "cannot set up the account"),
        ("credential_creation_failed", 500, 5, "could not make a key"),
        ("rate_limited", 429, 3, "too many logins"),
        ("not_found", 404, 3, "this server does not offer logins"),
    ],
)
def test_each_refusal_is_explained_and_changes_nothing(
    oc: Oc, server: LoginServer, clean_environment: Path, code: str, status: int, exit_code: int, said: str
) -> None:
    server.exchanges = [(status, {"error": "no", "code": code})]
    before = config.read_json(clean_environment)
    outcome = oc("login", "--no-browser")
    assert (outcome.exit_code, outcome.stdout) == (exit_code, "")
    error, hint = outcome.stderr.splitlines()[-2:]
    assert error.startswith("Error: ")
    assert said in error
    assert hint.startswith("Hint: ")
    assert config.read_json(clean_environment) == before


def test_ctrl_c_changes_nothing_and_says_so(
    oc: Oc, server: LoginServer, clean_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(device_login, "Waiting", lambda: Waiting(interrupted))
    before = config.read_json(clean_environment)
    outcome = oc("login")
    assert outcome.exit_code == 130
    assert "nothing was changed" in outcome.stderr
    assert config.read_json(clean_environment) == before


def test_a_key_without_encryption_is_warned_of(oc: Oc, server: LoginServer) -> None:
    outcome = oc("login", "--api-url", "http://oc.invalid")
    assert outcome.stderr.startswith("Warning: http://oc.invalid is not encrypted")


def test_another_machine_is_let_in_with_the_key_of_this_one(
    oc: Oc, server: LoginServer, clean_environment: Path
) -> None:
    config.save(clean_environment, signed_in(server))
    outcome = oc("login", "approve", "bcdf-ghjk")
    assert outcome.stdout == "✓ approved; it was asked for from 192.0.2.7\n"
    assert oc("login", "approve", "BCDF-GHJK", "--deny").stdout.startswith("✓ denied")
    approved, denied = (each for each in server.seen if each[1].endswith("/decide"))
    assert approved[2:] == (KEY, {"user_code": "bcdf-ghjk", "approve": True})
    assert denied[3]["approve"] is False


def test_whoami_shows_whose_key_it_is(oc: Oc, server: LoginServer, clean_environment: Path) -> None:
    config.save(clean_environment, signed_in(server))
    assert oc("whoami").stdout == (
        f"User:      ada@example.com\nWorkspace: Ada's\nOrg ID:    org-1\nAPI:       {server.url}\n"
    )
    assert json.loads(oc("whoami", "--json").stdout)["org_id"] == "org-1"


def test_whoami_without_a_key_says_how_to_get_one(oc: Oc, server: LoginServer) -> None:
    outcome = oc("whoami")
    assert (outcome.exit_code, outcome.stderr) == (1, "Error: not signed in\nHint: oc login\n")
    assert server.seen == []


@pytest.mark.parametrize("status", [204, 401, 404])
def test_logout_revokes_the_key_and_forgets_it(
    oc: Oc, server: LoginServer, clean_environment: Path, status: int
) -> None:
    server.revoke_status = status
    config.save(clean_environment, signed_in(server) | {"sessions_api_url": "http://s"})
    outcome = oc("logout")
    assert outcome.stdout == "✓ signed out; the key is revoked\n"
    assert config.read_json(clean_environment) == {"api_url": server.url, "sessions_api_url": "http://s"}
    assert server.seen == [("DELETE", "/auth/cli/credential", KEY, None)]


def test_a_logout_that_fails_keeps_everything(oc: Oc, server: LoginServer, clean_environment: Path) -> None:
    server.revoke_status = 500
    before: dict[str, Any] = signed_in(server)
    config.save(clean_environment, before)
    assert oc("logout").exit_code == 5
    assert config.read_json(clean_environment) == before


def test_logout_ends_nothing_but_a_login(
    oc: Oc, server: LoginServer, clean_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert oc("logout").stderr == "Error: not signed in\nHint: oc login\n"
    config.save(clean_environment, {"api_url": server.url, "api_key": OLD_KEY})
    assert "was not made by one" in oc("logout").stderr
    config.save(clean_environment, signed_in(server))
    monkeypatch.setenv("OPENCOMPUTER_API_KEY", OLD_KEY)
    assert "the key comes from the environment" in oc("logout").stderr
    assert server.seen == []


def test_logout_here_alone_asks_no_server(oc: Oc, server: LoginServer, clean_environment: Path) -> None:
    config.save(clean_environment, signed_in(server))
    assert oc("logout", "--local").exit_code == 0
    assert config.read_json(clean_environment) == {"api_url": server.url}
    assert server.seen == []


def test_a_new_profile_is_made_by_its_login(oc: Oc, server: LoginServer, clean_environment: Path) -> None:
    config.save(clean_environment, {"api_url": "http://elsewhere", "api_key": OLD_KEY})
    assert "where is the server" in oc("login", "--profile", "lab").stderr
    assert oc("login", "--profile", "lab", "--api-url", server.url).exit_code == 0
    assert config.read_json(clean_environment) == {
        "api_url": "http://elsewhere",
        "api_key": OLD_KEY,
        "profiles": {"lab": signed_in(server)},
    }
    assert oc("whoami", "--profile", "lab").exit_code == 0
    assert oc("logout", "--profile", "lab").exit_code == 0
    assert config.read_json(clean_environment)["profiles"] == {"lab": {"api_url": server.url}}
