"""Logs in files: numbered, bounded, readable after a crash, and forgotten in time."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from opencomputer.server.contracts.logs import LogBatch
from opencomputer.server.domain.log_lines import LogLine, LogQuery, LogSource
from opencomputer.server.stores.logs.files import FileLogStore
from opencomputer.wire.ids import SandboxId

pytestmark = pytest.mark.anyio

SANDBOX = SandboxId("sb-00000001")
EVERYTHING = LogQuery()
AT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)


def said(*texts: str, exec_id: str = "0000a001") -> list[LogLine]:
    return [LogLine(AT, LogSource.EXEC_STDOUT, text, exec_id=exec_id, command=("sh", "-c")) for text in texts]


async def texts(store: FileLogStore, query: LogQuery = EVERYTHING) -> list[str]:
    return [line.line for line in await store.find(SANDBOX, query)]


async def test_what_was_written_is_read_as_it_was_also_by_another_process(tmp_path: Path) -> None:
    written = await FileLogStore(tmp_path).append(SANDBOX, LogBatch(said("a", "\x00 ü\u2028"), {"x:1": 5}))
    assert [line.number for line in written] == [1, 2]
    again = FileLogStore(tmp_path)
    assert await again.find(SANDBOX, LogQuery()) == written
    assert await again.positions(SANDBOX) == {"x:1": 5}
    (third,) = await again.append(SANDBOX, LogBatch(said("c"), {"x:1": None}))
    assert third.number == 3
    assert await FileLogStore(tmp_path).positions(SANDBOX) == {}


async def test_only_the_newest_lines_are_kept_with_positions_and_commands(tmp_path: Path) -> None:
    store = FileLogStore(tmp_path, file_bytes=2000)
    await store.append(SANDBOX, LogBatch((), {"x:1": 5}))
    for number in range(200):
        await store.append(SANDBOX, LogBatch(said(str(number)), {}))
    files = list((tmp_path / SANDBOX).iterdir())
    assert len(files) == 2
    assert sum(file.stat().st_size for file in files) < 5000
    kept = await FileLogStore(tmp_path).find(SANDBOX, LogQuery())
    assert kept[-1].line == "199"
    assert kept[-1].number == 200
    assert len(kept) < 100
    assert all(line.command == ("sh", "-c") for line in kept)
    assert await FileLogStore(tmp_path).positions(SANDBOX) == {"x:1": 5}


async def test_of_more_lines_than_the_limit_the_newest_are_found(tmp_path: Path) -> None:
    store = FileLogStore(tmp_path)
    await store.append(SANDBOX, LogBatch(said(*"abcde")))
    assert await texts(store, LogQuery(limit=2)) == ["d", "e"]
    assert await texts(store, LogQuery(after=4)) == ["e"]


async def test_a_line_that_was_cut_off_by_a_crash_is_no_line(tmp_path: Path) -> None:
    await FileLogStore(tmp_path).append(SANDBOX, LogBatch(said("whole")))
    (file,) = (tmp_path / SANDBOX).iterdir()
    with file.open("ab") as end:
        end.write(b'{"n": 2, "t"')
    store = FileLogStore(tmp_path)
    assert await texts(store) == ["whole"]
    await store.append(SANDBOX, LogBatch(said("next")))
    assert await texts(FileLogStore(tmp_path)) == ["whole", "next"]


async def test_damage_costs_only_the_lines_that_it_hit(tmp_path: Path) -> None:
    await FileLogStore(tmp_path).append(SANDBOX, LogBatch(said("a")))
    (file,) = (tmp_path / SANDBOX).iterdir()
    damage = b'\xff\n[]\n{}\n{"p": 5}\n{"n": 1, "t": 1e300, "s": "o", "l": "x"}\n'
    file.write_bytes(file.read_bytes() + damage)
    store = FileLogStore(tmp_path)
    await store.append(SANDBOX, LogBatch(said("b")))
    assert await texts(FileLogStore(tmp_path)) == ["a", "b"]


async def test_old_logs_and_too_many_are_forgotten(tmp_path: Path) -> None:
    store = FileLogStore(tmp_path)
    for name, age_days in (("sb-old", 40), ("sb-older", 50), ("sb-new", 1), ("sb-big", 2)):
        await store.append(SandboxId(name), LogBatch(said("x" * (5000 if name == "sb-big" else 10))))
        (file,) = (tmp_path / name).iterdir()
        moment = (AT - timedelta(days=age_days)).timestamp()
        os.utime(file, (moment, moment))
    assert await store.prune(AT - timedelta(days=30), keep_bytes=4000) == 3
    assert os.listdir(tmp_path) == ["sb-new"]
    assert await store.find(SandboxId("sb-old"), LogQuery()) == []
