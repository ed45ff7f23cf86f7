"""Logins by device flow: a client asks, somebody with a key approves, the client gets a key of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.device_logins import DeviceLoginStore
from opencomputer.server.domain import device_login as codes
from opencomputer.server.domain.access import KeyCaller
from opencomputer.server.domain.device_login import Attempts, DeviceLogin, LoginState
from opencomputer.server.domain.errors import (
    AuthorizationDenied,
    AuthorizationExpired,
    Forbidden,
    NotFound,
    RateLimited,
    Unauthenticated,
)
from opencomputer.server.domain.naming import secret_hash
from opencomputer.server.services.access import Access, NewKey

_PURPOSE = "device login"
_WINDOW = timedelta(minutes=10)
_STARTS_PER_ADDRESS = 30
_WRONG_KEYS_PER_ADDRESS = 20
_WRONG_CODES_PER_ORGANISATION = 10


@dataclass(frozen=True)
class StartedLogin:
    """Both codes, as only the client that asked ever sees them."""

    device_code: str = field(repr=False)
    user_code: str = field(repr=False)


class DeviceLogins:
    """Codes live for ten minutes and are good once. Whoever approves one lets its client into their
    organisation, for good: with a key that is listed and revoked like any other.
    """

    def __init__(self, store: DeviceLoginStore, access: Access, clock: Clock) -> None:
        self._store = store
        self._access = access
        self._clock = clock
        self._starts = Attempts(_STARTS_PER_ADDRESS, _WINDOW)
        self._wrong_keys = Attempts(_WRONG_KEYS_PER_ADDRESS, _WINDOW)
        self._wrong_codes = Attempts(_WRONG_CODES_PER_ORGANISATION, _WINDOW)

    async def begin(self, requested_from: str) -> StartedLogin:
        """Raises RateLimited where an address asks too often, or too many wait."""
        now = self._clock.now()
        if self._starts.exhausted(requested_from, now):
            raise RateLimited
        self._starts.note(requested_from, now)
        started = StartedLogin(codes.new_device_code(), codes.new_user_code())
        login = DeviceLogin(
            device_hash=secret_hash(started.device_code),
            user_code_hash=self._code_hash(started.user_code),
            state=LoginState.WAITING,
            requested_from=requested_from,
            created_at=now,
            expires_at=now + codes.LIFE,
        )
        if not await self._store.add(login, most=codes.MOST_WAITING):
            raise RateLimited
        return started

    async def approver(self, key: str, address: str) -> KeyCaller:
        """Who a key belongs to that somebody typed. Raises Unauthenticated, Forbidden, RateLimited."""
        now = self._clock.now()
        if self._wrong_keys.exhausted(address, now):
            raise RateLimited
        try:
            caller = await self._access.authenticate(key)
        except Unauthenticated:
            self._wrong_keys.note(address, now)
            raise
        if not isinstance(caller, KeyCaller):
            raise Forbidden("a sandbox token does not permit this; use an API key")
        return caller

    async def decide(self, caller: KeyCaller, user_code: str, *, approve: bool) -> DeviceLogin:
        """Let the client with this code in, or refuse it. Raises NotFound, RateLimited."""
        now = self._clock.now()
        if self._wrong_codes.exhausted(caller.org_id, now):
            raise RateLimited
        state = LoginState.APPROVED if approve else LoginState.DENIED
        decider = (caller.org_id, caller.key_id)
        decided = await self._store.decide(self._code_hash(user_code), state, decider, now)
        if decided is None:
            self._wrong_codes.note(caller.org_id, now)
            raise NotFound("no login waits with this code; it may have expired, or was used already")
        return decided

    async def exchange(self, device_code: str, name: str) -> NewKey | None:
        """The client's key, once it is approved; None while nobody has decided.

        Raises AuthorizationExpired and AuthorizationDenied."""
        login = await self._store.take(secret_hash(device_code), self._clock.now())
        if login is None:
            raise AuthorizationExpired
        if login.state is LoginState.WAITING:
            return None
        if login.state is LoginState.DENIED or login.org_id is None or login.approved_by is None:
            raise AuthorizationDenied
        if not await self._access.is_valid(KeyCaller(login.org_id, login.approved_by)):
            raise AuthorizationDenied("the key that approved this login was revoked")
        return await self._access.create_key(login.org_id, name)

    def _code_hash(self, user_code: str) -> str:
        # With a secret of ours: a plain hash of so short a code would tell it to whoever has the table.
        return self._access.derived_token(_PURPOSE, codes.plain_user_code(user_code))
