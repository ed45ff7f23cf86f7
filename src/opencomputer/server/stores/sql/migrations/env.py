"""Alembic runs this for every upgrade, on the connection that `Database.open` hands over."""

from __future__ import annotations

from alembic import context

from opencomputer.server.stores.sql.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
