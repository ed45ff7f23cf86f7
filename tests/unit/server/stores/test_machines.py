"""Machine rows: what we want of each machine, from before it exists until after it is gone."""

from __future__ import annotations

import pytest

from opencomputer.server.contracts.driver import DriverRecord, MachineId
from opencomputer.server.contracts.stores import MachineRow, MachineState
from opencomputer.server.domain.errors import Gone
from opencomputer.server.domain.sandbox import ACTIVE, SandboxShape, SandboxState
from tests.support import rows
from tests.unit.server.stores.conftest import Stores

pytestmark = pytest.mark.anyio


async def only(stores: Stores) -> MachineRow:
    (row,) = await stores.machines.list()
    return row


async def test_a_row_is_there_before_the_machine(stores: Stores) -> None:
    row = rows.machine(layers=(rows.layer(), rows.layer()))
    await stores.machines.add(row)
    assert await only(stores) == row


async def test_what_a_driver_needs_to_find_a_machine_again_is_kept_exactly(stores: Stores) -> None:
    row = rows.machine()
    await stores.machines.add(row)
    record = DriverRecord("gvisor", row.id, {"pid": 12, "nested": {"list": [1, None, True, "ü"]}, "f": 1.5})
    await stores.machines.ready(row.id, record)
    found = await only(stores)
    assert (found.state, found.record) == (MachineState.READY, record)


async def test_a_claim_changes_both_sides(stores: Stores) -> None:
    org = await stores.new_org()
    sandbox = rows.sandbox(org)
    await stores.sandboxes.add(sandbox, concurrency_limit=None)
    row = rows.machine()
    await stores.machines.add(row)
    await stores.machines.claim(row.id, sandbox.id, "the new token")
    claimed = await only(stores)
    assert (claimed.state, claimed.sandbox_id, claimed.guest_token) == (
        MachineState.CLAIMED,
        sandbox.id,
        "the new token",
    )
    found = await stores.sandboxes.get(org, sandbox.id)
    assert found is not None
    assert found.machine_id == row.id


async def test_a_claim_writes_what_is_true_of_the_machine_with_it(stores: Stores) -> None:
    """At no moment has a sandbox one machine and the layers of another."""
    org = await stores.new_org()
    sandbox = await stores.new_sandbox(org, layers=(rows.layer(),), generation=1)
    row = rows.machine()
    await stores.machines.add(row)
    layers, shape = (rows.layer(), rows.layer()), SandboxShape(8192, 2, 20480)
    await stores.machines.claim(
        row.id, sandbox.id, "t", {"layers": layers, "shape": shape, "generation": 2, "patch_position": 3}
    )
    found = await stores.sandboxes.get(org, sandbox.id)
    assert found is not None
    assert (found.machine_id, found.layers, found.shape) == (row.id, layers, shape)
    assert (found.generation, found.patch_position) == (2, 3)


@pytest.mark.parametrize("state", sorted(set(SandboxState) - ACTIVE))
async def test_what_is_not_active_gets_no_machine(stores: Stores, state: SandboxState) -> None:
    """A sandbox that was killed while its machine was started, for example."""
    org = await stores.new_org()
    sandbox = await stores.new_sandbox(org, state=state)
    row = rows.machine()
    await stores.machines.add(row)
    with pytest.raises(Gone):
        await stores.machines.claim(row.id, sandbox.id, "t", {"generation": 2})
    assert await only(stores) == row
    assert await stores.sandboxes.get(org, sandbox.id) == sandbox


async def test_a_stop_is_recorded_before_it_is_done(stores: Stores) -> None:
    row = rows.machine()
    await stores.machines.add(row)
    await stores.machines.stopping(row.id)
    assert (await only(stores)).state is MachineState.STOPPING
    await stores.machines.remove(row.id)
    assert list(await stores.machines.list()) == []


async def test_what_is_gone_can_be_removed_and_stopped_again(stores: Stores) -> None:
    gone = MachineId("m000000000000000")
    await stores.machines.remove(gone)
    await stores.machines.stopping(gone)
    assert list(await stores.machines.list()) == []
