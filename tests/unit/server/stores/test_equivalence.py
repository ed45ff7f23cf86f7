"""The stores in memory do what the real ones do, whatever comes in whatever order.

Tests of services use them in place of the real ones, so that a difference would make those tests worth less.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.stores import MachineRow, SandboxFields
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.layers import LayerId
from opencomputer.server.domain.sandbox import (
    TRANSITIONS,
    Elasticity,
    Sandbox,
    SandboxShape,
    SandboxState,
    StopReason,
)
from opencomputer.server.domain.snapshot import Patch, Snapshot, SnapshotKind, SnapshotPurpose, SnapshotState
from opencomputer.server.domain.usage import Window
from opencomputer.server.stores.sql.database import Database
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId
from tests.support import rows
from tests.unit.server.stores.conftest import Stores, memory_stores, sql_stores

pytestmark = pytest.mark.anyio

_STEPS = 150
_SOURCES = [SandboxId("sb-00000001"), SandboxId("sb-00000002")]
_LAYERS = [rows.layer() for _ in range(6)]


@dataclass
class Play:
    """Makes one step after the other, each of random values, and knows what there is to make it with."""

    org: OrgId
    chance: random.Random
    sandboxes: Sequence[Sandbox] = ()
    snapshots: list[Snapshot] = field(default_factory=list[Snapshot])
    machines: list[MachineRow] = field(default_factory=list[MachineRow])
    patches: list[Patch] = field(default_factory=list[Patch])

    def step(self) -> Callable[[Stores], Awaitable[object]]:
        steps = [self._add_sandbox, self._add_snapshot]
        if self.sandboxes:
            steps += [self._move, self._move, self._move, self._update, self._rescale, self._rescale]
            steps += [self._add_machine, self._remove_machine]
        if self.snapshots:
            steps += [self._ready, self._fail, self._remove, self._add_patch, self._add_patch]
        if self.patches:
            steps += [self._remove_patch]
        return self.chance.choice(steps)()

    def _layers(self) -> tuple[LayerId, ...]:
        return tuple(self.chance.sample(_LAYERS, self.chance.randrange(3)))

    def _checkpoint(self) -> SnapshotId | None:
        return self.chance.choice([None, *(row.id for row in self.snapshots)])

    def _add_sandbox(self) -> Callable[[Stores], Awaitable[object]]:
        row = rows.sandbox(
            self.org,
            idempotency_key=self.chance.choice([None, None, None, "a", "b"]),
            layers=self._layers(),
            origin_layers=self._layers(),
            state=self.chance.choice([SandboxState.CREATING, SandboxState.HIBERNATED]),
            shape=SandboxShape(4096, 1, self.chance.choice([20480, 30000])),
            from_checkpoint=self._checkpoint(),
            patch_source=self._checkpoint(),
        )
        return lambda stores: stores.sandboxes.add(row, concurrency_limit=6)

    def _move(self) -> Callable[[Stores], Awaitable[object]]:
        row = self.chance.choice(self.sandboxes)
        before = self.chance.choice([row.state] * 20 + list(SandboxState))
        after = self.chance.choice([*sorted(TRANSITIONS[before]), SandboxState.RUNNING])
        at, fields = rows.at(self.chance.randrange(1000)), self._fields()
        limit = self.chance.choice([None, 3])
        return lambda stores: stores.sandboxes.move(
            row.id, before, after, at=at, reason=StopReason.CRASH, fields=fields, concurrency_limit=limit
        )

    def _add_machine(self) -> Callable[[Stores], Awaitable[object]]:
        row, layers = self.chance.choice(self.sandboxes), self._layers()
        machine = rows.machine(template_hash=self.chance.choice("abc"), layers=layers)
        self.machines.append(machine)

        async def add_and_claim(stores: Stores) -> None:
            await stores.machines.add(machine)
            await stores.machines.claim(machine.id, row.id, "a token", {"layers": layers})

        return add_and_claim

    def _remove_machine(self) -> Callable[[Stores], Awaitable[object]]:
        gone = self.machines.pop().id if self.machines else MachineId("m000000000000000")
        return lambda stores: stores.machines.remove(gone)

    def _update(self) -> Callable[[Stores], Awaitable[object]]:
        row, fields = self.chance.choice(self.sandboxes), self._fields()
        return lambda stores: stores.sandboxes.update(row.id, fields)

    def _rescale(self) -> Callable[[Stores], Awaitable[object]]:
        row = self.chance.choice(self.sandboxes)
        before = self.chance.choice([row.elasticity, row.elasticity, self._elasticity()])
        after, shape = self._elasticity(), self.chance.choice([None, SandboxShape(8192, 2, 20480)])
        at = rows.at(self.chance.randrange(1000))
        return lambda stores: stores.sandboxes.rescale(row.id, before, after, at=at, shape=shape)

    def _elasticity(self) -> Elasticity:
        return Elasticity(
            locked=self.chance.random() < 0.5,
            autoscale=self.chance.random() < 0.5,
            min_memory_mb=self.chance.choice([None, 1024]),
            up_after=self.chance.choice([None, rows.at(7)]),
            resize_mb=self.chance.choice([None, 8192]),
        )

    def _fields(self) -> SandboxFields:
        changes: list[SandboxFields] = [
            {},
            {"due_at": rows.at(self.chance.randrange(1000)), "patch_position": self.chance.randrange(9)},
            {"due_at": None, "recovered": self.chance.randrange(3)},
            {"hibernation": self._checkpoint(), "generation": self.chance.randrange(9)},
        ]
        return self.chance.choice(changes)

    def _add_snapshot(self) -> Callable[[Stores], Awaitable[object]]:
        row = rows.checkpoint(
            self.org,
            self.chance.choice(_SOURCES),
            name=self.chance.choice("abc"),
            purpose=self.chance.choice([SnapshotPurpose.CHECKPOINT, *SnapshotPurpose]),
            kind=self.chance.choice(list(SnapshotKind)),
            created_at=rows.at(self.chance.randrange(5)),
        )
        replaced = [each.id for each in self.chance.sample(self.snapshots, min(1, len(self.snapshots)))]
        instead_of = self.chance.choice([[], replaced])
        self.snapshots.append(row)
        return lambda stores: stores.snapshots.add(row, instead_of=instead_of)

    def _ready(self) -> Callable[[Stores], Awaitable[object]]:
        row, layers = self.chance.choice(self.snapshots), rows.layer()
        memory = self.chance.choice([None, rows.memory()])
        return lambda stores: stores.snapshots.ready(row.id, (layers,), memory, size_bytes=5, at=rows.at(9))

    def _fail(self) -> Callable[[Stores], Awaitable[object]]:
        row = self.chance.choice(self.snapshots)
        return lambda stores: stores.snapshots.fail(row.id, "no room", rows.at(9))

    def _remove(self) -> Callable[[Stores], Awaitable[object]]:
        row = self.chance.choice(self.snapshots)
        return lambda stores: stores.snapshots.remove(row.id)

    def _add_patch(self) -> Callable[[Stores], Awaitable[object]]:
        patch = rows.patch(self.chance.choice(self.snapshots).id)
        self.patches.append(patch)
        return lambda stores: stores.patches.add(patch)

    def _remove_patch(self) -> Callable[[Stores], Awaitable[object]]:
        patch = self.chance.choice(self.patches)
        return lambda stores: stores.patches.remove(patch.checkpoint_id, patch.id)


async def outcome(step: Callable[[Stores], Awaitable[object]], stores: Stores) -> object:
    try:
        return await step(stores)
    except OpenComputerError as error:
        return type(error), dict(error.details)


async def everything(stores: Stores, play: Play) -> object:
    """What can be asked of the stores, without the order where none is promised."""
    sandboxes = await stores.sandboxes.in_states(list(SandboxState))
    snapshots = [each for state in SnapshotState for each in await stores.snapshots.in_state(state)]
    return (
        {row.id: row for row in sandboxes},
        {row.id: row for row in snapshots},
        await stores.sandboxes.due(rows.at(500), limit=5),
        {row.id: row for row in await stores.sandboxes.autoscaled()},
        [await stores.patches.list(row.id) for row in play.snapshots],
        [await stores.snapshots.checkpoints(play.org, each) for each in _SOURCES],
        [await stores.snapshots.protected(each) for each in _SOURCES],
        {row.id: row for row in await stores.machines.list()},
        await stores.snapshots.wanted(),
        {row.id: await stores.usage.intervals_of(row.id, Window(0, 2**40)) for row in sandboxes},
    )


@pytest.mark.parametrize("seed", range(4))
async def test_any_sequence_of_steps_has_the_same_outcome(database: Database, seed: int) -> None:
    real, memory = sql_stores(database), memory_stores()
    organisation = rows.organisation()
    play = Play(organisation.id, random.Random(seed))
    for stores in (real, memory):
        await stores.organisations.add(organisation)
    for count in range(_STEPS):
        play.sandboxes = await memory.sandboxes.in_states(list(SandboxState))
        step = play.step()
        assert await outcome(step, real) == await outcome(step, memory), f"step {count} of {seed}"
    assert await everything(real, play) == await everything(memory, play)
