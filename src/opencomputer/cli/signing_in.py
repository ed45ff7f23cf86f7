"""What `oc login` does, step by step, and its opposite."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from opencomputer.cli import profiles, text
from opencomputer.cli.config import Values, load_profile, same_server, save_profile, text_in
from opencomputer.cli.failures import INTERRUPTED, CommandError, exit_code_of_status
from opencomputer.sdk.device_login import DeviceLogin, LoginExpiredError, StartedLogin, reason_of
from opencomputer.sdk.endpoint import is_loopback
from opencomputer.sdk.errors import OpenComputerError

if TYPE_CHECKING:
    from opencomputer.cli.session import Session
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.device_login import Credential

_UNAUTHORIZED = 401
_MOST_NAME = 100
_EXPLAINED = {
    "authorization_expired": "nobody approved the login in time",
    "authorization_denied": "the login was denied",
    "cli_login_unavailable": "this server does not offer logins",
    "invalid_request": "the server did not understand the login",
    "account_provisioning_unavailable": "the server cannot set up the account now",
    "credential_creation_failed": "the server could not make a key",
    "auth_provider_unavailable": "the server cannot reach who signs people in",
    "rate_limited": "there were too many logins lately; wait some minutes",
}
_WITHOUT = "a key from `oc keys create` does as well: oc config set api-key -"


@dataclass(frozen=True)
class _Kept:
    """What the file has for the profile."""

    profile: str
    values: Values

    @property
    def login(self) -> Values:
        found = self.values.get("login")
        return cast("Values", found) if isinstance(found, dict) else {}


def sign_in(session: Session, *, browser: bool, force: bool) -> None:
    """Get a key and save it, unless there is a login that works."""
    kept = _Kept(*load_profile(session.flags.profile, os.environ))
    api_url = _address(session, kept)
    if not force and _works(session, kept, api_url):
        _show(session, identity(session), api_url, kept.login)
        return
    _warn_of_plain_http(session, api_url)
    try:
        credential = asyncio.run(_credential(session, api_url, browser=browser))
    except KeyboardInterrupt:
        raise CommandError("interrupted; nothing was changed", INTERRUPTED) from None
    except LoginExpiredError:
        raise CommandError(_EXPLAINED["authorization_expired"], hint="oc login") from None
    except OpenComputerError as error:
        raise _explained(error) from error
    login: Values = {
        "credential_id": credential.id,
        "key_prefix": credential.key_prefix,
        "name": credential.name,
        "api_url": api_url,
    }
    values = kept.values | {"api_url": api_url, "api_key": credential.key, "login": login}
    save_profile(kept.profile, values, os.environ)
    found = identity(session)
    if force and kept.login:
        _revoke_replaced(session, kept.values)
    _show(session, found, api_url, login)


def decide(session: Session, code: str, *, approve: bool) -> None:
    """Let a login in that waits, or refuse it."""
    server = session.server
    if not server.api_key:
        raise CommandError("approving a login needs a key of the organisation", hint="oc login")

    async def work() -> JsonObject:
        async with DeviceLogin(server.api_url) as client:
            return await client.decide(server.api_key, code, approve=approve)

    answer = asyncio.run(work())
    word = "approved" if approve else "denied"
    session.output.success(answer, f"{word}; it was asked for from {answer.get('requested_from') or '-'}")


def revoke(kept: Values) -> None:
    """Revoke the key of a saved login, on the server that made it."""
    login = cast("dict[str, Any]", kept.get("login") or {})
    api_url = text_in(login, "api_url") or text_in(kept, "api_url")

    async def work() -> None:
        async with DeviceLogin(api_url) as client:
            await client.revoke(text_in(kept, "api_key"))

    asyncio.run(work())


def identity(session: Session) -> JsonObject:
    """Whose key applies, as the server says."""
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import get

    return json_object(session.run(lambda plane: plane.json(get("/whoami")), warn=False))


def credential_name() -> str:
    """What the key is called in lists of keys."""
    return text.harmless(f"oc CLI on {socket.gethostname()}")[:_MOST_NAME]


def _address(session: Session, kept: _Kept) -> str:
    """Where to sign in. A profile that is not there yet may be given its address on the command line."""
    if kept.profile != profiles.DEFAULT and not kept.values:
        url = session.flags.api_url or os.environ.get("OPENCOMPUTER_API_URL", "")
        if not url:
            raise CommandError(
                f"where is the server of the new profile {kept.profile!r}?",
                hint=f"oc login --profile {kept.profile} --api-url https://…",
            )
        if session.flags.api_key or os.environ.get("OPENCOMPUTER_API_KEY"):
            raise _key_given()
        return url
    server = session.server
    if server.key_source in ("flag", "environment"):
        raise _key_given()
    return server.api_url


def _key_given() -> CommandError:
    return CommandError(
        "a key is given by --api-key or the environment, and would be used instead of the login's",
        hint="unset OPENCOMPUTER_API_KEY, then oc login",
    )


def _works(session: Session, kept: _Kept, api_url: str) -> bool:
    """Whether a saved login is good for this server. Raises CommandError where --force is needed."""
    if not text_in(kept.values, "api_key"):
        return False
    if not kept.login:
        raise CommandError(
            "a key is saved that no login made",
            hint="oc login --force replaces it; --profile NAME keeps both",
        )
    if not same_server(text_in(kept.login, "api_url"), api_url):
        raise CommandError(
            f"there is a login for {text_in(kept.login, 'api_url')} already",
            hint="oc login --force replaces it; --profile NAME keeps both",
        )
    try:
        identity(session)
    except OpenComputerError as error:
        if error.status == _UNAUTHORIZED:
            return False
        raise
    return True


def _warn_of_plain_http(session: Session, api_url: str) -> None:
    parts = urlsplit(api_url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        session.output.warn(f"{api_url} is not encrypted: others on the way can read the key.")


async def _credential(session: Session, api_url: str, *, browser: bool) -> Credential:
    async with DeviceLogin(api_url) as client:
        started = await client.start()
        _tell(session, started, browser=browser)
        return await client.credential(started, credential_name())


def _tell(session: Session, started: StartedLogin, *, browser: bool) -> None:
    output = session.output
    output.ask("Open", started.verification_uri_complete)
    output.ask(f"and check that it shows the code {started.user_code}")
    output.note("Waiting until somebody approves it …")
    if browser and not _open(started.verification_uri_complete):
        output.note("No browser was opened.")


def _open(address: str) -> bool:
    import sys
    import webbrowser

    # Without a screen there may still be a browser, but one that would take this terminal.
    if sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")
    ):
        return False
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return False


def _explained(error: OpenComputerError) -> CommandError:
    reason = reason_of(error)
    offered = error.status not in (404, 405, 501)
    message = _EXPLAINED.get(reason if offered else "cli_login_unavailable", error.message)
    hint = "oc login" if reason in ("authorization_expired", "rate_limited") else _WITHOUT
    return CommandError(message, exit_code_of_status(error.status), hint=hint)


def _revoke_replaced(session: Session, values: Values) -> None:
    from opencomputer.sdk.http import httpx

    try:
        revoke(values)
    except (OpenComputerError, httpx.HTTPError):
        session.output.warn("the login that was replaced could not be revoked; `oc keys list` shows it.")


def _show(session: Session, found: JsonObject, api_url: str, login: Values) -> None:
    value: dict[str, object] = {
        **{name: found.get(name, "") for name in ("user_id", "email", "org_id", "org_name")},
        "api_url": api_url,
        "credential": {
            "id": login.get("credential_id", ""),
            "key_prefix": login.get("key_prefix", ""),
            "name": login.get("name", ""),
        },
    }
    pairs = [
        ("Signed in as", found.get("email") or login.get("name") or "-"),
        ("Workspace", found.get("org_name") or "-"),
        ("API", api_url),
    ]
    session.output.result(value, text.details(pairs))
    session.output.note("Next: oc create")
