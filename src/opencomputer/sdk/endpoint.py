"""Where the server is and which key to show it."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass

DEFAULT_API_URL = "https://app.opencomputer.dev"
DEFAULT_BROWSER_API_URL = "https://browser.opencomputer.dev"
DEFAULT_HOSTED_AGENTS_URL = "https://api.opencomputer.dev"


class InvalidKeyError(ValueError):
    """The API key has a character in it that keys do not have; most often one was copied along with it."""

    def __init__(self, character: str) -> None:
        super().__init__(f"the API key has {character!r} in it, which no key has")


@dataclass(frozen=True)
class Endpoint:
    """A server, or a part of one: `base` is the root of all its paths."""

    base: str
    api_key: str

    def __post_init__(self) -> None:
        check_key(self.api_key)

    @classmethod
    def resolve(cls, api_key: str | None = None, api_url: str | None = None) -> Endpoint:
        """The control plane, whose root ends in `/api`.

        Each value is taken from its argument, else from the environment, else it is the default. The
        variables are `OPENCOMPUTER_API_KEY` and `OPENCOMPUTER_API_URL`. No key is not an error here: requests
        then go out without one, and the server answers that one is needed.
        """
        url = api_url or os.environ.get("OPENCOMPUTER_API_URL") or DEFAULT_API_URL
        return cls(base=api_base(url), api_key=_key(api_key))

    @classmethod
    def of_browsers(cls, api_key: str | None = None, api_url: str | None = None) -> Endpoint:
        """Browsers have an origin of their own, `OPENCOMPUTER_BROWSER_API_URL`.

        Where only `OPENCOMPUTER_API_URL` is set, it is that server's: a key must not go to anybody else's.
        """
        url = api_url or os.environ.get("OPENCOMPUTER_BROWSER_API_URL") or _own_root(DEFAULT_BROWSER_API_URL)
        return cls(base=url.rstrip("/"), api_key=_key(api_key))

    @classmethod
    def of_hosted_agents(cls, api_key: str | None = None, base_url: str | None = None) -> Endpoint:
        """Hosted agents are below the root of the same server, in `/v1`."""
        root = (base_url or _own_root(DEFAULT_HOSTED_AGENTS_URL)).rstrip("/").removesuffix("/v1")
        return cls(base=f"{root}/v1", api_key=_key(api_key))


def check_key(key: str) -> None:
    """Raise `InvalidKeyError` for a key that no request can carry, such as one with a line's end in it."""
    for character in key:
        if not "!" <= character <= "~":
            raise InvalidKeyError(character)


def _key(given: str | None) -> str:
    return given or os.environ.get("OPENCOMPUTER_API_KEY") or ""


def _own_root(default: str) -> str:
    return (os.environ.get("OPENCOMPUTER_API_URL") or default).rstrip("/").removesuffix("/api")


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
