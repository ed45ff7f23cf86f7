"""Transactions that tell those who wait in this process what they changed, once it is committed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from opencomputer.server.contracts.sessions import SessionSignals
from opencomputer.server.domain.sessions.session import SessionStatus
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.appending import OpenSession, open_session
from opencomputer.wire.ids import SessionId


class SessionWriter:
    """Opens sessions for a change."""

    def __init__(self, database: Database, signals: SessionSignals) -> None:
        self.database = database
        self.signals = signals

    @asynccontextmanager
    async def open(self, session_id: SessionId) -> AsyncGenerator[OpenSession]:
        """One transaction with the session locked. Raises NotFound."""
        async with self.database.write() as connection:
            opened = await open_session(connection, session_id)
            yield opened
        self.tell(opened)

    def tell(self, opened: OpenSession) -> None:
        if opened.appended:
            self.signals.appended(opened.id, opened.appended)
        if opened.fold.status is SessionStatus.QUEUED and opened.row.status != SessionStatus.QUEUED:
            self.signals.queued(opened.id)
        if opened.delivering:
            self.signals.delivery()
