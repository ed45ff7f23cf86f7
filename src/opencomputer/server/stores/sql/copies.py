"""A node's database as a file: copied while others write to it, looked at, and freed of its machines."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory

from opencomputer.server.domain.layers import LayerId, MemoryId
from opencomputer.server.domain.sandbox import SandboxState
from opencomputer.server.domain.snapshot import SnapshotState

_MIGRATIONS = Path(__file__).parent / "migrations"
_BUSY_SECONDS = 30.0
_ASLEEP = (SandboxState.HIBERNATED, SandboxState.HIBERNATING, SandboxState.WAKING)

_AWAKE = (SandboxState.RUNNING, SandboxState.RESTORING, SandboxState.REBOOTING)


@dataclass(frozen=True)
class CopyFacts:
    """What a copy needs besides itself: of its layers and memory images, and of builds of templates."""

    schema: str
    layers: frozenset[LayerId]
    memories: frozenset[MemoryId]
    templates: frozenset[tuple[str, str]]
    counts: Mapping[str, int]


def copy_database(source: Path, target: Path) -> None:
    """A consistent copy, whoever writes meanwhile; nobody waits for it. Raises sqlite3.Error."""
    with closing(_connect(source)) as original, closing(sqlite3.connect(target)) as made:
        original.backup(made)
        # One file: nothing of it may be in another beside it.
        made.execute("PRAGMA journal_mode=DELETE")


def problems_of(database: Path, *, quick: bool = False) -> Sequence[str]:
    """What SQLite finds wrong with a database; nothing when it is sound."""
    try:
        with closing(_connect(database)) as connection:
            check = "quick_check" if quick else "integrity_check"
            found = [str(row[0]) for row in connection.execute(f"PRAGMA {check}")]
            orphans = list(connection.execute("PRAGMA foreign_key_check"))
    except (sqlite3.Error, UnicodeError) as error:
        # SQLite repeats the damaged text in its own words, and those must be read as well.
        return [str(error)]
    problems = [] if found == ["ok"] else found
    return [*problems, *(f"a row of {row[0]} refers to no row of {row[2]}" for row in orphans)]


def facts_of(database: Path) -> CopyFacts:
    """Of a database of any version that this program knows. Raises sqlite3.Error."""
    with closing(_connect(database)) as connection:
        rows = [
            *_rows(connection, "snapshots", [SnapshotState.READY]),
            *_rows(connection, "sandboxes", _ASLEEP),
        ]
        return CopyFacts(
            schema=schema_of(connection),
            layers=frozenset(LayerId(layer) for layers, *_ in rows for layer in json.loads(layers or "[]")),
            memories=frozenset(MemoryId(memory) for _, memory, *_ in rows if memory is not None),
            templates=frozenset((name, hash) for *_, name, hash in rows),
            counts=_counts(connection),
        )


def schema_of(connection: sqlite3.Connection) -> str:
    """The newest migration that a database has seen; empty when it has none."""
    if "alembic_version" not in _tables(connection):
        return ""
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return "" if row is None else str(row[0])


def schema_of_file(database: Path) -> str:
    """As `schema_of`. Raises sqlite3.Error."""
    with closing(_connect(database)) as connection:
        return schema_of(connection)


def known_schemas() -> Sequence[str]:
    """Oldest first."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]


def forget_machines(database: Path) -> int:
    """Machines are processes of one host: no other node has them. Returns how many sandboxes ran on them and
    were not asleep, or about to sleep or wake. Raises sqlite3.Error."""
    with closing(_connect(database)) as connection, connection:
        connection.execute("DELETE FROM machines")
        places = ", ".join("?" for _ in _AWAKE)
        query = f"SELECT count(*) FROM sandboxes WHERE state IN ({places})"
        return int(connection.execute(query, [str(state) for state in _AWAKE]).fetchone()[0])


def _connect(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS)


def _tables(connection: sqlite3.Connection) -> frozenset[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return frozenset(str(row[0]) for row in rows)


def _columns(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    return frozenset(str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})"))


def _rows(
    connection: sqlite3.Connection, table: str, states: Iterable[str]
) -> Sequence[tuple[str | None, str | None, str, str]]:
    """Layers, memory image, template and its build. Earlier versions had no such columns or tables."""
    columns = _columns(connection, table)
    if "layers" not in columns:
        return []
    wanted = [str(state) for state in states]
    memory = "memory_id" if "memory_id" in columns else "NULL"
    places = ", ".join("?" for _ in wanted)
    query = f"SELECT layers, {memory}, template, template_hash FROM {table} WHERE state IN ({places})"
    return list(connection.execute(query, wanted))


def _counts(connection: sqlite3.Connection) -> Mapping[str, int]:
    told = ("organisations", "api_keys", "sandboxes", "snapshots", "images", "secrets", "sessions", "events")
    present = _tables(connection)
    return {
        table: int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        for table in told
        if table in present
    }
