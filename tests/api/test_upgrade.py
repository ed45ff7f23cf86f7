"""Data of earlier versions under this one: a node starts on it, and everything is still served, and right."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from opencomputer.server.stores.sql import database as database_module
from opencomputer.server.stores.sql.copies import known_schemas, problems_of, schema_of_file
from opencomputer.server.stores.sql.upgrading import copy_before
from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of, kill_all

pytestmark = pytest.mark.anyio

RELEASES = Path(__file__).parents[1] / "golden" / "releases"
# What belongs to a start of a node, or to a machine, which no other start has.
_OF_THE_PROCESS = frozenset({"connectURL", "token", "url", "invoke_url", "lastUsedAt", "last_used_at"})
_CHANGED_BY_THE_END = frozenset({"status", "connectURL", "token", "stoppedAt", "stopReason", "updated_at"})


def data_of(release: str, folder: Path) -> Path:
    """A data folder of that version."""
    data = folder / "data"
    shutil.copytree(RELEASES / release, data, ignore=shutil.ignore_patterns("*.sql", "said.json"))
    with closing(sqlite3.connect(data / "opencomputer.db")) as connection:
        connection.executescript((RELEASES / release / "database.sql").read_text())
    return data


def said_by(release: str) -> dict[str, Any]:
    return json.loads((RELEASES / release / "said.json").read_text())


@asynccontextmanager
async def upgraded(release: str, folder: Path) -> AsyncGenerator[Api]:
    """This version's node on that version's data."""
    data = data_of(release, folder)
    newest = known_schemas()[-1]
    async with NodeFolder(folder).running() as url, api_of(url, FIRST_KEY) as api:
        assert schema_of_file(data / "opencomputer.db") == newest
        assert schema_of_file(copy_before(data / "opencomputer.db", newest)) == release
        yield api
        await kill_all(api)


def differences(before: object, after: object, unlike: frozenset[str], place: str = "") -> list[str]:
    """Where an answer is not what it was. New fields are none."""
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("dict[str, object]", before), cast("dict[str, object]", after)
        return [
            each
            for name, value in old.items()
            if name not in unlike
            for each in differences(value, new.get(name), unlike, f"{place}.{name}")
        ]
    if isinstance(before, list) and isinstance(after, list):
        olds, news = cast("list[object]", before), cast("list[object]", after)
        # A list may have grown: a session goes on.
        found = [f"{place}: {len(news)} instead of {len(olds)}"] if len(news) < len(olds) else []
        pairs = enumerate(zip(olds, news, strict=False))
        return found + [
            each for number, (a, b) in pairs for each in differences(a, b, unlike, f"{place}[{number}]")
        ]
    return [] if before == after else [f"{place}: {after!r} instead of {before!r}"]


def unlike_in(answer: object) -> frozenset[str]:
    """What ran when the old node ended has no machine: that its state is another one is right."""
    return _OF_THE_PROCESS | _CHANGED_BY_THE_END if '"running"' in json.dumps(answer) else _OF_THE_PROCESS


@pytest.mark.parametrize("release", ["0001", "0010"])
async def test_everything_an_earlier_version_told_is_told_again(tmp_path: Path, release: str) -> None:
    said = said_by(release)
    async with upgraded(release, tmp_path) as api:
        for path, before in said["answers"].items():
            answer = await api.client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            assert differences(before, answer.json(), unlike_in(before), path) == []
        running = (await api.get(f"/sandboxes/{said['running']}")).json()
        assert (running["status"], running["stopReason"]) == ("stopped", "crash")


async def test_keys_of_the_first_version_open_what_they_opened(tmp_path: Path) -> None:
    said = said_by("0001")
    async with upgraded("0001", tmp_path) as api:
        statuses: list[int] = []
        for key in (said["ci"], said["revoked"], said["other"]):
            async with api_of(api.url, key) as other:
                statuses.append((await other.get(f"/sandboxes/{said['running']}")).status_code)
        assert statuses == [200, 401, 404]
        async with api_of(api.url, said["other"]) as other:
            assert (await other.get(f"/sandboxes/{said['others']}")).status_code == 200
        made = await api.create()
        assert (await api.run(made["sandboxID"], "echo works"))["stdout"] == "works\n"


async def test_what_was_saved_and_sealed_before_works_after(tmp_path: Path) -> None:
    said = said_by("0010")
    async with upgraded("0010", tmp_path) as api:
        # Its memory is another version's: it starts cold, on its files.
        assert (await api.run(said["asleep"], "cat file"))["stdout"] == "sleeps\n"
        for checkpoint in (said["checkpoint"], said["full"]):
            fork = (await api.post(f"/sandboxes/from-checkpoint/{checkpoint}", json={})).json()
            assert (await api.run(fork["sandboxID"], "cat file"))["stdout"] == "of the old node\n"
        sealed = await api.create(secretStore="vault")
        assert (await api.run(sealed["sandboxID"], "echo $TOKEN"))["stdout"].startswith("osb_sealed_")
        again = await api.client.post("/v3/sessions", json={**_again(said), "key": "one"})
        assert (again.status_code, again.json()["session"]["id"]) == (200, said["session"])


def _again(said: Mapping[str, Any]) -> dict[str, Any]:
    agent = said["answers"]["/v3/agents"]["data"][0]["id"]
    return {"agent": agent, "input": "hello", "metadata": {"a": "b"}}


def test_each_migration_on_its_own_keeps_every_row_of_the_first_version(tmp_path: Path) -> None:
    """Not only all of them at once: somebody may stop anywhere on the way."""
    file = data_of("0001", tmp_path) / "opencomputer.db"
    counts = rows_in(file)
    engine = sa.create_engine(f"sqlite:///{file}")
    config = Config()
    config.set_main_option("script_location", str(Path(database_module.__file__).parent / "migrations"))
    try:
        for revision in known_schemas()[1:]:
            with engine.begin() as connection:
                connection.exec_driver_sql("PRAGMA foreign_keys=ON")
                config.attributes["connection"] = connection
                command.upgrade(config, revision)
            assert schema_of_file(file) == revision
            assert problems_of(file) == []
            assert {name: rows_in(file)[name] for name in counts} == counts
    finally:
        engine.dispose()


def rows_in(file: Path) -> dict[str, int]:
    with closing(sqlite3.connect(file)) as connection:
        tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        return {
            table: connection.execute(f"select count(*) from {table}").fetchone()[0]
            for table in tables
            if not table.startswith(("alembic", "sqlite"))
        }
