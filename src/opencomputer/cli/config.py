"""Which server `oc` talks to, and with which key: flag, environment, file, node on this machine, default."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

DEFAULT_API_URL = "https://app.opencomputer.dev"
DEFAULT_SESSIONS_URL = "https://api.opencomputer.dev"
LOCAL_NODE_FILE = Path("/var/lib/opencomputer/local-node.json")

Values = dict[str, object]


@dataclass(frozen=True)
class Server:
    """The server that a command talks to. The key is "" when there is none.

    `sessions_url` is where its durable sessions are, and "" where that has not been looked up.
    """

    api_url: str
    api_key: str
    sessions_url: str = field(default="", compare=False)


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
    """The server to talk to. Empty flags count as not given.

    A node on this machine is used when nothing names a server. Its key never goes to any other server.
    Durable sessions are where the rest is, unless something says otherwise.
    """
    known = read_json(config_file(environment))
    url = flags.api_url or environment.get("OPENCOMPUTER_API_URL") or _text(known, "api_url")
    key = flags.api_key or environment.get("OPENCOMPUTER_API_KEY") or _text(known, "api_key")
    sessions = (
        flags.sessions_url
        or environment.get("OPENCOMPUTER_SESSIONS_URL")
        or environment.get("SESSIONS_API_URL")
        or _text(known, "sessions_api_url")
    )
    if url and key:
        return Server(url, key, sessions or url)
    local = read_json(Path(environment.get("OPENCOMPUTER_LOCAL_NODE_FILE") or LOCAL_NODE_FILE))
    local_url = _text(local, "apiUrl")
    named = (url or local_url, sessions or url or local_url)
    if not key and local_url and all(_same(each, local_url) for each in named):
        key = _text(local, "apiKey")
    nearest = sessions or url or local_url or DEFAULT_SESSIONS_URL
    return Server(url or local_url or DEFAULT_API_URL, key, nearest)


def abbreviated(key: str) -> str:
    """A key as it may be shown: its first and last four characters."""
    return f"{key[:4]}…{key[-4:]}" if len(key) > 8 else "…" if key else "-"


def _same(one: str, other: str) -> bool:
    return _root(one) == _root(other)


def _root(url: str) -> str:
    return url.rstrip("/").removesuffix("/api").removesuffix("/v3")


def _text(values: Values, name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""
