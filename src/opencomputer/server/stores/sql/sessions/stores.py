"""All stores of durable sessions on one database."""

from __future__ import annotations

from opencomputer.server.contracts.sessions import SessionSignals, SessionTables
from opencomputer.server.contracts.starters import StarterTables
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.deliveries import SqlDeliveryStore
from opencomputer.server.stores.sql.sessions.destinations import SqlDestinationStore
from opencomputer.server.stores.sql.sessions.firings import SqlFiringStore
from opencomputer.server.stores.sql.sessions.hooks import SqlHookStore
from opencomputer.server.stores.sql.sessions.log import SqlEventLog
from opencomputer.server.stores.sql.sessions.schedules import SqlScheduleStore
from opencomputer.server.stores.sql.sessions.sessions import SqlSessionStore
from opencomputer.server.stores.sql.sessions.turns import SqlTurnStore


def session_tables(database: Database, signals: SessionSignals) -> SessionTables:
    """Every change tells `signals`, once it is committed."""
    return SessionTables(
        sessions=SqlSessionStore(database, signals),
        log=SqlEventLog(database),
        turns=SqlTurnStore(database, signals),
        destinations=SqlDestinationStore(database, signals),
        deliveries=SqlDeliveryStore(database, signals),
    )


def starter_tables(database: Database) -> StarterTables:
    return StarterTables(SqlScheduleStore(database), SqlFiringStore(database), SqlHookStore(database))
