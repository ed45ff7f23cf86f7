"""Credentials: who is calling, and the keys an organisation holds."""

from __future__ import annotations

import asyncio
import base64
import hmac
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import jwt

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.stores import ApiKeyStore, OrganisationStore
from opencomputer.server.domain import naming
from opencomputer.server.domain.access import ApiKey, Caller, KeyCaller, Organisation, TokenCaller
from opencomputer.server.domain.errors import InvalidInput, NotFound, Unauthenticated
from opencomputer.wire.ids import ApiKeyId, OrgId, SandboxId

TOKEN_LIFE = timedelta(hours=24)
_CACHE_SECONDS = 1.0
_USED_RESOLUTION = timedelta(minutes=1)
_CACHE_SIZE = 10_000
_LOOK_AGAIN_SECONDS = 5.0


@dataclass(frozen=True)
class NewKey:
    """A key as it is shown once, with its record."""

    secret: str
    record: ApiKey


@dataclass
class _CachedKey:
    key: ApiKey
    valid_until: float


class Access:
    """Authenticates callers and manages keys.

    A revoked key stops working with the very next request; streams that were opened with it end through
    `until_revoked`.
    """

    def __init__(
        self, organisations: OrganisationStore, keys: ApiKeyStore, clock: Clock, token_secret: bytes
    ) -> None:
        self._organisations = organisations
        self._keys = keys
        self._clock = clock
        self._token_secret = token_secret
        self._cache: dict[str, _CachedKey] = {}
        self._revocations: dict[ApiKeyId, asyncio.Event] = {}
        self._look_again: dict[ApiKeyId, float] = {}

    async def authenticate(self, credential: str | None) -> Caller:
        """Accept an API key or a sandbox token. Raises Unauthenticated for anything else."""
        if not credential:
            raise Unauthenticated
        if credential.startswith(naming.API_KEY_PREFIX):
            return await self._by_key(credential)
        return self._by_token(credential)

    async def _by_key(self, secret: str) -> KeyCaller:
        key_hash = naming.secret_hash(secret)
        cached = self._cache.get(key_hash)
        if cached is None or cached.valid_until < self._clock.monotonic():
            key = await self._keys.by_hash(key_hash)
            if key is None or key.revoked_at is not None:
                self._cache.pop(key_hash, None)
                raise Unauthenticated
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            await self._note_use(key)
            cached = _CachedKey(key, self._clock.monotonic() + _CACHE_SECONDS)
            self._cache[key_hash] = cached
        return KeyCaller(cached.key.org_id, cached.key.id)

    async def _note_use(self, key: ApiKey) -> None:
        now = self._clock.now()
        if key.last_used_at is None or now - key.last_used_at > _USED_RESOLUTION:
            await self._keys.used(key.id, now)

    def _by_token(self, token: str) -> TokenCaller:
        try:
            claims = jwt.decode(
                token,
                self._token_secret,
                algorithms=["HS256"],
                options={"require": ["exp", "org_id", "sandbox_id"], "verify_exp": False},
            )
            expires = float(claims["exp"])
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise Unauthenticated from error
        if not expires > self._clock.now().timestamp():
            raise Unauthenticated("this sandbox token has expired")
        return TokenCaller(OrgId(str(claims["org_id"])), SandboxId(str(claims["sandbox_id"])))

    def sandbox_token(self, org_id: OrgId, sandbox_id: SandboxId) -> str:
        """A token for the data plane of one sandbox. URL-safe without escaping."""
        expires = self._clock.now() + TOKEN_LIFE
        claims = {
            "org_id": org_id,
            "sandbox_id": sandbox_id,
            "sub": sandbox_id,
            "exp": int(expires.timestamp()),
        }
        return jwt.encode(claims, self._token_secret, algorithm="HS256")

    def derived_token(self, purpose: str, *parts: str) -> str:
        """The same secret for the same words, and nobody who does not know ours can tell it."""
        words = "\0".join([purpose, *parts]).encode()
        digest = hmac.digest(self._token_secret, words, "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    async def until_revoked(self, caller: Caller) -> None:
        """Return when the caller's credential has stopped being valid; for streams that stay open."""
        if isinstance(caller, TokenCaller):
            # A token ends with its sandbox, and the sandbox's end closes the stream.
            await asyncio.Event().wait()
            return
        event = self._revocations.setdefault(caller.key_id, asyncio.Event())
        while not event.is_set():
            # Another process may revoke too, so the row is looked at again from time to time: by one of a
            # key's streams for all of them.
            if self._clock.monotonic() >= self._look_again.get(caller.key_id, 0.0):
                self._look_again[caller.key_id] = self._clock.monotonic() + _LOOK_AGAIN_SECONDS
                if await self._is_revoked(caller):
                    event.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                    await event.wait()

    async def _is_revoked(self, caller: KeyCaller) -> bool:
        keys = await self._keys.list(caller.org_id)
        return not any(key.id == caller.key_id and key.revoked_at is None for key in keys)

    async def is_valid(self, caller: KeyCaller) -> bool:
        """Whether this key is there and not revoked."""
        return not await self._is_revoked(caller)

    async def create_organisation(self, name: str, first_key: str | None = None) -> NewKey:
        """Add an organisation with its first key. `first_key` fixes the secret."""
        if not name.strip():
            raise InvalidInput("name must not be empty", field="name")
        if first_key is not None and not naming.is_api_key(first_key):
            raise InvalidInput("an API key is osb_ followed by 64 lower-case hex digits", field="api key")
        organisation = Organisation(naming.new_org_id(), name, self._clock.now())
        await self._organisations.add(organisation)
        return await self._add_key(organisation.id, "first key", first_key or naming.new_api_key())

    async def create_key(self, org_id: OrgId, name: str) -> NewKey:
        return await self._add_key(org_id, name, naming.new_api_key())

    async def _add_key(self, org_id: OrgId, name: str, secret: str) -> NewKey:
        record = ApiKey(
            id=naming.new_api_key_id(),
            org_id=org_id,
            name=name,
            prefix=naming.shown_prefix(secret),
            hash=naming.secret_hash(secret),
            created_at=self._clock.now(),
        )
        await self._keys.add(record)
        return NewKey(secret, record)

    async def list_keys(self, org_id: OrgId) -> Sequence[ApiKey]:
        return await self._keys.list(org_id)

    async def revoke_key(self, org_id: OrgId, key_id: ApiKeyId) -> None:
        if not await self._keys.revoke(org_id, key_id, self._clock.now()):
            raise NotFound("there is no such API key")
        self._cache = {digest: entry for digest, entry in self._cache.items() if entry.key.id != key_id}
        self._revocations.setdefault(key_id, asyncio.Event()).set()

    async def organisation(self, org_id: OrgId) -> Organisation:
        organisation = await self._organisations.get(org_id)
        if organisation is None:
            raise NotFound
        return organisation

    async def has_organisations(self) -> bool:
        return await self._organisations.count() > 0
