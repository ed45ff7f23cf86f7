"""What comes before a database is migrated: is it one that this program knows, and a copy of it as it is."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.contracts.stores import DatabaseUnusable
from opencomputer.server.stores.sql.copies import copy_database, known_schemas, schema_of_file


@dataclass(frozen=True)
class Upgrade:
    """From `schema` to `newest`; `copy` is the database as it was before."""

    schema: str
    newest: str
    copy: Path


def copy_before(database: Path, newest: str) -> Path:
    """Where a database is kept as it was before it was brought to this version."""
    return database.with_name(f"{database.stem}.before-{newest}{database.suffix}")


def cause(error: Exception) -> str:
    """What the database said, without the statement that it said it of."""
    return str(getattr(error, "orig", None) or error).partition("\n")[0]


def prepare_upgrade(database: Path) -> Upgrade | None:
    """Copy a database that is about to be migrated; None when it is new, or needs nothing.

    Raises DatabaseUnusable for one of a newer program, and for what is no database. Blocks.
    """
    try:
        schema = schema_of_file(database)
    except sqlite3.Error as error:
        raise DatabaseUnusable(f"{database} cannot be read as a database: {error}") from error
    known = known_schemas()
    if not schema or schema == known[-1]:
        return None
    if schema not in known:
        raise DatabaseUnusable(
            f"{database} has version {schema}, and this program knows versions up to {known[-1]}: a newer "
            "OpenComputer has used it. Start that version, or restore a backup from before the upgrade"
        )
    copy = copy_before(database, known[-1])
    draft = copy.with_name(f".{copy.name}")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    try:
        copy_database(database, draft)
    except sqlite3.Error as error:
        draft.unlink(missing_ok=True)
        raise DatabaseUnusable(f"{database} cannot be copied before it is upgraded: {error}") from error
    draft.replace(copy)
    return Upgrade(schema, known[-1], copy)
