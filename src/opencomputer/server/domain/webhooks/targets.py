"""Where webhooks may go: out to the internet, and not to what only this server can reach (section 3.16)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from opencomputer.server.domain.sessions.errors import DestinationForbidden

MAX_URL_LENGTH = 2048

_PLAIN = re.compile(r"[!-~]+")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")
_FORBIDDEN = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)
"""Also the networks that carry IPv4 inside IPv6: what is behind those addresses cannot be told from them."""


@dataclass(frozen=True)
class Target:
    """A URL taken apart. `host` has no brackets and no dot at its end; `path` has the query with it."""

    secure: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """As the header `Host` has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def target_of(url: str, *, insecure: bool = False) -> Target:
    """Take a destination's URL apart; with `insecure` it may be plain HTTP. Raises DestinationForbidden."""
    if len(url) > MAX_URL_LENGTH or not _PLAIN.fullmatch(url) or "\\" in url:
        raise _refused(f"must be at most {MAX_URL_LENGTH} visible ASCII characters, without backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refused("is no valid URL") from None
    if parts.scheme not in ("https", "http") or (parts.scheme == "http" and not insecure):
        raise _refused("must begin with https://")
    if "@" in parts.netloc:
        raise _refused("must not have a user or password in it")
    if "#" in url:
        raise _refused("must not have a fragment")
    host = parts.netloc[: -len(f":{port}")] if port is not None else parts.netloc.removesuffix(":")
    if not _HOST.fullmatch(host) or port == 0 or not host.strip("."):
        raise _refused("must have a host, and a port from 1 to 65535 if any")
    secure = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(secure, host.strip("[]").rstrip(".").lower(), port or (443 if secure else 80), path)


def is_forbidden(address: str) -> bool:
    """Whether this is an address that only machines near this server can be behind."""
    try:
        found = ip_address(address)
    except ValueError:
        return True
    if isinstance(found, IPv6Address):
        if found.scope_id is not None:
            return True
        found = found.ipv4_mapped or found
    return any(_in(found, network) for network in _FORBIDDEN)


def _in(address: IPv4Address | IPv6Address, network: object) -> bool:
    return address in network  # pyright: ignore[reportOperatorIssue] # false where versions differ


def _refused(why: str) -> DestinationForbidden:
    return DestinationForbidden(f"url {why}", field="url")
