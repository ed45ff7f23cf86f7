"""A node's data folder: is its database sound and known, are blobs what they were, do the keys open."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy.exc

from opencomputer.server.contracts.secrets import EncryptedRows, KeyringDamaged
from opencomputer.server.domain.errors import SecretUnreadable
from opencomputer.server.examination.check import Check
from opencomputer.server.examination.saved import look_at_saved
from opencomputer.server.identity import UNFINISHED, DataFolder
from opencomputer.server.stores.keyring.file import FileKeyring
from opencomputer.server.stores.sql.copies import known_schemas, problems_of, schema_of_file
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.secrets import SqlSecretRows
from opencomputer.server.stores.sql.sessions.credentials import SqlCredentialStore
from opencomputer.server.stores.sql.sessions.destinations import session_signing_secrets
from opencomputer.server.stores.sql.webhooks import webhook_signing_secrets

_SAMPLES = 5
_LARGEST_SAMPLE = 256 << 20
_BLOCK = 1 << 20
_RESTORE = "Stop the node and restore a backup (docs/operating/backup.md)."


def check_data(data: Path, *, deep: bool) -> list[Check]:
    """Raises nothing that a damaged folder could be the reason of."""
    if not (data / "opencomputer.db").exists():
        if (data / UNFINISHED).exists():
            return [judge_folder(unfinished=True)]
        if (data / "node.json").exists():
            return [judge_folder(problem="opencomputer.db is missing")]
        return [Check("data", "ok", f"No node has worked in {data} yet.")]
    unfinished = (data / UNFINISHED).exists()
    checks = [judge_folder(unfinished=unfinished, problem=_problem_of_identity(data / "node.json"))]
    checks += [look_at_database(data, deep=deep), look_at_keyring(data)]
    return [*checks, look_at_blobs(data, deep=deep), look_at_saved(data, deep=deep)]


def _problem_of_identity(file: Path) -> str | None:
    try:
        known: object = json.loads(file.read_text())
    except FileNotFoundError:
        return "node.json is missing"
    except (OSError, ValueError):
        return "node.json cannot be read"
    return None if isinstance(known, dict) and "tag" in known else "node.json does not say which node this is"


def judge_folder(*, unfinished: bool = False, problem: str | None = None) -> Check:
    if problem is not None and not unfinished:
        return Check(
            "data",
            "fail",
            f"The data folder is damaged: {problem}.",
            f"{_RESTORE} A node that starts without would begin as a new one.",
        )
    if not unfinished:
        return Check("data", "ok", "The data folder is whole.")
    return Check(
        "data",
        "fail",
        "A backup was being restored into the data folder, and that did not come to its end.",
        "Run `oc backup restore` again; until then no node starts there.",
    )


def look_at_database(data: Path, *, deep: bool) -> Check:
    file = data / "opencomputer.db"
    try:
        schema = schema_of_file(file)
    except (sqlite3.Error, UnicodeError) as error:
        return judge_database("", known_schemas(), [str(error)])
    if not schema:
        return judge_database("", known_schemas(), ["it has no tables of a node"])
    return judge_database(schema, known_schemas(), problems_of(file, quick=not deep))


def judge_database(schema: str, known: Sequence[str], problems: Sequence[str]) -> Check:
    if problems:
        return Check("database", "fail", f"The database is damaged: {problems[0]}.", _RESTORE)
    if schema not in known:
        return Check(
            "database",
            "fail",
            f"The database has version {schema or '(none)'}; this program knows versions up to {known[-1]}.",
            "Start the newer OpenComputer that used it, or restore a backup from before.",
        )
    if schema != known[-1]:
        return Check(
            "database",
            "warn",
            f"The database has version {schema}; the next start brings it to {known[-1]} and keeps a copy.",
            "Back up with `oc backup create`, then restart the node.",
        )
    return Check("database", "ok", f"The database is sound and has the newest version, {schema}.")


def look_at_keyring(data: Path) -> Check:
    return asyncio.run(_look_at_keyring(data))


async def _look_at_keyring(data: Path) -> Check:
    folder = DataFolder(data)
    database = Database.sqlite(folder.database)
    tables: Sequence[EncryptedRows] = (
        SqlSecretRows(database),
        SqlCredentialStore(database),
        session_signing_secrets(database),
        webhook_signing_secrets(database),
    )
    try:
        values = [value for rows in tables for value in await rows.values()]
    except (sqlalchemy.exc.SQLAlchemyError, ValueError):
        # Of an earlier version, whose tables are not those of this one yet; or damaged, as is told elsewhere.
        values = []
    finally:
        await database.close()
    try:
        keyring = FileKeyring(folder.keyring)
    except FileNotFoundError:
        return judge_keyring("it is missing" if values else None, len(values), 0)
    except (KeyringDamaged, OSError) as error:
        return judge_keyring(str(error), len(values), 0)
    unreadable = 0
    for value in values:
        try:
            keyring.decrypt(value.ciphertext, value.place)
        except SecretUnreadable:
            unreadable += 1
    return judge_keyring(None, len(values), unreadable)


def judge_keyring(problem: str | None, stored: int, unreadable: int) -> Check:
    if problem is not None:
        return Check(
            "keyring",
            "fail",
            f"The keyring cannot be used: {problem}. Stored secrets: {stored}.",
            "Restore keyring.json from a backup. If it is lost, `oc keyring forget` removes what it locked.",
        )
    if unreadable:
        return Check(
            "keyring",
            "fail",
            f"{unreadable} of {stored} stored secrets open with no key of the keyring.",
            "Restore keyring.json from a backup, or set those secrets anew after `oc keyring forget`.",
        )
    return Check("keyring", "ok", f"The keyring opens all stored secrets ({stored}).")


@dataclass(frozen=True)
class BlobFindings:
    """`problem`: the store cannot be written to or read."""

    problem: str | None
    checked: int = 0
    damaged: tuple[str, ...] = ()


def look_at_blobs(data: Path, *, deep: bool) -> Check:
    folder = data / "artefacts/blobs"
    if not folder.is_dir():
        return judge_blobs(BlobFindings(None))
    problem = _write_and_read(folder / "incoming")
    if problem is not None:
        return judge_blobs(BlobFindings(problem))
    layers = sorted((folder / "layers").glob("*.tar"))
    if not deep:
        small = [layer for layer in layers if _size(layer) <= _LARGEST_SAMPLE]
        layers = secrets.SystemRandom().sample(small, min(_SAMPLES, len(small)))
    damaged = tuple(layer.stem for layer in layers if not _is_whole(layer))
    return judge_blobs(BlobFindings(None, len(layers), damaged))


def judge_blobs(found: BlobFindings) -> Check:
    if found.problem is not None:
        return Check(
            "saved layers",
            "fail",
            f"The blob store cannot be written and read: {found.problem}.",
            "Look at the disk below the data folder, its space and its permissions.",
        )
    if found.damaged:
        return Check(
            "saved layers",
            "fail",
            f"{len(found.damaged)} of {found.checked} layers are not what they were when they were saved: "
            f"{found.damaged[0]}",
            f"The disk may be failing. {_RESTORE}",
        )
    return Check("saved layers", "ok", f"Layers that were looked at: {found.checked}, all of them whole.")


def _write_and_read(folder: Path) -> str | None:
    probe = folder / f"doctor-{secrets.token_hex(6)}"
    content = secrets.token_bytes(4096)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(content)
        found = probe.read_bytes()
        probe.unlink()
    except OSError as error:
        return str(error)
    return None if found == content else "what was written is not what is read"


def _is_whole(layer: Path) -> bool:
    digest = hashlib.sha256()
    try:
        with layer.open("rb") as content:
            while block := content.read(_BLOCK):
                digest.update(block)
    except FileNotFoundError:
        return True  # swept just now
    except OSError:
        return False
    return digest.hexdigest() == layer.stem


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
