"""Sandboxes in every store: scoped, counted, paged, moved by compare-and-set."""

from __future__ import annotations

import asyncio
import random

import pytest

from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import ConcurrencyLimit, Conflict
from opencomputer.server.domain.sandbox import Sandbox, SandboxShape, SandboxState, StopReason
from opencomputer.server.domain.secrets import NOTHING_SEALED
from opencomputer.wire.ids import OrgId
from tests.support import rows
from tests.unit.server.stores.conftest import Stores

pytestmark = pytest.mark.anyio

CREATING, RUNNING = SandboxState.CREATING, SandboxState.RUNNING
STOPPED, FAILED = SandboxState.STOPPED, SandboxState.FAILED


async def add(stores: Stores, org_id: OrgId, *, limit: int | None = None, **changes: object) -> Sandbox:
    return await stores.new_sandbox(org_id, NOTHING_SEALED, limit=limit, **changes)


async def test_a_row_comes_back_as_it_was_given(stores: Stores) -> None:
    org = await stores.new_org()
    row = await add(
        stores,
        org,
        shape=SandboxShape(8192, 2, 30000),
        timeout_seconds=600,
        environment={"ÜMLAUT": "a\nb=\"'\U0001f600"},
        metadata={"": "empty", "k": ""},
        alias="label",
        network_enabled=False,
        created_at=rows.at(0.123456),
        idempotency_key="key",
        request_hash="hash",
        layers=(rows.layer(), rows.layer()),
        origin_layers=(rows.layer(),),
        workdir="/home/ü b",
        generation=3,
        from_checkpoint=naming.new_snapshot_id(),
        hibernation=naming.new_snapshot_id(),
        patch_source=naming.new_snapshot_id(),
        patch_position=4,
        patch_error="line\nline",
        due_at=rows.at(7.654321),
        hibernate_failures=2,
        last_hibernate_error="no room",
        recovered=1,
        file_url_epoch="e1",
    )
    assert await stores.sandboxes.get(org, row.id) == row
    assert await stores.sandboxes.find(row.id) == row
    assert await stores.sandboxes.by_idempotency_key(org, "key") == row


async def test_another_organisation_sees_nothing_and_changes_nothing(stores: Stores) -> None:
    mine, other = await stores.new_org(), await stores.new_org()
    row = await add(stores, mine, idempotency_key="key")
    assert await stores.sandboxes.get(other, row.id) is None
    assert await stores.sandboxes.by_idempotency_key(other, "key") is None
    assert not await stores.sandboxes.set_timeout(other, row.id, 5)
    assert list(await stores.sandboxes.list(other, list(SandboxState), limit=10)) == []
    assert await stores.sandboxes.get(mine, row.id) == row


async def test_a_move_succeeds_once(stores: Stores) -> None:
    org = await stores.new_org()
    row = await add(stores, org)
    assert await stores.sandboxes.move(row.id, CREATING, RUNNING, at=rows.at(1))
    assert not await stores.sandboxes.move(row.id, CREATING, RUNNING, at=rows.at(2))
    assert not await stores.sandboxes.move(row.id, CREATING, FAILED, at=rows.at(2))
    moved = await stores.sandboxes.get(org, row.id)
    assert moved is not None
    assert (moved.state, moved.started_at, moved.stopped_at) == (RUNNING, rows.at(1), None)


async def test_of_many_writers_at_once_one_wins(stores: Stores) -> None:
    org = await stores.new_org()
    row = await add(stores, org)
    targets = [(RUNNING, None), (FAILED, StopReason.START_FAILED), (STOPPED, StopReason.USER_REQUESTED)] * 3
    won = await asyncio.gather(
        *(
            stores.sandboxes.move(row.id, CREATING, after, at=rows.at(1), reason=reason)
            for after, reason in targets
        )
    )
    assert won.count(True) == 1
    found = await stores.sandboxes.get(org, row.id)
    assert found is not None
    assert found.state is targets[won.index(True)][0]


async def test_a_stop_says_when_and_why_and_lets_go_of_the_machine(stores: Stores) -> None:
    org = await stores.new_org()
    row = await add(stores, org)
    machine = rows.machine()
    await stores.machines.add(machine)
    await stores.machines.claim(machine.id, row.id, "new token")
    await stores.sandboxes.move(row.id, CREATING, RUNNING, at=rows.at(1))
    running = await stores.sandboxes.get(org, row.id)
    assert running is not None
    assert running.machine_id == machine.id
    await stores.sandboxes.move(row.id, RUNNING, STOPPED, at=rows.at(2), reason=StopReason.CRASH)
    stopped = await stores.sandboxes.get(org, row.id)
    assert stopped is not None
    assert (stopped.stopped_at, stopped.stop_reason, stopped.machine_id) == (
        rows.at(2),
        StopReason.CRASH,
        None,
    )


async def test_an_illegal_move_is_refused_before_it_is_tried(stores: Stores) -> None:
    org = await stores.new_org()
    row = await add(stores, org)
    with pytest.raises(Conflict):
        await stores.sandboxes.move(row.id, STOPPED, RUNNING, at=rows.at(1))


async def test_an_idempotency_key_is_taken_once_per_organisation(stores: Stores) -> None:
    mine, other = await stores.new_org(), await stores.new_org()
    first = await add(stores, mine, idempotency_key="key")
    with pytest.raises(Conflict):
        await add(stores, mine, idempotency_key="key")
    await add(stores, other, idempotency_key="key")
    await add(stores, mine, idempotency_key=None)
    await add(stores, mine, idempotency_key=None)
    assert await stores.sandboxes.by_idempotency_key(mine, "key") == first


async def test_an_id_is_taken_once(stores: Stores) -> None:
    mine, other = await stores.new_org(), await stores.new_org()
    row = await add(stores, mine)
    with pytest.raises(Conflict):
        await add(stores, other, id=row.id)
    assert await stores.sandboxes.get(mine, row.id) == row


async def test_a_failed_create_gives_its_idempotency_key_back(stores: Stores) -> None:
    org = await stores.new_org()
    first = await add(stores, org, idempotency_key="key")
    await stores.sandboxes.move(first.id, CREATING, FAILED, at=rows.at(1), reason=StopReason.START_FAILED)
    second = await add(stores, org, idempotency_key="key")
    assert await stores.sandboxes.by_idempotency_key(org, "key") == second


async def test_a_stopped_sandbox_keeps_its_idempotency_key(stores: Stores) -> None:
    org = await stores.new_org()
    row = await add(stores, org, idempotency_key="key")
    await stores.sandboxes.move(row.id, CREATING, RUNNING, at=rows.at(1))
    await stores.sandboxes.move(row.id, RUNNING, STOPPED, at=rows.at(2))
    with pytest.raises(Conflict):
        await add(stores, org, idempotency_key="key")


async def test_the_concurrency_limit_counts_what_is_created_and_what_runs(stores: Stores) -> None:
    org, other = await stores.new_org(), await stores.new_org()
    first = await add(stores, org, limit=2)
    await stores.sandboxes.move(first.id, CREATING, RUNNING, at=rows.at(1))
    second = await add(stores, org, limit=2)
    with pytest.raises(ConcurrencyLimit) as refused:
        await add(stores, org, limit=2)
    assert dict(refused.value.details) == {"active": 2, "limit": 2}
    await add(stores, other, limit=2)
    await stores.sandboxes.move(second.id, CREATING, FAILED, at=rows.at(1))
    await add(stores, org, limit=2)
    await stores.sandboxes.move(first.id, RUNNING, STOPPED, at=rows.at(2))
    await add(stores, org, limit=2)


async def test_a_burst_never_passes_the_concurrency_limit(stores: Stores) -> None:
    org = await stores.new_org()

    async def one() -> bool:
        try:
            await add(stores, org, limit=5)
        except ConcurrencyLimit:
            return False
        return True

    assert sum(await asyncio.gather(*(one() for _ in range(20)))) == 5
    assert len(await stores.sandboxes.in_states([CREATING])) == 5


async def test_a_refused_row_leaves_nothing(stores: Stores) -> None:
    org = await stores.new_org()
    await add(stores, org, limit=1)
    refused = rows.sandbox(org, idempotency_key="key")
    with pytest.raises(ConcurrencyLimit):
        await stores.sandboxes.add(refused, concurrency_limit=1)
    assert await stores.sandboxes.get(org, refused.id) is None
    assert await stores.sandboxes.by_idempotency_key(org, "key") is None


async def test_pages_cover_everything_once_newest_first(stores: Stores) -> None:
    """Also where many have the same time of creation."""
    org = await stores.new_org()
    times = [0.0, 0.0, 0.0, 0.5, 0.5, 1.0, 2.0, 2.0, 2.0, 3.0, 3.000001]
    random.Random(1).shuffle(times)
    made = [await add(stores, org, created_at=rows.at(time)) for time in times]
    expected = sorted(made, key=lambda row: (row.created_at, row.id), reverse=True)
    for size in (1, 2, 3, 11, 100):
        seen: list[Sandbox] = []
        while page := await stores.sandboxes.list(
            org, [CREATING], limit=size, before=seen[-1] if seen else None
        ):
            assert len(page) <= size
            seen += page
        assert [row.id for row in seen] == [row.id for row in expected]


async def test_a_sandbox_made_meanwhile_does_not_shift_the_pages(stores: Stores) -> None:
    org = await stores.new_org()
    for time in range(4):
        await add(stores, org, created_at=rows.at(time))
    first = await stores.sandboxes.list(org, [CREATING], limit=2)
    await add(stores, org, created_at=rows.at(10))
    second = await stores.sandboxes.list(org, [CREATING], limit=2, before=first[-1])
    assert [row.created_at for row in second] == [rows.at(1), rows.at(0)]


async def test_lists_are_filtered_by_state(stores: Stores) -> None:
    org = await stores.new_org()
    running = await add(stores, org)
    await stores.sandboxes.move(running.id, CREATING, RUNNING, at=rows.at(1))
    creating = await add(stores, org)
    assert [row.id for row in await stores.sandboxes.list(org, [RUNNING], limit=9)] == [running.id]
    assert list(await stores.sandboxes.list(org, [], limit=9)) == []
    assert {row.id for row in await stores.sandboxes.list(org, [RUNNING, CREATING], limit=9)} == {
        running.id,
        creating.id,
    }


async def test_the_reconciler_sees_all_organisations(stores: Stores) -> None:
    made = [await add(stores, await stores.new_org()) for _ in range(3)]
    found = await stores.sandboxes.in_states([CREATING])
    assert {row.id for row in found} == {row.id for row in made}
    assert list(await stores.sandboxes.in_states([RUNNING])) == []


async def test_a_timeout_is_stored(stores: Stores) -> None:
    org = await stores.new_org()
    row = await add(stores, org)
    assert await stores.sandboxes.set_timeout(org, row.id, 77)
    found = await stores.sandboxes.get(org, row.id)
    assert found is not None
    assert found.timeout_seconds == 77
