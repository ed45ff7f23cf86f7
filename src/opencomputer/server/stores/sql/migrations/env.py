"""Alembic runs this for every upgrade, on the connection that `Database.open` hands over."""

from __future__ import annotations

from alembic import context

from opencomputer.server.stores.sql.image_tables import images
from opencomputer.server.stores.sql.login_tables import device_logins
from opencomputer.server.stores.sql.preview_tables import previews
from opencomputer.server.stores.sql.sessions.agent_tables import agents
from opencomputer.server.stores.sql.sessions.schema import sessions
from opencomputer.server.stores.sql.tag_tables import tags
from opencomputer.server.stores.sql.usage_tables import usage_intervals
from opencomputer.server.stores.sql.webhook_tables import webhooks

# All tables are described in one place.
assert images.metadata is previews.metadata is sessions.metadata is agents.metadata
assert images.metadata is device_logins.metadata is tags.metadata
assert images.metadata is usage_intervals.metadata is webhooks.metadata
context.configure(connection=context.config.attributes["connection"], target_metadata=previews.metadata)
context.run_migrations()
