"""Where the server is and which key to show it."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass

DEFAULT_API_URL = "https://app.opencomputer.dev"


@dataclass(frozen=True)
class Endpoint:
    """A server's control plane. `base` is the root of all its paths and ends in `/api`."""

    base: str
    api_key: str

    @classmethod
    def resolve(cls, api_key: str | None = None, api_url: str | None = None) -> Endpoint:
        """Take each value from its argument, else from the environment, else its default.

        The variables are `OPENCOMPUTER_API_KEY` and `OPENCOMPUTER_API_URL`. No key is not an error here:
        requests then go out without one, and the server answers that one is needed.
        """
        url = api_url or os.environ.get("OPENCOMPUTER_API_URL") or DEFAULT_API_URL
        key = api_key or os.environ.get("OPENCOMPUTER_API_KEY") or ""
        return cls(base=api_base(url), api_key=key)


def api_base(url: str) -> str:
    """Strip trailing slashes and add `/api` unless it is already there."""
    stripped = url.rstrip("/")
    return stripped if stripped.endswith("/api") else f"{stripped}/api"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself, which no proxy can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
