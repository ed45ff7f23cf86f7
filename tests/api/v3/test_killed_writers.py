"""SIGKILL while events are appended: nothing that was committed is lost, and nothing is there twice."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from opencomputer.server.domain.sessions.events import EventFilter
from opencomputer.server.domain.sessions.fold import Fold, after
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.stores import session_tables
from opencomputer.wire.ids import SessionId
from tests.support.log_server import told
from tests.support.waiting import ANSWER_SECONDS

pytestmark = pytest.mark.anyio

_KILLS = 3


async def _start(file: Path, session: str | None) -> tuple[Process, dict[str, Any]]:
    arguments = [str(file), *([session] if session else [])]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.session_program", *arguments, stdout=PIPE
    )
    assert process.stdout is not None
    return process, json.loads(await process.stdout.readline())


async def _follow(told_of: dict[str, Any], seen: list[dict[str, Any]]) -> None:
    """Read from where one is until the server is gone."""
    headers = {"X-API-Key": told_of["key"], "Last-Event-ID": str(len(seen))}
    address = f"{told_of['url']}/v3/sessions/{told_of['session']}/events?stream=sse"
    try:
        async with (
            httpx.AsyncClient(timeout=ANSWER_SECONDS) as client,
            client.stream("GET", address, headers=headers) as answer,
        ):
            async for event in told(answer):
                seen.append(event)
    except httpx.HTTPError:
        return


async def test_nothing_is_lost_and_nothing_is_there_twice(tmp_path: Path) -> None:
    file, session, chosen = tmp_path / "sessions.db", None, random.Random(0)
    seen: list[dict[str, Any]] = []
    committed = 0
    for _ in range(_KILLS):
        process, told_of = await _start(file, session)
        try:
            assert process.stdout is not None
            session = told_of["session"]
            following = asyncio.create_task(_follow(told_of, seen))
            for _ in range(chosen.randrange(2, 25)):
                committed = json.loads(await process.stdout.readline())["committed"]
            await asyncio.sleep(chosen.random() / 100)
        finally:
            process.kill()
        for line in (await process.stdout.read()).splitlines():
            committed = json.loads(line)["committed"]
        await process.wait()
        await asyncio.wait_for(following, 30)
    assert session is not None
    await _check(file, SessionId(session), seen, committed)


async def _check(file: Path, session: SessionId, seen: list[dict[str, Any]], committed: int) -> None:
    database = Database.sqlite(file)
    await database.open()
    try:
        tables = session_tables(database, ProcessSignals())
        log = await tables.log.read(session, EventFilter(), after=0, limit=1_000_000)
        kept = await tables.sessions.find(session)
    finally:
        await database.close()
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    numbers = [int(event.body["text"]) for event in log if event.type == "agent.message"]
    assert numbers == list(range(len(numbers)))
    assert committed <= len(numbers) <= committed + 3
    # A reader never saw what is not there, nor in another order.
    assert [event["id"] for event in seen] == [event.id for event in log[: len(seen)]]
    assert [event.type for event in log].count("turn.started") == 1
    fold = Fold()
    for event in log:
        fold, _ = after(fold, event)
    assert kept is not None
    assert (kept.head, kept.status, kept.epoch) == (fold.head, fold.status, _KILLS)
    with closing(sqlite3.connect(file)) as raw:
        assert raw.execute("pragma integrity_check").fetchone() == ("ok",)
