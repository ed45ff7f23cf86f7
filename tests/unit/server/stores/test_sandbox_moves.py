"""Every move of a sandbox, what changes with it, and what may change without one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from opencomputer.server.contracts.stores import SandboxFields
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import ConcurrencyLimit, Conflict
from opencomputer.server.domain.sandbox import (
    TRANSITIONS,
    Sandbox,
    SandboxShape,
    SandboxState,
    StopReason,
)
from opencomputer.wire.ids import OrgId, SandboxId
from tests.support import rows
from tests.unit.server.stores.conftest import Stores

pytestmark = pytest.mark.anyio

CREATING, RUNNING, STOPPED, FAILED = (
    SandboxState.CREATING,
    SandboxState.RUNNING,
    SandboxState.STOPPED,
    SandboxState.FAILED,
)
HIBERNATING, HIBERNATED, WAKING = SandboxState.HIBERNATING, SandboxState.HIBERNATED, SandboxState.WAKING

FIELDS: SandboxFields = {
    "layers": (rows.layer(), rows.layer()),
    "origin_layers": (rows.layer(),),
    "shape": SandboxShape(8192, 2, 30000),
    "timeout_seconds": 900,
    "due_at": rows.at(77),
    "generation": 5,
    "hibernation": naming.new_snapshot_id(),
    "patch_position": 3,
    "patch_error": "exit status 1",
    "hibernate_failures": 2,
    "last_hibernate_error": "no room",
    "recovered": 2,
    "file_url_epoch": "an epoch",
    "preview_token_hash": "a hash",
    "idempotency_key": None,
}


async def found(stores: Stores, row: Sandbox) -> Sandbox:
    sandbox = await stores.sandboxes.get(row.org_id, row.id)
    assert sandbox is not None
    return sandbox


async def in_state(stores: Stores, org: OrgId, state: SandboxState) -> Sandbox:
    """One that has everything a move might take away."""
    return await stores.new_sandbox(
        org,
        state=state,
        machine_id="m1",
        started_at=None if state is CREATING else rows.at(1),
        due_at=rows.at(50),
        idempotency_key=naming.new_snapshot_id(),
        layers=(rows.layer(),),
        hibernation=naming.new_snapshot_id(),
        hibernate_failures=1,
    )


async def test_every_legal_move_changes_what_belongs_to_it_and_nothing_else(stores: Stores) -> None:
    org = await stores.new_org()
    for before, targets in TRANSITIONS.items():
        for after in targets:
            row = await in_state(stores, org, before)
            assert await stores.sandboxes.move(row.id, before, after, at=rows.at(9), reason=StopReason.CRASH)
            ended = after in (STOPPED, FAILED)
            assert await found(stores, row) == replace(
                row,
                state=after,
                started_at=rows.at(9) if (before, after) == (CREATING, RUNNING) else row.started_at,
                stopped_at=rows.at(9) if ended else None,
                stop_reason=StopReason.CRASH if ended else None,
                due_at=None if ended else row.due_at,
                machine_id=None if ended or after is HIBERNATED else "m1",
                idempotency_key=None if after is FAILED else row.idempotency_key,
            ), f"{before} to {after}"


async def test_every_illegal_move_is_refused_and_changes_nothing(stores: Stores) -> None:
    org = await stores.new_org()
    for before in SandboxState:
        row = await in_state(stores, org, before)
        for after in set(SandboxState) - TRANSITIONS[before]:
            with pytest.raises(Conflict):
                await stores.sandboxes.move(row.id, before, after, at=rows.at(9), fields=FIELDS)
        assert await found(stores, row) == row


async def test_a_sandbox_that_is_not_there_does_not_move(stores: Stores) -> None:
    nobody = SandboxId("sb-00000000")
    assert not await stores.sandboxes.move(nobody, CREATING, RUNNING, at=rows.at(1))
    assert not await stores.sandboxes.move(nobody, HIBERNATED, WAKING, at=rows.at(1), concurrency_limit=0)


async def test_fields_change_with_the_state_or_not_at_all(stores: Stores) -> None:
    assert set(FIELDS) == set(SandboxFields.__annotations__)
    org = await stores.new_org()
    row = await in_state(stores, org, RUNNING)
    assert not await stores.sandboxes.move(row.id, HIBERNATING, RUNNING, at=rows.at(2), fields=FIELDS)
    assert await found(stores, row) == row
    assert await stores.sandboxes.move(row.id, RUNNING, HIBERNATING, at=rows.at(2), fields=FIELDS)
    assert await found(stores, row) == replace(row, state=HIBERNATING, **FIELDS)


async def test_each_field_can_be_changed_alone(stores: Stores) -> None:
    org = await stores.new_org()
    expected = await in_state(stores, org, RUNNING)
    for name, value in FIELDS.items():
        change: SandboxFields = {name: value}  # pyright: ignore[reportAssignmentType] - names are its keys
        assert await stores.sandboxes.update(expected.id, change)
        expected = replace(expected, **change)
        assert await found(stores, expected) == expected, name


async def test_what_is_none_becomes_none(stores: Stores) -> None:
    org = await stores.new_org()
    row = await in_state(stores, org, RUNNING)
    await stores.sandboxes.update(row.id, FIELDS)
    nothing: SandboxFields = {
        "layers": (),
        "due_at": None,
        "hibernation": None,
        "patch_error": None,
        "last_hibernate_error": None,
        "recovered": None,
        "file_url_epoch": None,
        "preview_token_hash": None,
    }
    assert await stores.sandboxes.update(row.id, nothing)
    assert await found(stores, row) == replace(row, **{**FIELDS, **nothing})


async def test_an_update_of_nothing_says_whether_the_sandbox_is_there(stores: Stores) -> None:
    org = await stores.new_org()
    row = await in_state(stores, org, RUNNING)
    other = await in_state(stores, org, RUNNING)
    assert await stores.sandboxes.update(row.id, {})
    assert not await stores.sandboxes.update(SandboxId("sb-00000000"), {"generation": 1})
    assert [await found(stores, each) for each in (row, other)] == [row, other]


async def test_the_end_of_a_sandbox_is_the_end_of_its_period(stores: Stores) -> None:
    """Also when the same move would start one."""
    org = await stores.new_org()
    row = await in_state(stores, org, RUNNING)
    await stores.sandboxes.move(row.id, RUNNING, STOPPED, at=rows.at(2), fields={"due_at": rows.at(9)})
    assert (await found(stores, row)).due_at is None


async def test_a_timeout_leaves_the_present_period_alone(stores: Stores) -> None:
    org = await stores.new_org()
    row = await in_state(stores, org, RUNNING)
    assert await stores.sandboxes.set_timeout(org, row.id, 77)
    assert await found(stores, row) == replace(row, timeout_seconds=77)


async def test_what_has_a_machine_or_will_have_one_counts(stores: Stores) -> None:
    counted: set[SandboxState] = set()
    for state in SandboxState:
        org = await stores.new_org()
        await stores.new_sandbox(org, state=state)
        try:
            await stores.new_sandbox(org, limit=1)
        except ConcurrencyLimit:
            counted.add(state)
    assert counted == set(SandboxState) - {HIBERNATED, STOPPED, FAILED}


async def test_a_sandbox_wakes_only_within_the_limit(stores: Stores) -> None:
    org, other = await stores.new_org(), await stores.new_org()
    await stores.new_sandbox(other, state=RUNNING)
    running = await stores.new_sandbox(org, state=RUNNING)
    asleep = await stores.new_sandbox(org, state=HIBERNATED)
    with pytest.raises(ConcurrencyLimit) as refused:
        await stores.sandboxes.move(
            asleep.id, HIBERNATED, WAKING, at=rows.at(1), fields=FIELDS, concurrency_limit=1
        )
    assert dict(refused.value.details) == {"active": 1, "limit": 1}
    assert await found(stores, asleep) == asleep
    await stores.sandboxes.move(running.id, RUNNING, HIBERNATING, at=rows.at(2))
    await stores.sandboxes.move(running.id, HIBERNATING, HIBERNATED, at=rows.at(2))
    assert await stores.sandboxes.move(asleep.id, HIBERNATED, WAKING, at=rows.at(3), concurrency_limit=1)
    assert await stores.sandboxes.move(running.id, HIBERNATED, WAKING, at=rows.at(4))


async def test_who_is_active_already_stays_so_whatever_the_limit(stores: Stores) -> None:
    org = await stores.new_org()
    first, second = [await stores.new_sandbox(org, state=RUNNING) for _ in range(2)]
    for row, before, after in (
        (first, RUNNING, HIBERNATING),
        (first, HIBERNATING, RUNNING),
        (second, RUNNING, STOPPED),
    ):
        assert await stores.sandboxes.move(row.id, before, after, at=rows.at(1), concurrency_limit=0)


async def test_a_move_that_comes_too_late_is_not_measured(stores: Stores) -> None:
    org = await stores.new_org()
    row = await stores.new_sandbox(org, state=WAKING)
    assert not await stores.sandboxes.move(row.id, HIBERNATED, WAKING, at=rows.at(1), concurrency_limit=1)


async def test_of_many_that_wake_one_sandbox_one_does(stores: Stores) -> None:
    org = await stores.new_org()
    row = await stores.new_sandbox(org, state=HIBERNATED)
    won = await asyncio.gather(
        *(
            stores.sandboxes.move(row.id, HIBERNATED, WAKING, at=rows.at(1), concurrency_limit=1)
            for _ in range(20)
        )
    )
    assert won.count(True) == 1


async def test_what_is_due_comes_longest_overdue_first(stores: Stores) -> None:
    made: dict[int, SandboxId] = {}
    for due in (30, 10, 20, 40):
        sandbox = await stores.new_sandbox(await stores.new_org(), state=RUNNING, due_at=rows.at(due))
        made[due] = sandbox.id
    await stores.new_sandbox(await stores.new_org(), state=RUNNING)
    assert list(await stores.sandboxes.due(rows.at(9.999), limit=9)) == []
    due = [row.id for row in await stores.sandboxes.due(rows.at(30), limit=9)]
    assert due == [made[10], made[20], made[30]]
    assert [row.id for row in await stores.sandboxes.due(rows.at(30), limit=2)] == due[:2]


async def test_only_what_runs_is_due(stores: Stores) -> None:
    org = await stores.new_org()
    for state in SandboxState:
        await stores.new_sandbox(org, state=state, due_at=rows.at(1))
    assert [row.state for row in await stores.sandboxes.due(rows.at(1), limit=99)] == [RUNNING]
