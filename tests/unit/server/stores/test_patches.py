"""Patches: numbered per checkpoint, each number once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.snapshot import Snapshot
from opencomputer.wire.ids import SandboxId
from tests.support import rows
from tests.unit.server.stores.conftest import Stores

pytestmark = pytest.mark.anyio


async def new_checkpoint(stores: Stores) -> Snapshot:
    return await stores.new_checkpoint(await stores.new_org(), SandboxId("sb-00000001"))


async def test_a_patch_comes_back_with_the_number_it_got(stores: Stores) -> None:
    checkpoint = await new_checkpoint(stores)
    given = rows.patch(
        checkpoint.id, sequence=99, script="echo 'ü'\n", description="why", created_at=rows.at(3)
    )
    added = await stores.patches.add(given)
    assert added == replace(given, sequence=1)
    assert list(await stores.patches.list(checkpoint.id)) == [added]


async def test_numbers_ascend_per_checkpoint(stores: Stores) -> None:
    first, second = [await new_checkpoint(stores) for _ in range(2)]
    for checkpoint in (first, second):
        assert [(await stores.new_patch(checkpoint.id)).sequence for _ in range(3)] == [1, 2, 3]


async def test_a_number_is_never_used_again(stores: Stores) -> None:
    checkpoint = await new_checkpoint(stores)
    patches = [await stores.new_patch(checkpoint.id) for _ in range(3)]
    for patch in patches[1:]:
        assert await stores.patches.remove(checkpoint.id, patch.id)
    assert (await stores.new_patch(checkpoint.id)).sequence == 4
    assert [patch.sequence for patch in await stores.patches.list(checkpoint.id)] == [1, 4]


async def test_patches_are_listed_in_order_from_a_position_on(stores: Stores) -> None:
    checkpoint, other = [await new_checkpoint(stores) for _ in range(2)]
    patches = [await stores.new_patch(checkpoint.id) for _ in range(12)]
    await stores.new_patch(other.id)
    for after in (0, 1, 11, 12, 13):
        assert list(await stores.patches.list(checkpoint.id, after=after)) == patches[after:]


async def test_a_patch_is_removed_once_and_only_from_its_own_checkpoint(stores: Stores) -> None:
    checkpoint, other = [await new_checkpoint(stores) for _ in range(2)]
    patch = await stores.new_patch(checkpoint.id)
    assert not await stores.patches.remove(other.id, patch.id)
    assert not await stores.patches.remove(checkpoint.id, naming.new_patch_id())
    assert list(await stores.patches.list(checkpoint.id)) == [patch]
    assert await stores.patches.remove(checkpoint.id, patch.id)
    assert not await stores.patches.remove(checkpoint.id, patch.id)


async def test_a_checkpoint_that_is_gone_gets_no_patches(stores: Stores) -> None:
    checkpoint = await new_checkpoint(stores)
    await stores.snapshots.remove(checkpoint.id)
    with pytest.raises(NotFound):
        await stores.new_patch(checkpoint.id)
    assert list(await stores.patches.list(checkpoint.id)) == []


async def test_patches_added_at_once_have_different_numbers(stores: Stores) -> None:
    checkpoint = await new_checkpoint(stores)
    added = await asyncio.gather(*(stores.new_patch(checkpoint.id) for _ in range(12)))
    assert sorted(patch.sequence for patch in added) == list(range(1, 13))
    listed = await stores.patches.list(checkpoint.id)
    assert list(listed) == sorted(added, key=lambda patch: patch.sequence)
