"""Snapshots in every store: named once, ready once, removed with their patches, never collected too early."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from opencomputer.server.contracts.stores import Wanted
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import Conflict
from opencomputer.server.domain.sandbox import TERMINAL, SandboxShape, SandboxState
from opencomputer.server.domain.snapshot import Origin, Snapshot, SnapshotKind, SnapshotPurpose, SnapshotState
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId
from tests.support import rows
from tests.unit.server.stores.conftest import Stores

pytestmark = pytest.mark.anyio

PROCESSING, READY, FAILED = SnapshotState.PROCESSING, SnapshotState.READY, SnapshotState.FAILED
CHECKPOINT, HIBERNATION, IMAGE = (
    SnapshotPurpose.CHECKPOINT,
    SnapshotPurpose.HIBERNATION,
    SnapshotPurpose.IMAGE,
)
MINE = SandboxId("sb-00000001")
ANOTHER = SandboxId("sb-00000002")


def of(*layers: str) -> Origin:
    return replace(rows.checkpoint(OrgId(""), MINE).origin, layers=layers)


async def ids_of(stores: Stores, org: OrgId, sandbox_id: SandboxId = MINE) -> list[SnapshotId]:
    return [row.id for row in await stores.snapshots.checkpoints(org, sandbox_id)]


async def test_a_row_comes_back_as_it_was_given(stores: Stores) -> None:
    org = await stores.new_org()
    origin = Origin(
        template="base",
        template_hash="h2",
        shape=SandboxShape(8192, 2, 30000),
        layers=(rows.layer(), rows.layer()),
        environment={"ÜMLAUT": "a\nb"},
        metadata={"": "empty"},
        workdir="/srv",
        network_enabled=False,
        generation=7,
        patch_source=naming.new_snapshot_id(),
        patch_position=3,
    )
    full = await stores.new_checkpoint(
        org,
        MINE,
        state=READY,
        origin=origin,
        memory=rows.memory(),
        size_bytes=5 << 40,
        is_public=True,
        ready_at=rows.at(1.000001),
    )
    failed = await stores.new_checkpoint(
        org, MINE, kind=SnapshotKind.DISK_ONLY, state=FAILED, error="no\nroom", failed_at=rows.at(2)
    )
    image = replace(rows.checkpoint(org, MINE, purpose=IMAGE, name=""), sandbox_id=None)
    await stores.snapshots.add(image)
    for row in (full, failed, image):
        assert await stores.snapshots.get(row.id) == row
    assert await stores.snapshots.get(naming.new_snapshot_id()) is None


async def test_only_checkpoints_are_listed_newest_first_for_their_organisation(stores: Stores) -> None:
    mine, other = await stores.new_org(), await stores.new_org()
    made = {age: await stores.new_checkpoint(mine, MINE, created_at=rows.at(age)) for age in (1, 3, 2)}
    await stores.new_checkpoint(mine, ANOTHER)
    for purpose in (HIBERNATION, IMAGE):
        await stores.new_checkpoint(mine, MINE, purpose=purpose)
    assert list(await stores.snapshots.checkpoints(mine, MINE)) == [made[3], made[2], made[1]]
    assert await ids_of(stores, other) == []


async def test_a_name_is_taken_once_per_sandbox_until_it_fails(stores: Stores) -> None:
    org = await stores.new_org()
    first = await stores.new_checkpoint(org, MINE, name="before")
    await stores.new_checkpoint(org, ANOTHER, name="before")
    await stores.new_checkpoint(org, MINE, name="Before")
    for purpose in (HIBERNATION, IMAGE):
        await stores.new_checkpoint(org, MINE, name="before", purpose=purpose)
        await stores.new_checkpoint(org, MINE, name="before", purpose=purpose)
    with pytest.raises(Conflict, match="name") as refused:
        await stores.new_checkpoint(org, MINE, name="before")
    assert dict(refused.value.details) == {"field": "name"}
    await stores.snapshots.ready(first.id, (), None, size_bytes=1, at=rows.at(1))
    with pytest.raises(Conflict):
        await stores.new_checkpoint(org, MINE, name="before")


async def test_a_name_is_free_again_after_failure_and_removal(stores: Stores) -> None:
    org = await stores.new_org()
    for _ in range(2):
        failing = await stores.new_checkpoint(org, MINE, name="before")
        await stores.snapshots.fail(failing.id, "no", rows.at(1))
        await stores.new_checkpoint(org, MINE, name="before", state=FAILED)
        removed = await stores.new_checkpoint(org, MINE, name="before")
        await stores.snapshots.remove(removed.id)
    await stores.new_checkpoint(org, MINE, name="before")
    assert len(await ids_of(stores, org)) == 5


async def test_of_many_with_one_name_one_is_kept(stores: Stores) -> None:
    org = await stores.new_org()
    answers = await asyncio.gather(
        *(stores.new_checkpoint(org, MINE, name="same") for _ in range(10)), return_exceptions=True
    )
    (kept,) = [answer for answer in answers if isinstance(answer, Snapshot)]
    assert sum(isinstance(answer, Conflict) for answer in answers) == 9
    assert await ids_of(stores, org) == [kept.id]


async def test_a_checkpoint_takes_the_place_and_may_take_the_name_of_others(stores: Stores) -> None:
    org = await stores.new_org()
    old = [await stores.new_checkpoint(org, MINE, name=name) for name in ("a", "b", "c")]
    await stores.new_patch(old[0].id)
    new = rows.checkpoint(org, MINE, name="a")
    await stores.snapshots.add(new, instead_of=[old[0].id, old[1].id])
    assert set(await ids_of(stores, org)) == {old[2].id, new.id}
    assert list(await stores.patches.list(old[0].id)) == []


async def test_a_refused_checkpoint_replaces_nothing(stores: Stores) -> None:
    org = await stores.new_org()
    first, second = [await stores.new_checkpoint(org, MINE, name=name) for name in ("a", "b")]
    patch = await stores.new_patch(first.id)
    with pytest.raises(Conflict):
        await stores.snapshots.add(rows.checkpoint(org, MINE, name="b"), instead_of=[first.id])
    assert set(await ids_of(stores, org)) == {first.id, second.id}
    assert list(await stores.patches.list(first.id)) == [patch]


async def test_a_snapshot_is_ready_once_with_all_that_it_is_made_of(stores: Stores) -> None:
    org = await stores.new_org()
    row = await stores.new_checkpoint(org, MINE, origin=of(rows.layer()))
    layers, memory = (rows.layer(), rows.layer()), rows.memory()
    assert await stores.snapshots.ready(row.id, layers, memory, size_bytes=3 << 32, at=rows.at(4))
    expected = replace(
        row,
        state=READY,
        origin=replace(row.origin, layers=layers),
        memory=memory,
        size_bytes=3 << 32,
        ready_at=rows.at(4),
    )
    assert await stores.snapshots.get(row.id) == expected
    assert not await stores.snapshots.ready(row.id, (), None, size_bytes=1, at=rows.at(5))
    assert not await stores.snapshots.fail(row.id, "too late", rows.at(5))
    assert await stores.snapshots.get(row.id) == expected


async def test_a_snapshot_fails_once(stores: Stores) -> None:
    org = await stores.new_org()
    row = await stores.new_checkpoint(org, MINE)
    assert await stores.snapshots.fail(row.id, "no room", rows.at(4))
    expected = replace(row, state=FAILED, error="no room", failed_at=rows.at(4))
    assert await stores.snapshots.get(row.id) == expected
    assert not await stores.snapshots.fail(row.id, "again", rows.at(5))
    assert not await stores.snapshots.ready(row.id, (), None, size_bytes=1, at=rows.at(5))
    assert await stores.snapshots.get(row.id) == expected


async def test_what_was_removed_does_not_come_back(stores: Stores) -> None:
    org = await stores.new_org()
    row = await stores.new_checkpoint(org, MINE)
    kept = await stores.new_checkpoint(org, MINE)
    for each in (row, kept):
        await stores.new_patch(each.id)
    assert await stores.snapshots.remove(row.id)
    assert not await stores.snapshots.remove(row.id)
    assert not await stores.snapshots.ready(row.id, (), None, size_bytes=1, at=rows.at(1))
    assert not await stores.snapshots.fail(row.id, "gone", rows.at(1))
    await stores.snapshots.publish(row.id, True)
    assert await stores.snapshots.get(row.id) is None
    assert list(await stores.patches.list(row.id)) == []
    assert await ids_of(stores, org) == [kept.id]
    assert len(await stores.patches.list(kept.id)) == 1


async def test_a_checkpoint_is_published_and_withdrawn(stores: Stores) -> None:
    org = await stores.new_org()
    row = await stores.new_checkpoint(org, MINE)
    for public in (True, True, False):
        await stores.snapshots.publish(row.id, public)
        assert await stores.snapshots.get(row.id) == replace(row, is_public=public)


async def test_recovery_sees_the_snapshots_of_all_organisations(stores: Stores) -> None:
    made: dict[tuple[SnapshotState, SnapshotPurpose], SnapshotId] = {}
    for state in SnapshotState:
        for purpose in SnapshotPurpose:
            row = await stores.new_checkpoint(await stores.new_org(), MINE, state=state, purpose=purpose)
            made[state, purpose] = row.id
    for state in SnapshotState:
        found = {row.id for row in await stores.snapshots.in_state(state)}
        assert found == {made[state, purpose] for purpose in SnapshotPurpose}
    assert [row.id for row in await stores.snapshots.in_state(READY, IMAGE)] == [made[READY, IMAGE]]


async def test_nothing_is_wanted_where_nothing_is(stores: Stores) -> None:
    assert await stores.snapshots.wanted() == Wanted(frozenset(), frozenset())


async def test_wanted_is_what_any_snapshot_or_sandbox_may_still_need(stores: Stores) -> None:
    org = await stores.new_org()
    shared = rows.layer()
    layers, memories = {shared}, set[str]()
    for state in SnapshotState:
        for purpose in SnapshotPurpose:
            own, memory = rows.layer(), rows.memory()
            await stores.new_checkpoint(
                org, MINE, state=state, purpose=purpose, origin=of(shared, own), memory=memory
            )
            if state is not FAILED:
                layers.add(own)
                memories.add(memory.id)
    for state in SandboxState:
        below, origin = rows.layer(), rows.layer()
        await stores.new_sandbox(org, state=state, layers=(shared, below), origin_layers=(origin,))
        if state not in TERMINAL:
            layers |= {below, origin}
    wanted = await stores.snapshots.wanted()
    assert wanted.layers == layers
    assert wanted.memories == memories


async def test_the_template_builds_that_snapshots_and_sandboxes_stand_on_are_wanted(stores: Stores) -> None:
    org = await stores.new_org()
    for state in SnapshotState:
        build = Origin(template="base", template_hash=f"of {state}", shape=rows.SHAPE)
        await stores.new_checkpoint(org, MINE, state=state, origin=build)
    for state in (SandboxState.RUNNING, SandboxState.HIBERNATED, SandboxState.STOPPED, SandboxState.FAILED):
        await stores.new_sandbox(org, state=state, template_hash=f"of {state}")
    wanted = await stores.snapshots.wanted()
    assert wanted.template_hashes == {"of processing", "of ready", "of running", "of hibernated"}


async def test_what_a_machine_stands_on_is_wanted_as_long_as_the_machine_is_there(stores: Stores) -> None:
    row = rows.machine(template_hash="of a machine", layers=(rows.layer(), rows.layer()))
    await stores.machines.add(row)
    await stores.machines.stopping(row.id)
    assert await stores.snapshots.wanted() == Wanted(
        frozenset(row.layers), frozenset(), frozenset({"of a machine"})
    )
    await stores.machines.remove(row.id)
    assert await stores.snapshots.wanted() == Wanted(frozenset(), frozenset())


async def test_what_is_failed_removed_or_stopped_is_not_wanted_any_more(stores: Stores) -> None:
    org = await stores.new_org()
    failing = await stores.new_checkpoint(org, MINE, origin=of(rows.layer()))
    removed = await stores.new_checkpoint(
        org, MINE, state=READY, origin=of(rows.layer()), memory=rows.memory()
    )
    stopped = await stores.new_sandbox(org, layers=(rows.layer(),), origin_layers=(rows.layer(),))
    await stores.snapshots.fail(failing.id, "no", rows.at(1))
    await stores.snapshots.remove(removed.id)
    await stores.sandboxes.move(stopped.id, SandboxState.CREATING, SandboxState.STOPPED, at=rows.at(1))
    assert await stores.snapshots.wanted() == Wanted(frozenset(), frozenset())


async def test_checkpoints_that_others_need_are_protected(stores: Stores) -> None:
    org = await stores.new_org()
    patched, forked, followed, free, elsewhere = [
        await stores.new_checkpoint(org, sandbox_id) for sandbox_id in (MINE, MINE, MINE, MINE, ANOTHER)
    ]
    hibernation = await stores.new_checkpoint(org, MINE, purpose=HIBERNATION)
    patch = await stores.new_patch(patched.id)
    await stores.new_patch(elsewhere.id)
    fork = await stores.new_sandbox(await stores.new_org(), from_checkpoint=forked.id)
    await stores.new_sandbox(org, state=SandboxState.HIBERNATED, patch_source=followed.id)
    await stores.new_sandbox(org, state=SandboxState.STOPPED, from_checkpoint=free.id, patch_source=free.id)
    await stores.new_sandbox(org, from_checkpoint=hibernation.id)
    assert await stores.snapshots.protected(MINE) == {patched.id, forked.id, followed.id}
    await stores.sandboxes.move(fork.id, SandboxState.CREATING, SandboxState.FAILED, at=rows.at(1))
    await stores.patches.remove(patched.id, patch.id)
    assert await stores.snapshots.protected(MINE) == {followed.id}
