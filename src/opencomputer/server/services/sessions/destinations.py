"""Destinations: where an organisation wants the events of a session sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.secrets import Keyring
from opencomputer.server.contracts.sessions import SessionTables
from opencomputer.server.contracts.webhooks import WebhookSender
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.secrets import Ciphertext
from opencomputer.server.domain.sessions.destinations import MOST_DESTINATIONS, Destination
from opencomputer.server.domain.sessions.events import Level
from opencomputer.server.domain.sessions.naming import new_destination_id
from opencomputer.server.domain.sessions.webhooks import SigningSecretPlace
from opencomputer.server.domain.webhooks.signing import rotated, usable
from opencomputer.wire.ids import DestinationId, OrgId, SessionId


@dataclass(frozen=True)
class WantedDestination:
    """A destination as it is asked for. `types` None or empty: all; `secret` None: nothing is signed."""

    url: str
    secret: str | None = None
    level: Level = Level.USER
    types: tuple[str, ...] | None = None
    include_raw: bool = False
    enabled: bool = True


@dataclass(frozen=True)
class DestinationChanges:
    """`named` tells what is to change; the rest counts for nothing."""

    named: frozenset[str]
    values: WantedDestination


class Destinations:
    """Of sessions of one organisation; those of others are NotFound."""

    def __init__(self, tables: SessionTables, sender: WebhookSender, keyring: Keyring, clock: Clock) -> None:
        self._tables = tables
        self._sender = sender
        self._keyring = keyring
        self._clock = clock

    async def create(self, org_id: OrgId, session_id: SessionId, wanted: WantedDestination) -> Destination:
        """It gets what comes after now. Raises DestinationForbidden, LimitReached, SessionArchived."""
        await self._check_session(org_id, session_id)
        await self._sender.check(wanted.url)
        now = self._clock.now()
        destination = Destination(
            id=new_destination_id(),
            session_id=session_id,
            url=wanted.url,
            level=wanted.level,
            types=wanted.types or None,
            include_raw=wanted.include_raw,
            enabled=wanted.enabled,
            secrets=(),
            created_after_seq=0,
            created_at=now,
            updated_at=now,
        )
        if wanted.secret is not None:
            destination = replace(destination, secrets=((self._sealed(destination, wanted.secret), None),))
        return await self._tables.destinations.add(destination, most=MOST_DESTINATIONS)

    async def list(self, org_id: OrgId, session_id: SessionId) -> Sequence[Destination]:
        await self._check_session(org_id, session_id)
        return await self._tables.destinations.list(session_id)

    async def get(self, org_id: OrgId, session_id: SessionId, destination_id: DestinationId) -> Destination:
        await self._check_session(org_id, session_id)
        found = await self._tables.destinations.get(session_id, destination_id)
        if found is None:
            raise NotFound("there is no such destination")
        return found

    async def update(
        self,
        org_id: OrgId,
        session_id: SessionId,
        destination_id: DestinationId,
        changes: DestinationChanges,
    ) -> Destination:
        """Change what is named. A secret that is replaced goes on signing beside the new one for a day.

        Raises DestinationForbidden.
        """
        present = await self.get(org_id, session_id, destination_id)
        if "url" in changes.named and changes.values.url != present.url:
            await self._sender.check(changes.values.url)

        def decide(destination: Destination) -> Destination:
            now = self._clock.now()
            if "secret" in changes.named:
                destination = self._rotated(destination, changes.values.secret, now)
            return _changed(destination, changes, now)

        after = await self._tables.destinations.change(session_id, destination_id, decide)
        if after is None:
            raise NotFound("there is no such destination")
        return after

    async def delete(self, org_id: OrgId, session_id: SessionId, destination_id: DestinationId) -> None:
        await self._check_session(org_id, session_id)
        if not await self._tables.destinations.delete(session_id, destination_id):
            raise NotFound("there is no such destination")

    async def _check_session(self, org_id: OrgId, session_id: SessionId) -> None:
        if await self._tables.sessions.get(org_id, session_id) is None:
            raise NotFound("there is no such session")

    def _sealed(self, destination: Destination, secret: str) -> Ciphertext:
        return self._keyring.encrypt(secret, SigningSecretPlace(destination.session_id, destination.id))

    def _rotated(self, destination: Destination, secret: str | None, now: datetime) -> Destination:
        if secret is None:
            return replace(destination, secrets=())
        sealed = self._sealed(destination, secret)
        return replace(destination, secrets=rotated(destination.secrets, sealed, now))


def _changed(destination: Destination, changes: DestinationChanges, now: datetime) -> Destination:
    """With what is named, but for the secret."""
    named, values = changes.named, changes.values
    return replace(
        destination,
        url=values.url if "url" in named else destination.url,
        level=values.level if "level" in named else destination.level,
        types=(values.types or None) if "types" in named else destination.types,
        include_raw=values.include_raw if "include_raw" in named else destination.include_raw,
        enabled=values.enabled if "enabled" in named else destination.enabled,
        updated_at=now,
    )


def signing_secrets(destination: Destination, keyring: Keyring, at: datetime) -> Sequence[str]:
    """What signs at this time, newest first. Raises SecretUnreadable."""
    place = SigningSecretPlace(destination.session_id, destination.id)
    return [keyring.decrypt(sealed, place) for sealed, _ in usable(destination.secrets, at)]
