"""A server's part that sends webhooks: real stores, a real keyring, and time that is set by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from opencomputer.server.domain.sessions.destinations import (
    Delivery,
    DeliveryFilter,
    Destination,
)
from opencomputer.server.domain.sessions.session import Session
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from opencomputer.server.services.sessions.deliveries import Deliveries, SessionMail
from opencomputer.server.services.sessions.destinations import (
    DestinationChanges,
    Destinations,
    WantedDestination,
)
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.services.webhooks.keeper import DeliveryKeeper, Postage
from opencomputer.server.stores.keyring.file import FileKeyring
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.sessions.stores import session_tables
from opencomputer.server.webhooks.sender import HttpWebhookSender
from tests.support import rows
from tests.support import session_rows as new
from tests.support.hand_clock import HandClock

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@dataclass
class World:
    """A server that sends webhooks; `sending` is its life, of which there may be several."""

    database: Database
    keyring: FileKeyring
    clock: HandClock = field(default_factory=HandClock)
    signals: ProcessSignals = field(default_factory=ProcessSignals)
    sender: HttpWebhookSender = field(default_factory=lambda: HttpWebhookSender(allow_private=True))

    def __post_init__(self) -> None:
        self.organisation = rows.organisation()
        self.tables = session_tables(self.database, self.signals)
        self.destinations = Destinations(self.tables, self.sender, self.keyring, self.clock)
        self.deliveries = Deliveries(self.tables, self.clock)

    async def session(self) -> Session:
        metadata = {"someKey": {"other_key": 1}}
        admission = new.admission(self.organisation.id, metadata=metadata)
        return (await self.tables.sessions.admit(admission)).session

    async def say(self, session: Session, text: str = "hi") -> None:
        await self.tables.sessions.accept(session.id, new.message(text), self.clock.now())

    async def registered(self, session: Session, url: str, secret: str | None = SECRET) -> Destination:
        wanted = WantedDestination(url=url, secret=secret)
        return await self.destinations.create(self.organisation.id, session.id, wanted)

    async def change(self, destination: Destination, **values: object) -> Destination:
        wanted = WantedDestination(**{"url": "", **values})  # pyright: ignore[reportArgumentType] # as named
        changes = DestinationChanges(frozenset(values), wanted)
        return await self.destinations.update(
            self.organisation.id, destination.session_id, destination.id, changes
        )

    async def list(self, session: Session) -> list[Delivery]:
        found = await self.deliveries.list(self.organisation.id, session.id, DeliveryFilter(), 100)
        return sorted(found, key=lambda each: each.event_seq)

    async def until(self, session: Session, status: DeliveryStatus, count: int = 1) -> list[Delivery]:
        async with asyncio.timeout(60):
            while True:
                found = [each for each in await self.list(session) if each.status is status]
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.01)

    async def attempted(self, session: Session, times: int) -> None:
        async with asyncio.timeout(60):
            while True:
                if (await self.list(session))[0].attempts >= times:
                    return
                await asyncio.sleep(0.01)

    def later(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.signals.delivery()

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[None]:
        postage = Postage(self.sender, self.signals.on_delivery, lambda: 0.5)
        mail = SessionMail(self.tables, self.keyring, self.clock)
        keeping = asyncio.create_task(DeliveryKeeper(mail, postage, self.clock).keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


@asynccontextmanager
async def webhook_world(folder: Path) -> AsyncGenerator[World]:
    async with AsyncExitStack() as stack:
        database = Database.sqlite(folder / "sessions.db")
        stack.push_async_callback(database.close)
        await database.open()
        world = World(database, FileKeyring.open_or_create(folder / "keyring.json"))
        stack.push_async_callback(world.sender.close)
        await SqlOrganisationStore(database).add(world.organisation)
        yield world
