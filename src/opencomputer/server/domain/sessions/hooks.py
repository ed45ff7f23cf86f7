"""Hooks: secret URLs at which whoever knows one may start sessions (agent-sessions.md section 3.3)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.sessions.events import HTTP_REQUEST, Actor, Level, NewEvent
from opencomputer.wire.ids import AgentId, HookId, OrgId

MOST_HOOKS = 20
MAX_BODY_BYTES = 24 << 10
MOST_PER_MINUTE = 60
_SOURCE = "http"
_HTTP = Actor("system", "http", display="HTTP")


class HookStatus(StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class RevokedReason(StrEnum):
    MANUAL = "manual"
    SECRET_EXPOSURE = "secret_exposure"


@dataclass(frozen=True)
class Hook:
    """`token_hash` is all that is kept of its token, but for the `secret_last4` to know it by."""

    id: HookId
    org_id: OrgId
    agent_id: AgentId
    name: str
    token_hash: str
    secret_last4: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_reason: RevokedReason | None = None

    def status(self, at: datetime) -> HookStatus:
        if self.revoked_at is not None:
            return HookStatus.REVOKED
        if self.expires_at is not None and self.expires_at <= at:
            return HookStatus.EXPIRED
        return HookStatus.ACTIVE


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def check_expiry(expires_at: datetime | None, now: datetime) -> datetime | None:
    """Raises InvalidInput for what is not in the future."""
    if expires_at is not None and expires_at <= now:
        raise InvalidInput("expires_at must be in the future", field="expires_at")
    return expires_at


def http_request(payload: Any, hook: Hook | None = None) -> NewEvent:
    """The event of what a program sent: to this hook, or else to the agent's own URL."""
    actor = _HTTP if hook is None else Actor("trigger", hook.id, display=hook.name)
    return NewEvent(HTTP_REQUEST, Level.USER, {"payload": payload}, actor, source=_SOURCE)


def idempotency_key(agent_id: AgentId, key: str | None) -> str | None:
    """A sender's key, which counts for one agent. It is none that anybody else can send."""
    return None if key is None else f"{agent_id}\n{key}"
