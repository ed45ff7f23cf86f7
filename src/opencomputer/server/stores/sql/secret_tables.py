"""The tables of secret stores, and of what sandboxes hold of them."""

from __future__ import annotations

import sqlalchemy as sa

from opencomputer.server.stores.sql.tables import Texts, UtcDateTime, metadata

secret_stores = sa.Table(
    "secret_stores",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("unique_name", sa.String),
    sa.Column("egress_allowlist", Texts, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.Column("deleted_at", UtcDateTime),
    sa.UniqueConstraint("org_id", "unique_name", name="uq_secret_stores_name"),
)
"""`unique_name` is the name until the store is deleted, and null from then on."""

secrets = sa.Table(
    "secrets",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("store_id", sa.String, sa.ForeignKey("secret_stores.id"), nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("key_version", sa.Integer, nullable=False),
    sa.Column("ciphertext", sa.LargeBinary, nullable=False),
    sa.Column("hosts", Texts, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.Column("deleted_at", UtcDateTime),
    sa.UniqueConstraint("store_id", "name", name="uq_secrets_name"),
)
"""One that was deleted stays, under its name, for the sandboxes that hold it."""

held_stores = sa.Table(
    "held_stores",
    metadata,
    sa.Column("sandbox_id", sa.String, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("store_id", sa.String, nullable=False, index=True),
)

seals = sa.Table(
    "seals",
    metadata,
    sa.Column("sandbox_id", sa.String, primary_key=True),
    sa.Column("token", sa.String, primary_key=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("secret_id", sa.String, index=True),
    sa.Column("inherited", sa.Boolean, nullable=False),
)
"""The tokens of sandboxes, and the names of what they stand for. Values are in `secrets` alone, encrypted."""
