"""Preview URLs: their host names, their records, and what lets somebody in (behaviour section 26). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.wire.ids import GrantId, OrgId, PreviewId, SandboxId

LEAST_TOKEN = 16
_HOST = re.compile(r"([a-z0-9.-]+?)\.?(?::[0-9]{1,5})?")
_LABEL = re.compile(r"(sb-[a-z0-9-]+)-p([0-9]{1,5})")
_TOKEN = re.compile(r"[!-~]{16,512}")


@dataclass(frozen=True)
class PreviewAddress:
    """What the host name of a preview says: a port of a sandbox, under one of our domains."""

    sandbox_id: SandboxId
    port: int
    domain: str

    @property
    def host(self) -> str:
        return f"{self.sandbox_id}-p{self.port}.{self.domain}"


def parse_host(host: str) -> PreviewAddress | None:
    """The preview that a Host header names. None: it is not the name of a preview, under whatever domain.

    The port may be none that exists, and the domain anybody's."""
    name = _HOST.fullmatch(host.lower())
    label, _, domain = (name[1] if name else "").partition(".")
    parts = _LABEL.fullmatch(label)
    return PreviewAddress(SandboxId(parts[1]), int(parts[2]), domain) if parts else None


def check_port(port: int) -> int:
    if not 1 <= port <= 65535:
        raise InvalidInput("port must be a whole number from 1 to 65535", field="port")
    return port


def wanted_token(wish: object) -> str | None:
    """The token that a create asks for by `previewAuth`; None: one is to be made.

    Raises InvalidInput."""
    if not isinstance(wish, Mapping):
        raise InvalidInput("previewAuth must be an object with scheme and token", field="previewAuth")
    fields: Mapping[object, object] = wish  # pyright: ignore[reportUnknownVariableType]  # each is checked
    if fields.get("scheme") not in (None, "", "bearer"):
        raise InvalidInput("previewAuth.scheme must be bearer", field="previewAuth.scheme")
    token = fields.get("token")
    if token in (None, "", "auto"):
        return None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise InvalidInput(
            f"previewAuth.token must be auto, or {LEAST_TOKEN} to 512 ASCII characters without spaces",
            field="previewAuth.token",
        )
    return token


@dataclass(frozen=True)
class Preview:
    """The record of a port: for lists and for names under a domain of the organisation's own. Without one the
    port is reached all the same."""

    id: PreviewId
    sandbox_id: SandboxId
    org_id: OrgId
    port: int
    domain: str | None
    created_at: datetime


@dataclass(frozen=True)
class Grant:
    """Lets whoever has its token in to one port of one sandbox until it expires. Only its hash is kept."""

    id: GrantId
    sandbox_id: SandboxId
    org_id: OrgId
    port: int
    token_hash: str
    created_at: datetime
    expires_at: datetime

    def opens(self, address: PreviewAddress, now: datetime) -> bool:
        return self.sandbox_id == address.sandbox_id and self.port == address.port and now < self.expires_at


@dataclass(frozen=True)
class Presented:
    """What a visitor has shown. `header` is X-OC-Preview-Token, `bearer` the Authorization header, `link` the
    token in a grant's URL, `cookies` those which earlier visits left."""

    header: str | None = None
    bearer: str | None = None
    link: str | None = None
    cookies: tuple[str, ...] = ()


@dataclass(frozen=True)
class PreviewDomains:
    """Under which names sandboxes are reached: the server's own domain, and those that the operator has
    verified for an organisation, or, with None, for all."""

    server: str
    own: Mapping[str, str | None] = field(default_factory=dict[str, str | None])

    def permits(self, domain: str, org_id: OrgId) -> bool:
        """Whether an organisation may use one of the verified domains."""
        return domain in self.own and self.own[domain] in (None, org_id)
