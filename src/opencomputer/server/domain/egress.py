"""What a sandbox may reach: modes, host patterns, and the rules of one sandbox (behaviour sections 22–24)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.wire.ids import OrgId, SandboxId

METADATA_ADDRESS = "169.254.169.254"
METADATA_URL = f"http://{METADATA_ADDRESS}"
RESOLVER_ADDRESS = "169.254.169.253"
PROXY_ADDRESS = "169.254.169.252"
PROXY_PORT = 3128
"""Where programs that know of proxies find it: the same in every machine, wherever that runs."""

SYSTEM_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
"""What is trusted in a machine: the public authorities, and the proxy's own."""

_BUNDLE_VARIABLES: tuple[str, ...] = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
)

_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_PATTERN = re.compile(rf"\*|(\*\.)?{_LABEL}(\.{_LABEL})*\.?")
_MAX_NAME = 253


class EgressMode(StrEnum):
    """How much of the way out is left open. The packet filter enforces it, whatever programs inside do."""

    OPEN = "open"
    """Everything public, straight out."""
    WATCHED = "watched"
    """As open, but TCP goes through the proxy, which may put secrets in; QUIC is refused, so that it can."""
    RESTRICTED = "restricted"
    """TCP to permitted hosts, through the proxy; names of permitted hosts; nothing else."""
    CLOSED = "closed"
    """Nothing."""


@dataclass(frozen=True)
class SealedSecret:
    """One secret as a sandbox has it: the machine knows `token`, hosts that it may be sent to get `value`.

    `hosts` empty: wherever the sandbox may connect to.
    """

    name: str
    token: str
    value: str = field(repr=False)
    hosts: tuple[str, ...] = ()

    def permits(self, host: str) -> bool:
        return not self.hosts or matches_any(self.hosts, host)


@dataclass(frozen=True)
class EgressRules:
    """What one sandbox may reach, and with which secrets. `allowlist` empty: any public host.

    `secrets` may have several tokens of one name: a fork also answers to those its memory was copied with.
    """

    org_id: OrgId
    sandbox_id: SandboxId
    network_enabled: bool = True
    allowlist: tuple[str, ...] = ()
    secrets: tuple[SealedSecret, ...] = ()

    @property
    def mode(self) -> EgressMode:
        if not self.network_enabled:
            return EgressMode.CLOSED
        if self.allowlist:
            return EgressMode.RESTRICTED
        return EgressMode.WATCHED if self.secrets else EgressMode.OPEN

    def permits(self, host: str) -> bool:
        """Whether a connection to this host may be made, as far as its name decides that."""
        return self.network_enabled and (not self.allowlist or matches_any(self.allowlist, host))

    def secrets_for(self, host: str) -> tuple[SealedSecret, ...]:
        """Those whose values this host may be sent: allowlist and the secret's own hosts must both permit."""
        if not self.permits(host):
            return ()
        return tuple(secret for secret in self.secrets if secret.permits(host))


def normal_host(host: str) -> str:
    return host.lower().removesuffix(".")


def matches(pattern: str, host: str) -> bool:
    """`*` is every host, `*.example.com` all below example.com but not itself; case and a final dot do not
    count. Ports are no part of patterns."""
    pattern, host = normal_host(pattern), normal_host(host)
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern


def matches_any(patterns: Iterable[str], host: str) -> bool:
    return any(matches(pattern, host) for pattern in patterns)


def check_patterns(patterns: Iterable[str], field: str) -> tuple[str, ...]:
    """The patterns in their normal form, each once. Raises InvalidInput."""
    checked: dict[str, None] = {}
    for pattern in patterns:
        if len(pattern) > _MAX_NAME or not _PATTERN.fullmatch(pattern.lower()):
            raise InvalidInput(
                f"{field}: {pattern!r} is not a host name, *.suffix or * (without scheme, port or path)",
                field=field,
            )
        checked[normal_host(pattern)] = None
    return tuple(checked)


def proxy_environment() -> dict[str, str]:
    """What programs in a machine are told where its TCP goes through the proxy anyway (section 22.4).

    Certificates are looked for in the combined bundle, so that connections which are only passed on work too.
    """
    variables = dict.fromkeys(_BUNDLE_VARIABLES, SYSTEM_BUNDLE)
    variables["NODE_USE_ENV_PROXY"] = "1"
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        variables[name] = variables[name.lower()] = f"http://{PROXY_ADDRESS}:{PROXY_PORT}"
    variables["NO_PROXY"] = variables["no_proxy"] = f"localhost,127.0.0.1,::1,{METADATA_ADDRESS}"
    return variables
