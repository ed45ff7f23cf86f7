"""Who may do what with a durable session (agent-sessions.md section 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from opencomputer.server.domain.access import KeyCaller
from opencomputer.server.domain.errors import Forbidden, InvalidInput
from opencomputer.wire.ids import OrgId, SessionId

SHORTEST_TOKEN = timedelta(seconds=60)
LONGEST_TOKEN = timedelta(days=1)
USUAL_TOKEN = timedelta(hours=1)


class Scope(StrEnum):
    """What a client token is good for."""

    READ = "read"
    STEER = "steer"


EVERY_SCOPE = (Scope.READ, Scope.STEER)


@dataclass(frozen=True)
class ClientCaller:
    """Somebody with a client token: one session, until it expires, and of that only what its scopes say."""

    org_id: OrgId
    session_id: SessionId
    scopes: frozenset[Scope]
    expires_at: datetime


SessionCaller = KeyCaller | ClientCaller


def check_session(caller: SessionCaller, session_id: str, scope: Scope) -> None:
    """Raise Forbidden when the caller's token is for another session, or does not include `scope`."""
    if isinstance(caller, KeyCaller):
        return
    if caller.session_id != session_id:
        raise Forbidden("this client token belongs to another session")
    if scope not in caller.scopes:
        raise Forbidden(f"this client token does not have the scope {scope}")


@dataclass(frozen=True)
class TokenRequest:
    """What a client token is to be good for, and for how long."""

    scopes: tuple[Scope, ...] = EVERY_SCOPE
    life: timedelta = USUAL_TOKEN


def token_request(scopes: Sequence[str] | None, ttl_seconds: int | None) -> TokenRequest:
    """What was asked for, checked; None is the usual. Raises InvalidInput naming `scopes` or `ttl`."""
    return TokenRequest(_scopes(scopes), _life(ttl_seconds))


def _scopes(scopes: Sequence[str] | None) -> tuple[Scope, ...]:
    if scopes is None:
        return EVERY_SCOPE
    allowed = ", ".join(Scope)
    if not scopes:
        raise InvalidInput(f"scopes must name at least one of {allowed}", field="scopes")
    for scope in scopes:
        if scope not in tuple(Scope):
            raise InvalidInput(f"scopes: {scope[:40]!r} is none of {allowed}", field="scopes")
    return tuple(scope for scope in Scope if scope in scopes)


def _life(ttl_seconds: int | None) -> timedelta:
    if ttl_seconds is None:
        return USUAL_TOKEN
    shortest, longest = SHORTEST_TOKEN.total_seconds(), LONGEST_TOKEN.total_seconds()
    if not shortest <= ttl_seconds <= longest:
        raise InvalidInput(f"ttl must be between {shortest:.0f} and {longest:.0f} seconds", field="ttl")
    return timedelta(seconds=ttl_seconds)
