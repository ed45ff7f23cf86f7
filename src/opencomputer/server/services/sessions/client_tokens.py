"""Tokens for browsers and other programs that may see, or steer, exactly one session."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

import jwt

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.domain.errors import Unauthenticated
from opencomputer.server.domain.sessions.access import ClientCaller, Scope, TokenRequest
from opencomputer.wire.ids import OrgId, SessionId

_AUDIENCE = "oc-session"
_ALGORITHM = "HS256"
_CLAIMS = ["sub", "own", "scp", "iat", "exp", "jti", "aud"]


@dataclass(frozen=True)
class ClientToken:
    """A token as it is shown once; the server keeps none."""

    secret: str
    scopes: tuple[Scope, ...]
    expires_at: datetime


class ClientTokens:
    """Makes and reads them. They are signed, not stored: what is in one holds until it expires."""

    def __init__(self, secret: bytes, clock: Clock) -> None:
        self._secret = secret
        self._clock = clock

    def mint(self, org_id: OrgId, session_id: SessionId, wanted: TokenRequest) -> ClientToken:
        """A token for a session that the caller has shown to be of this organisation."""
        now = self._clock.now().replace(microsecond=0)
        expires = now + wanted.life
        claims = {
            "sub": session_id,
            "own": org_id,
            "scp": list(wanted.scopes),
            "iat": int(now.timestamp()),
            "exp": int(expires.timestamp()),
            "jti": secrets.token_hex(12),
            "aud": _AUDIENCE,
        }
        return ClientToken(jwt.encode(claims, self._secret, _ALGORITHM), wanted.scopes, expires)

    def read(self, token: str) -> ClientCaller:
        """Who has this token. Raises Unauthenticated unless we made it and it still holds."""
        try:
            claims = jwt.decode(
                token,
                self._secret,
                algorithms=[_ALGORITHM],
                audience=_AUDIENCE,
                options={"require": _CLAIMS, "verify_exp": False, "verify_iat": False},
            )
            expires_at = datetime.fromtimestamp(claims["exp"], UTC)
            scopes = frozenset(Scope(scope) for scope in claims["scp"])
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
            raise Unauthenticated("this client token is not valid") from error
        if expires_at <= self._clock.now():
            raise Unauthenticated("this client token has expired")
        return ClientCaller(OrgId(claims["own"]), SessionId(claims["sub"]), scopes, expires_at)
