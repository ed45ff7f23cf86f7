"""Which server `oc` talks to, and with which key: flag, environment, file, node on this machine, default.

A profile that the command line names counts as its flags do: its key and its address belong together, and
what the environment says about another server must not come between them.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from opencomputer.cli import profiles

DEFAULT_API_URL = "https://app.opencomputer.dev"
DEFAULT_SESSIONS_URL = "https://api.opencomputer.dev"
LOCAL_NODE_FILE = Path("/var/lib/opencomputer/local-node.json")

Values = dict[str, object]
Source = Literal["flag", "environment", "file", "node", ""]


@dataclass(frozen=True)
class Server:
    """The server that a command talks to. The key is "" when there is none.

    `sessions_url` is where its durable sessions are, and "" where that has not been looked up. `profile` is
    what the file calls it, and `key_source` where the key comes from.
    """

    api_url: str
    api_key: str
    sessions_url: str = field(default="", compare=False)
    profile: str = field(default="", compare=False)
    key_source: Source = field(default="", compare=False)


def config_file(environment: Mapping[str, str]) -> Path:
    """The file that holds `oc`'s own settings."""
    named = environment.get("OC_CONFIG")
    return Path(named) if named else Path.home() / ".oc" / "config.json"


def read_json(path: Path) -> Values:
    """The object in a file; one that is missing, unreadable or something else counts as empty."""
    try:
        value: object = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast(Values, value) if isinstance(value, dict) else {}


def load_profile(flag: str, environment: Mapping[str, str]) -> tuple[str, Values]:
    """The profile that this run uses, and what the file says for it: nothing where it is new."""
    known = read_json(config_file(environment))
    name = profiles.named(flag, environment, known)
    return name, profiles.values_of(known, name)


def save_profile(name: str, values: Values, environment: Mapping[str, str]) -> Path:
    """Write a profile's values in the place of those it had; returns the file."""
    path = config_file(environment)
    save(path, profiles.with_values(read_json(path), name, values))
    return path


def save(path: Path, values: Values) -> None:
    """Write the file so that it is complete or unchanged, and for its owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(values, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o600)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def resolve(flags: Server, environment: Mapping[str, str]) -> Server:
    """The server to talk to. Empty flags count as not given. Raises CommandError for an unknown profile.

    A node on this machine is used when nothing names a server. Its key never goes to any other server.
    Durable sessions are where the rest is, unless something says otherwise.
    """
    known = read_json(config_file(environment))
    profile = profiles.named(flags.profile, environment, known)
    if profile != profiles.DEFAULT:
        profiles.must_be_known(known, profile)
    return _resolve(_Sources(flags, environment, profiles.values_of(known, profile)), profile)


@dataclass(frozen=True)
class _Sources:
    flags: Server
    environment: Mapping[str, str]
    file: Values

    def first(self, flag: str, variables: Sequence[str], key: str) -> tuple[str, Source]:
        """The value from the strongest source that has one, and which that is."""
        in_environment = next(filter(None, map(self.environment.get, variables)), "")
        in_file = text_in(self.file, key)
        if self.flags.profile and in_file:
            in_environment = ""
        found: Sequence[tuple[str, Source]] = (
            (flag, "flag"),
            (in_environment, "environment"),
            (in_file, "file"),
        )
        return next((each for each in found if each[0]), ("", ""))


def _resolve(sources: _Sources, profile: str) -> Server:
    flags = sources.flags
    url, _ = sources.first(flags.api_url, ["OPENCOMPUTER_API_URL"], "api_url")
    key, key_source = sources.first(flags.api_key, ["OPENCOMPUTER_API_KEY"], "api_key")
    session_variables = ["OPENCOMPUTER_SESSIONS_URL", "SESSIONS_API_URL"]
    sessions, _ = sources.first(flags.sessions_url, session_variables, "sessions_api_url")
    if url and key:
        return Server(url, key, sessions or url, profile, key_source)
    named_file = sources.environment.get("OPENCOMPUTER_LOCAL_NODE_FILE")
    local = read_json(Path(named_file or LOCAL_NODE_FILE))
    local_url = text_in(local, "apiUrl")
    named = (url or local_url, sessions or url or local_url)
    if not key and local_url and all(same_server(each, local_url) for each in named):
        key, key_source = text_in(local, "apiKey"), "node"
    nearest = sessions or url or local_url or DEFAULT_SESSIONS_URL
    return Server(url or local_url or DEFAULT_API_URL, key, nearest, profile, key_source)


def abbreviated(key: str) -> str:
    """A key as it may be shown: its first and last four characters."""
    return f"{key[:4]}…{key[-4:]}" if len(key) > 8 else "…" if key else "-"


def same_server(one: str, other: str) -> bool:
    """Whether two addresses are of the same server."""
    return root_of(one) == root_of(other)


def root_of(url: str) -> str:
    """A server's root, where its address may name one of the parts below it."""
    root = url.rstrip("/")
    return next((root.removesuffix(part) for part in ("/api", "/v3", "/v1") if root.endswith(part)), root)


def text_in(values: Values, name: str) -> str:
    """A text in a file, "" where there is none."""
    value = values.get(name)
    return value if isinstance(value, str) else ""
