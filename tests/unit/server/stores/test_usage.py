"""Usage in SQL: found by window, by organisation and by sandbox; written in batches; removed when old."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from opencomputer.server.domain.metering import Interval, MemorySample, Meter, second_of
from opencomputer.server.domain.sandbox import SandboxShape, SandboxState, StopReason
from opencomputer.server.domain.tags import Tags
from opencomputer.server.domain.usage import Described, Window
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.tags import SqlTagStore
from opencomputer.server.stores.sql.usage import SqlUsageStore
from opencomputer.server.stores.sql.usage_tables import usage_intervals
from opencomputer.wire.ids import OrgId, SandboxId
from tests.support import rows
from tests.unit.server.stores.conftest import Stores, sql_stores
from tests.unit.server.stores.test_migrations import write_0001

pytestmark = pytest.mark.anyio

EVER = Window(0, 2**40)
NOON = second_of(rows.NOON)
LARGE_DISK = SandboxShape(4096, 1, 20480 + 512)


async def run(stores: Stores, sandbox_id: SandboxId, *states: tuple[SandboxState, int]) -> None:
    """From creating to each of these, so many seconds after noon."""
    before = SandboxState.CREATING
    for after, second in states:
        reason = StopReason.USER_REQUESTED
        assert await stores.sandboxes.move(sandbox_id, before, after, at=rows.at(second), reason=reason)
        before = after


async def test_intervals_follow_the_states_of_a_sandbox(stores: Stores) -> None:
    row = await stores.new_sandbox(await stores.new_org(), state=SandboxState.CREATING, shape=LARGE_DISK)
    await run(
        stores,
        row.id,
        (SandboxState.RUNNING, 10),
        (SandboxState.REBOOTING, 20),
        (SandboxState.RUNNING, 30),
        (SandboxState.HIBERNATING, 40),
        (SandboxState.HIBERNATED, 50),
        (SandboxState.WAKING, 60),
        (SandboxState.RUNNING, 70),
        # The clock was set back.
        (SandboxState.STOPPED, 65),
    )
    assert await stores.usage.intervals_of(row.id, EVER) == [
        Interval(row.id, Meter.MEMORY, 4096, NOON + 10, NOON + 40),
        Interval(row.id, Meter.DISK, 512, NOON + 10, NOON + 65),
        Interval(row.id, Meter.MEMORY, 4096, NOON + 70, NOON + 70),
    ]


async def test_what_fails_or_does_not_happen_counts_for_nothing(stores: Stores) -> None:
    org = await stores.new_org()
    for end in (SandboxState.FAILED, SandboxState.STOPPED):
        row = await stores.new_sandbox(org, state=SandboxState.CREATING, shape=LARGE_DISK)
        await run(stores, row.id, (end, 1))
    row = await stores.new_sandbox(org, state=SandboxState.HIBERNATED)
    assert not await stores.sandboxes.move(row.id, SandboxState.WAKING, SandboxState.RUNNING, at=rows.at(1))
    assert await stores.usage.intervals(org, EVER) == []


async def test_those_of_a_window_are_found_and_of_one_organisation_only(stores: Stores) -> None:
    mine, theirs = await stores.new_org(), await stores.new_org()
    for org in (mine, theirs):
        row = await stores.new_sandbox(org, state=SandboxState.CREATING)
        await run(stores, row.id, (SandboxState.RUNNING, 10), (SandboxState.STOPPED, 20))
    (found,) = await stores.usage.intervals(mine, EVER)
    for begin, end, inside in ((0, 10, False), (0, 11, True), (19, 30, True), (20, 30, False)):
        window = Window(NOON + begin, NOON + end)
        assert await stores.usage.intervals(mine, window) == ([found] if inside else [])
        assert await stores.usage.intervals_of(found.sandbox_id, window) == ([found] if inside else [])


async def test_samples_are_kept_and_those_of_a_second_that_comes_again_replaced(stores: Stores) -> None:
    one, two = SandboxId("sb-00000001"), SandboxId("sb-00000002")
    assert await stores.usage.last_noted() is None
    await stores.usage.note(5, [MemorySample(one, 5, 100), MemorySample(two, 5, 7)])
    await stores.usage.note(65, [MemorySample(one, 65, 200)])
    await stores.usage.note(5, [MemorySample(one, 5, 300)])
    await stores.usage.note(6, [])
    assert await stores.usage.last_noted() == 6
    found = await stores.usage.samples_of(one, Window(5, 66))
    assert sorted((each.second, each.kib) for each in found) == [(5, 300), (65, 200)]
    assert await stores.usage.samples_of(one, Window(6, 65)) == []
    assert await stores.usage.samples_of(two, EVER) == [MemorySample(two, 5, 7)]


async def test_what_is_old_is_removed(stores: Stores) -> None:
    org = await stores.new_org()
    for second in (20, 40):
        row = await stores.new_sandbox(org, state=SandboxState.CREATING)
        await run(stores, row.id, (SandboxState.RUNNING, 10), (SandboxState.STOPPED, second))
    lasting = await stores.new_sandbox(org, state=SandboxState.CREATING)
    await run(stores, lasting.id, (SandboxState.RUNNING, 10))
    await stores.usage.note(5, [MemorySample(lasting.id, 5, 1)])
    await stores.usage.note(6, [MemorySample(lasting.id, 6, 1)])
    assert await stores.usage.prune(intervals_before=NOON + 30, samples_before=6) == 2
    ends = [each.end for each in await stores.usage.intervals(org, EVER)]
    assert ends == [NOON + 40, None]
    assert [each.second for each in await stores.usage.samples_of(lasting.id, EVER)] == [6]


async def test_no_sandbox_can_count_twice_at_a_time(database: Database) -> None:
    stores = sql_stores(database)
    row = await stores.new_sandbox(await stores.new_org(), state=SandboxState.CREATING)
    await run(stores, row.id, (SandboxState.RUNNING, 10))
    again = {"org_id": row.org_id, "sandbox_id": row.id, "meter": "memory", "megabytes": 1}
    with pytest.raises(IntegrityError):
        await database.run(usage_intervals.insert().values(**again, begin_second=5))
    await database.run(usage_intervals.insert().values(**again, begin_second=5, end_second=6))


async def test_sandboxes_are_described_with_their_tags(database: Database) -> None:
    stores, tags = sql_stores(database), SqlTagStore(database)
    mine, theirs = await stores.new_org(), await stores.new_org()
    tagged = await stores.new_sandbox(mine, alias="web", state=SandboxState.STOPPED)
    plain = await stores.new_sandbox(mine, alias=None)
    foreign = await stores.new_sandbox(theirs)
    given = Tags({"team": "a", "empty": ""}, rows.at(7))
    await tags.put(mine, tagged.id, given)
    await tags.put(theirs, foreign.id, given)
    assert await SqlUsageStore(database).described([tagged.id, plain.id]) == {
        tagged.id: Described("web", SandboxState.STOPPED, given),
        plain.id: Described(None, plain.state, Tags()),
    }
    assert await tags.values(mine, "team") == {tagged.id: "a"}
    assert await tags.values(mine, "empty") == {tagged.id: ""}
    assert await tags.values(mine, "no-such") == {}


async def test_what_was_there_before_the_ledger_counts_from_the_upgrade_on(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    write_0001(file)
    with closing(sqlite3.connect(file)) as raw:
        raw.execute("update sandboxes set disk_mb = 20480 + 512 where id in ('sb-running', 'sb-stopped')")
        raw.commit()
    database = Database.sqlite(file)
    try:
        await database.open()
        found = await SqlUsageStore(database).intervals(OrgId("org-1"), EVER)
    finally:
        await database.close()
    assert sorted((each.sandbox_id, each.meter, each.megabytes, each.end) for each in found) == [
        ("sb-lasting", "memory", 4096, None),
        ("sb-running", "disk", 512, None),
        ("sb-running", "memory", 4096, None),
    ]
    now = second_of(datetime.now(UTC))
    assert all(now - 60 <= each.begin <= now for each in found)
