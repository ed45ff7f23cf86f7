"""`oc config …`: what `oc` keeps in its file."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from urllib.parse import urlsplit

import typer

from opencomputer.cli import profiles, text
from opencomputer.cli.config import (
    abbreviated,
    config_file,
    load_profile,
    read_json,
    save,
    save_profile,
    text_in,
)
from opencomputer.cli.failures import CommandError
from opencomputer.cli.session import session_of
from opencomputer.sdk.endpoint import check_key

_HEADERS = ("NAME", "USED", "API URL", "API KEY", "LOGIN")
_NAME = typer.Argument(..., metavar="NAME", help="The profile's name.", show_default=False)


class Setting(StrEnum):
    """What can be kept."""

    API_KEY = "api-key"
    API_URL = "api-url"
    SESSIONS_API_URL = "sessions-api-url"


_VARIABLES = {
    Setting.API_KEY: "OPENCOMPUTER_API_KEY",
    Setting.API_URL: "OPENCOMPUTER_API_URL",
    Setting.SESSIONS_API_URL: "SESSIONS_API_URL",
}


def set_value(
    context: typer.Context,
    setting: Setting = typer.Argument(..., help="What to set.", show_default=False),
    value: str = typer.Argument(..., help="Its value; - reads it from standard input.", show_default=False),
) -> None:
    """Keep a value for later runs, in the profile in use."""
    session = session_of(context)
    name, known = load_profile(session.flags.profile, os.environ)
    kept = _checked(setting, sys.stdin.readline().strip() if value == "-" else value.strip())
    if setting is Setting.API_KEY:
        # A key from elsewhere is not the one that a login made and may revoke.
        known.pop("login", None)
    path = save_profile(name, known | {setting.value.replace("-", "_"): kept}, os.environ)
    shown: dict[str, object] = {"saved": setting.value, "profile": name}
    session.output.success(shown, f"{setting.value} saved in {path}{_of(name)}")
    if os.environ.get(_VARIABLES[setting]):
        session.output.warn(f"{_VARIABLES[setting]} is set here, and goes before what is saved")


def show(context: typer.Context) -> None:
    """Show what applies now, from wherever it comes."""
    session = session_of(context)
    server = session.server
    value = {
        "profile": server.profile,
        "api_url": server.api_url,
        "sessions_api_url": server.sessions_url,
        "api_key": abbreviated(server.api_key),
        "api_key_source": server.key_source,
        "file": str(config_file(os.environ)),
    }
    labels = ("Profile", "API URL", "Sessions URL", "API key", "Key from", "File")
    session.output.result(value, text.details(list(zip(labels, value.values(), strict=True))))


def list_profiles(context: typer.Context) -> None:
    """List the servers that are kept side by side."""
    session = session_of(context)
    known = read_json(config_file(os.environ))
    used = profiles.named(session.flags.profile, os.environ, known)
    values: list[dict[str, object]] = []
    for name in profiles.names(known):
        kept = profiles.values_of(known, name)
        values.append(
            {
                "name": name,
                "used": name == used,
                "api_url": text_in(kept, "api_url"),
                "api_key": abbreviated(text_in(kept, "api_key")),
                "login": "login" in kept,
            }
        )
    rows = [
        [
            each["name"],
            "*" if each["used"] else "",
            each["api_url"] or "-",
            each["api_key"],
            "yes" if each["login"] else "no",
        ]
        for each in values
    ]
    session.output.table(values, _HEADERS, rows, "No profiles.")


def use(context: typer.Context, name: str = _NAME) -> None:
    """Use a profile where neither --profile nor OC_PROFILE names one."""
    path = config_file(os.environ)
    known = read_json(path)
    if name != profiles.DEFAULT:
        profiles.must_be_known(known, name)
    save(path, profiles.with_used(known, name))
    session_of(context).output.success({"profile": name}, f"{name} is in use")


def remove(context: typer.Context, name: str = _NAME) -> None:
    """Forget a profile. A key that a login made stays valid: `oc logout` ends it first."""
    path = config_file(os.environ)
    known = read_json(path)
    profiles.must_be_known(known, name)
    kept = profiles.with_values(known, name, {})
    save(path, profiles.with_used(kept, profiles.DEFAULT) if known.get("profile") == name else kept)
    session_of(context).output.success({"name": name, "removed": True}, f"{name} removed")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Saved settings: set, show, and profiles of several servers.")
    group.command("set")(set_value)
    group.command("show")(show)
    group.command("profiles")(list_profiles)
    group.command("use")(use)
    group.command("remove")(remove)
    app.add_typer(group, name="config")


def _checked(setting: Setting, value: str) -> str:
    if not value:
        raise CommandError(f"{setting.value} is empty")
    if setting is not Setting.API_KEY and (
        urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).hostname
    ):
        raise CommandError(f"{value!r} is no address; it begins with https:// or http://")
    if setting is Setting.API_KEY:
        check_key(value)
    return value


def _of(profile: str) -> str:
    return "" if profile == profiles.DEFAULT else f" for profile {profile}"
