"""Alembic runs this for every upgrade, on the connection that `Database.open` hands over."""

from __future__ import annotations

from alembic import context

from opencomputer.server.stores.sql.image_tables import images

context.configure(connection=context.config.attributes["connection"], target_metadata=images.metadata)
context.run_migrations()
