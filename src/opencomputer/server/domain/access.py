"""Who is calling and what they may touch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from opencomputer.server.domain.errors import Forbidden
from opencomputer.wire.ids import ApiKeyId, OrgId, SandboxId


@dataclass(frozen=True)
class Organisation:
    id: OrgId
    name: str
    created_at: datetime


@dataclass(frozen=True)
class ApiKey:
    """A key as stored: its hash identifies it, its prefix is for people."""

    id: ApiKeyId
    org_id: OrgId
    name: str
    prefix: str
    hash: str
    created_at: datetime
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True)
class KeyCaller:
    """Full power over one organisation."""

    org_id: OrgId
    key_id: ApiKeyId


@dataclass(frozen=True)
class TokenCaller:
    """The data plane of one sandbox."""

    org_id: OrgId
    sandbox_id: SandboxId


Caller = KeyCaller | TokenCaller


def check_data_plane(caller: Caller, sandbox_id: SandboxId) -> None:
    """Raise Forbidden when a sandbox token is used on another sandbox."""
    if isinstance(caller, TokenCaller) and caller.sandbox_id != sandbox_id:
        raise Forbidden("this token belongs to another sandbox")
