"""What is told of sandboxes is written with what it tells of, for those who asked, and for nobody else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from opencomputer.server.domain.errors import Conflict
from opencomputer.server.domain.lifecycle_events import preview_changed
from opencomputer.server.domain.lifecycle_webhooks import Message, Webhook
from opencomputer.server.domain.naming import new_preview_id
from opencomputer.server.domain.previews import Preview
from opencomputer.server.domain.sandbox import Sandbox, SandboxShape, SandboxState, StopReason
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from opencomputer.server.stores.sql import tables
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.previews import SqlPreviewStore
from opencomputer.server.stores.sql.sandboxes import SqlSandboxStore
from opencomputer.server.stores.sql.snapshots import SqlSnapshotStore
from opencomputer.server.stores.sql.telling import listens, webhook_values
from opencomputer.server.stores.sql.webhook_tables import webhooks
from opencomputer.server.stores.sql.webhooks import webhook_tables
from opencomputer.wire.ids import OrgId
from tests.support import rows

pytestmark = pytest.mark.anyio

RUNNING, STOPPED = SandboxState.RUNNING, SandboxState.STOPPED


@dataclass
class Kept:
    database: Database
    org_id: OrgId
    rung: list[None] = field(default_factory=list[None])

    def __post_init__(self) -> None:
        def ring() -> None:
            self.rung.append(None)

        self.sandboxes = SqlSandboxStore(self.database, ring)
        self.snapshots = SqlSnapshotStore(self.database, ring)
        self.previews = SqlPreviewStore(self.database, ring)
        self.tables = webhook_tables(self.database, ring)

    async def webhook(self, **changes: object) -> Webhook:
        made = self.new_webhook(**changes)
        await self.tables.webhooks.add(made, most=5)
        return made

    def new_webhook(self, **changes: object) -> Webhook:
        made = rows.webhook(self.org_id)
        return replace(made, **changes)  # pyright: ignore[reportArgumentType] - names are fields

    async def switch(self, webhook: Webhook, *, on: bool) -> None:
        after = await self.tables.webhooks.change(
            self.org_id, webhook.id, lambda present: replace(present, enabled=on)
        )
        assert after == replace(webhook, enabled=on)

    async def sandbox(self, **changes: object) -> Sandbox:
        row = rows.sandbox(self.org_id, **changes)
        await self.sandboxes.add(row, concurrency_limit=None)
        return row

    async def running(self) -> Sandbox:
        row = await self.sandbox()
        await self.move(row, SandboxState.CREATING, RUNNING)
        return replace(row, state=RUNNING)

    async def move(self, row: Sandbox, *states: SandboxState) -> None:
        for place, (before, after) in enumerate(pairwise(states)):
            reason = StopReason.USER_REQUESTED if after is STOPPED else None
            assert await self.sandboxes.move(row.id, before, after, at=rows.at(place), reason=reason)

    async def told(self, webhook: Webhook) -> list[Message]:
        return [*reversed(await self.tables.messages.list(webhook.id, limit=50))]

    async def types(self, webhook: Webhook) -> list[str]:
        return [each.event.type.removeprefix("sandbox.") for each in await self.told(webhook)]

    async def claimed(self, seconds: float = 100, each: int = 4) -> list[Message]:
        now = rows.at(seconds)
        return [*await self.tables.messages.claim(now, now + timedelta(seconds=60), limit=99, each=each)]


@pytest.fixture
async def kept(database: Database) -> Kept:
    organisation = rows.organisation()
    await SqlOrganisationStore(database).add(organisation)
    return Kept(database, organisation.id)


async def test_a_life_is_told_in_its_order(kept: Kept) -> None:
    there = await kept.webhook()
    row = await kept.sandbox()
    await kept.move(
        row,
        SandboxState.CREATING,
        RUNNING,
        SandboxState.HIBERNATING,
        SandboxState.HIBERNATED,
        SandboxState.WAKING,
        RUNNING,
        SandboxState.RESTORING,
        RUNNING,
        STOPPED,
    )
    assert await kept.types(there) == ["created", "ready", "hibernated", "resumed", "stopped"]
    [created, *_, stopped] = await kept.told(there)
    assert created.event.data == {"template": "base"}
    assert stopped.event.data == {"reason": "user_requested"}
    assert {each.sandbox_id for each in await kept.told(there)} == {row.id}
    assert len(kept.rung) == 4


async def test_sizes_checkpoints_and_previews_are_told(kept: Kept) -> None:
    there, row = (
        await kept.webhook(types=("sandbox.scaled", "sandbox.checkpoint.*", "sandbox.preview_url.*")),
        None,
    )
    row = await kept.running()
    shape = SandboxShape(8192, 2, row.shape.disk_mb)
    same, other = row.elasticity, replace(row.elasticity, locked=True)
    assert await kept.sandboxes.rescale(row.id, same, same, at=rows.NOON, shape=shape)
    assert await kept.sandboxes.rescale(row.id, same, same, at=rows.at(1), shape=shape)
    assert not await kept.sandboxes.rescale(row.id, other, same, at=rows.at(2), shape=row.shape)
    checkpoint = rows.checkpoint(kept.org_id, row.id)
    await kept.snapshots.add(checkpoint)
    for expected in (True, False):
        done = await kept.snapshots.ready(checkpoint.id, (), None, size_bytes=1, at=rows.NOON)
        assert done is expected
    preview = Preview(new_preview_id(), row.id, kept.org_id, 3000, None, rows.NOON)
    for _ in range(2):
        await kept.previews.add(preview, preview_changed(preview, "http://there", rows.NOON))
    for expected in (True, False):
        assert await kept.previews.remove(preview, preview_changed(preview, None, rows.NOON)) is expected
    found = [(each.event.type, dict(each.event.data)) for each in await kept.told(there)]
    assert found == [
        ("sandbox.scaled", {"cpuCount": 2, "memoryMB": 8192}),
        ("sandbox.checkpoint.created", {"checkpointId": checkpoint.id}),
        ("sandbox.preview_url.changed", {"port": 3000, "url": "http://there"}),
        ("sandbox.preview_url.changed", {"port": 3000, "url": None}),
    ]


async def test_each_hears_of_its_own_sandboxes_only(kept: Kept) -> None:
    other = rows.organisation()
    await SqlOrganisationStore(kept.database).add(other)
    stranger = await kept.webhook(org_id=other.id)
    first = await kept.running()
    pinned, every = await kept.webhook(sandbox_id=first.id), await kept.webhook()
    second = await kept.running()
    await kept.move(first, RUNNING, STOPPED)
    assert [each.sandbox_id for each in await kept.told(every)] == [second.id, second.id, first.id]
    assert await kept.types(pinned) == ["stopped"]
    assert await kept.told(stranger) == []


async def test_one_that_hears_of_one_sandbox_hears_it_when_it_is_alone(kept: Kept) -> None:
    row = rows.sandbox(kept.org_id)
    mine = kept.new_webhook(sandbox_id=row.id)
    await kept.sandboxes.add(row, concurrency_limit=None, webhooks=[mine])
    await kept.move(row, SandboxState.CREATING, RUNNING, STOPPED)
    assert await kept.types(mine) == ["created", "ready", "stopped"]


async def test_nobody_is_asked_who_hears_of_another(kept: Kept) -> None:
    """What is asked in the change itself is exact, so that others' listeners cost nothing."""
    row = await kept.running()
    other = rows.organisation()
    await SqlOrganisationStore(kept.database).add(other)
    await kept.webhook(sandbox_id=(await kept.running()).id)
    await kept.webhook(org_id=other.id)
    statement = tables.sandboxes.update().where(tables.sandboxes.c.id == row.id).values(id=row.id)
    async with kept.database.write() as connection:
        found = await connection.execute(statement.returning(listens().label("is_heard")))
        assert not found.scalar_one()


async def test_nothing_is_written_when_nobody_listens(kept: Kept) -> None:
    await kept.move(await kept.running(), RUNNING, STOPPED)
    assert kept.rung == []
    assert await kept.claimed() == []


async def test_those_of_a_sandbox_that_never_was_go_with_it(kept: Kept) -> None:
    row = rows.sandbox(kept.org_id)
    mine = kept.new_webhook(sandbox_id=row.id)
    await kept.sandboxes.add(row, concurrency_limit=None, webhooks=[mine])
    assert await kept.tables.webhooks.get(kept.org_id, mine.id) == mine
    await kept.move(row, SandboxState.CREATING, SandboxState.FAILED)
    assert await kept.tables.webhooks.list(kept.org_id) == []


async def test_a_change_that_is_undone_tells_nothing(kept: Kept) -> None:
    """As when the process dies before it is committed: both are there, or neither."""
    there = await kept.webhook()
    row = await kept.sandbox()
    async with kept.database.write() as connection:
        # Whoever writes what is told cannot: then the state stays, too.
        await connection.execute(sa.text("ALTER TABLE webhook_messages RENAME TO elsewhere"))
    with pytest.raises(DBAPIError):
        await kept.move(row, SandboxState.CREATING, RUNNING)
    found = await kept.sandboxes.find(row.id)
    assert found is not None
    assert found.state is SandboxState.CREATING
    async with kept.database.write() as connection:
        await connection.execute(sa.text("ALTER TABLE elsewhere RENAME TO webhook_messages"))
    await kept.move(row, SandboxState.CREATING, RUNNING)
    assert await kept.types(there) == ["created", "ready"]


async def test_a_slow_sandbox_does_not_keep_others_waiting(kept: Kept) -> None:
    there = await kept.webhook()
    first, second = await kept.running(), await kept.running()
    taken = await kept.claimed()
    assert [(each.sandbox_id, each.event.type) for each in taken] == [
        (first.id, "sandbox.created"),
        (second.id, "sandbox.created"),
    ]
    assert {each.status for each in taken} == {DeliveryStatus.DELIVERING}
    await kept.tables.messages.settle(
        taken[0], replace(taken[0], status=DeliveryStatus.DELIVERED, due_at=None, attempts=1)
    )
    [ready] = await kept.claimed()
    assert (ready.sandbox_id, ready.event.type) == (first.id, "sandbox.ready")
    assert len(await kept.told(there)) == 4
    # What was taken by a node that died is taken again.
    assert len(await kept.claimed(seconds=1000)) == 2


async def test_what_is_on_its_way_to_one_that_is_switched_off_is_given_up(kept: Kept) -> None:
    there = await kept.webhook()
    row = await kept.running()
    await kept.switch(there, on=False)
    await kept.move(row, RUNNING, STOPPED)
    assert {(each.status, each.error) for each in await kept.told(there)} == {
        (DeliveryStatus.DEAD_LETTER, "the webhook was switched off")
    }
    # Nor does anything start on its way there.
    [first, *_] = await kept.told(there)
    assert not await kept.tables.messages.redeliver(first.id, 8, rows.NOON)
    assert await kept.tables.messages.add(there, first.event) is None
    await kept.switch(there, on=True)
    assert await kept.claimed() == []
    [*_, stopped] = await kept.told(there)
    assert await kept.tables.messages.redeliver(stopped.id, 8, rows.NOON)
    assert [each.id for each in await kept.claimed()] == [stopped.id]


async def test_with_a_destination_goes_what_was_sent_there(kept: Kept) -> None:
    there = await kept.webhook()
    await kept.running()
    assert not await kept.tables.webhooks.delete(OrgId("another"), there.id)
    assert await kept.tables.webhooks.delete(kept.org_id, there.id)
    assert not await kept.tables.webhooks.delete(kept.org_id, there.id)
    assert await kept.told(there) == []
    assert await kept.tables.messages.next_due() is None


async def test_keys_are_used_once_and_there_is_an_end_to_them(kept: Kept) -> None:
    there = await kept.webhook(idempotency_key="k", request_hash="h")
    assert await kept.tables.webhooks.by_idempotency_key(kept.org_id, "k") == there
    with pytest.raises(Conflict):
        await kept.webhook(idempotency_key="k")
    for _ in range(4):
        await kept.webhook()
    with pytest.raises(Conflict, match="5 webhooks"):
        await kept.webhook()
    assert (await kept.webhook(sandbox_id=(await kept.running()).id)).sandbox_id is not None


async def test_history_has_bounds(kept: Kept) -> None:
    there = await kept.webhook()
    for _ in range(3):
        await kept.running()
    for message in (await kept.told(there))[:5]:
        held = {"status": DeliveryStatus.DELIVERED, "due_at": None}
        async with kept.database.write() as connection:
            table = sa.table("webhook_messages", sa.column("id"), *map(sa.column, held))
            await connection.execute(table.update().where(table.c.id == message.id).values(held))
    assert await kept.tables.messages.sweep(rows.NOON, keep=2) == 3
    assert len(await kept.told(there)) == 3
    assert await kept.tables.messages.sweep(rows.at(999), keep=2) == 2
    assert [each.status for each in await kept.told(there)] == [DeliveryStatus.PENDING]


async def test_destinations_of_a_sandbox_outlive_it_for_a_while(kept: Kept) -> None:
    row = await kept.running()
    await kept.webhook(sandbox_id=row.id)
    every = await kept.webhook()
    await kept.move(row, RUNNING, STOPPED)
    assert await kept.tables.messages.forget_stopped(rows.NOON) == 0
    assert await kept.tables.messages.forget_stopped(rows.at(1)) == 1
    async with kept.database.read() as connection:
        assert [found.id for found in await connection.execute(sa.select(webhooks.c.id))] == [every.id]


async def test_however_many_stopped_they_are_forgotten_with_few_values_at_once(kept: Kept) -> None:
    row = await kept.running()
    many = [webhook_values(kept.new_webhook(sandbox_id=row.id)) for _ in range(1200)]
    async with kept.database.write() as connection:
        await connection.execute(webhooks.insert(), many)
    await kept.move(row, RUNNING, STOPPED)
    counts: list[int] = []

    def watch(*told: Any) -> None:
        _, _, _, parameters, _, many_times = told
        counts.append(0 if many_times else len(parameters))

    event.listen(sa.Engine, "before_cursor_execute", watch)
    try:
        assert await kept.tables.messages.forget_stopped(rows.at(1)) == 1200
    finally:
        event.remove(sa.Engine, "before_cursor_execute", watch)
    assert 0 < max(counts) <= 500
    assert await kept.tables.webhooks.list(kept.org_id) == []
    assert await kept.tables.messages.forget_stopped(rows.at(1)) == 0
