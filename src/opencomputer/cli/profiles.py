"""Several servers side by side in one file: profiles. No I/O here.

The keys on the top of the file are the profile `default`; others are below `profiles`, each with the same
keys. `profile` names the one that is used when a run names none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from opencomputer.cli.failures import CommandError

DEFAULT = "default"
_KEYS = ("api_url", "api_key", "sessions_api_url", "login")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Values = dict[str, object]


def named(flag: str, environment: Mapping[str, str], known: Values) -> str:
    """The profile that a run uses: the flag's, else `OC_PROFILE`'s, else the one the file names."""
    stored = known.get("profile")
    name = flag or environment.get("OC_PROFILE") or (stored if isinstance(stored, str) else "") or DEFAULT
    if not _NAME.fullmatch(name):
        raise CommandError(f"{name!r} is no name for a profile; use letters, digits, '.', '_' and '-'")
    return name


def names(known: Values) -> list[str]:
    """All profiles that have something in them, the default one first."""
    others = sorted(_others(known))
    return [DEFAULT, *others] if values_of(known, DEFAULT) or not others else others


def values_of(known: Values, name: str) -> Values:
    """What the file says for a profile; nothing where it does not know it."""
    if name == DEFAULT:
        return {key: known[key] for key in _KEYS if key in known}
    found = _others(known).get(name)
    return dict(cast("Values", found)) if isinstance(found, dict) else {}


def with_values(known: Values, name: str, values: Values) -> Values:
    """The file's content with other values for a profile. One without any is not in it."""
    if name == DEFAULT:
        rest = {key: value for key, value in known.items() if key not in _KEYS}
        return {**values, **rest}
    others = {**_others(known), name: values}
    if not values:
        del others[name]
    rest = {key: value for key, value in known.items() if key != "profiles"}
    return {**rest, "profiles": others} if others else rest


def with_used(known: Values, name: str) -> Values:
    """The file's content with this profile in use where a run names none."""
    rest = {key: value for key, value in known.items() if key != "profile"}
    return rest if name == DEFAULT else {**rest, "profile": name}


def must_be_known(known: Values, name: str) -> None:
    """Raise where a profile is not there."""
    if name not in names(known):
        raise CommandError(f"there is no profile {name!r}", hint=f"oc login --profile {name}")


def _others(known: Values) -> Values:
    found = known.get("profiles")
    return cast("Values", found) if isinstance(found, dict) else {}
