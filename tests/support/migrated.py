"""New databases that need no migrating any more."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from opencomputer.server.stores.sql.database import Database


@contextmanager
def migrated_once(folder: Path) -> Generator[None]:
    """Have new databases of this process begin as copies of the first, which all migrations made.

    They still look, when they are opened, for migrations that are missing.
    """
    first, as_usual = folder / "migrated.db", Database.sqlite

    async def migrate() -> None:
        database = as_usual(first)
        await database.open()
        await database.close()

    def sqlite(path: Path, *, patience_seconds: float = 30) -> Database:
        if not path.exists():
            if not first.exists():
                with ThreadPoolExecutor(1) as thread:
                    thread.submit(asyncio.run, migrate()).result()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            shutil.copyfile(first, path)
        return as_usual(path, patience_seconds=patience_seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "sqlite", staticmethod(sqlite))
        yield
