"""Images that cannot be built: what is said, and that nothing stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.images import PrefixRow
from opencomputer.server.contracts.machine import ExitStatus
from opencomputer.server.contracts.stores import MachineRow
from opencomputer.server.domain.builds import BuildState, ImageRow
from opencomputer.server.domain.errors import (
    BuildFailed,
    DiskFull,
    MachineLost,
    NoCapacity,
    NotReady,
    StartFailed,
)
from opencomputer.server.domain.snapshot import Snapshot, SnapshotPurpose, SnapshotState
from opencomputer.wire.ids import OrgId, SnapshotId
from tests.support.memory.images import ImageTables
from tests.support.memory.machines import MemoryHost, MemoryMachine
from tests.unit.server.services.harness import Node, settle
from tests.unit.server.services.image_harness import ALL, Building, Script, building, manifest, run, step

pytestmark = pytest.mark.anyio

TWO = manifest(run("one"), run("two"))


@pytest.fixture
def script(node: Node) -> Script:
    node.host = MemoryHost(ALL)
    script = Script()
    script.install(node.host)
    return script


async def failure(node: Node, value: dict[str, object], tables: ImageTables | None = None) -> str:
    async with building(node, tables) as images:
        with pytest.raises(BuildFailed) as caught:
            await images.build(value)
    assert node.host.machines == {}
    return caught.value.message


async def test_a_failing_step_is_named_with_the_end_of_what_it_said(node: Node, script: Script) -> None:
    script.fail["two"] = ExitStatus(7)
    script.say["two"] = [(1, b"so far so good\n"), (2, b"x" * 900 + b"\nno such thing\n")]
    message = await failure(node, TWO)
    assert message.startswith("step 2 (run) failed (exit 7): xxx")
    assert message.endswith("\nno such thing")
    assert len(message) < 540


async def test_what_is_wrong_may_also_be_on_standard_output(node: Node, script: Script) -> None:
    script.fail["two"], script.say["two"] = ExitStatus(1), [(1, b"1 test failed")]
    assert await failure(node, TWO) == "step 2 (run) failed (exit 1): 1 test failed"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (ExitStatus(137, 9, "timeout"), "timed out after 300 s"),
        (ExitStatus(127, error="/bin/sh: not found"), "/bin/sh: not found"),
        (ExitStatus(None), "exit unknown"),
    ],
)
async def test_other_ways_to_end(node: Node, script: Script, status: ExitStatus, words: str) -> None:
    script.fail["one"] = status
    assert await failure(node, TWO) == f"step 1 (run) failed ({words})"


async def test_steps_before_the_failing_one_are_kept_and_the_failure_is_not(
    node: Node, script: Script
) -> None:
    tables = ImageTables()
    script.fail["two"] = ExitStatus(1)
    await failure(node, TWO, tables)
    assert tables.images == {}
    script.fail.clear()
    script.commands.clear()
    async with building(node, tables) as images:
        await images.build(TWO)
    assert script.commands == ["two"]


async def test_a_file_that_cannot_be_put_is_a_failing_step(node: Node, script: Script) -> None:
    earlier = node.host.before

    async def before(event: str, machine: MachineId) -> None:
        if event == "identify":
            node.host.machines[machine].files.fail_on["/a"] = DiskFull()
        await earlier(event, machine)

    node.host.before = before
    message = await failure(node, manifest(run("one"), step("add_file", path="/a", content="")))
    assert message == "step 2 (add_file) failed (The sandbox's disk is full.)"


def at_step(name: str, number: int, error: Callable[[], BaseException]) -> Callable[[MemoryHost], None]:
    """Fail at the so-many-th step of this name on the host."""

    def install(host: MemoryHost) -> None:
        earlier, count = host.before, 0

        async def before(event: str, machine: MachineId) -> None:
            nonlocal count
            count += event == name
            if event == name and count == number:
                raise error()
            await earlier(event, machine)

        host.before = before

    return install


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (at_step("start", 1, StartFailed), BuildFailed, "the build's machine failed"),
        (at_step("start", 3, StartFailed), BuildFailed, "a machine made from it does not work"),
        (at_step("identify", 3, MachineLost), BuildFailed, "does not work"),
        (at_step("save", 1, MachineLost), BuildFailed, "the build's machine failed"),
        (at_step("start", 2, NoCapacity), NoCapacity, "capacity"),
        (at_step("save", 3, lambda: RuntimeError("odd")), RuntimeError, "odd"),
    ],
)
async def test_a_machine_that_fails_leaves_nothing(
    node: Node, script: Script, fault: Callable[[MemoryHost], None], kind: type[Exception], words: str
) -> None:
    fault(node.host)
    tables = ImageTables()
    async with building(node, tables) as images:
        with pytest.raises(kind, match=words):
            await images.build(TWO)
        assert images.artefacts.drafts == []
        assert await images.process.provisioning.rows() == []
        await images.build(TWO)
    assert node.host.machines == {}
    assert [row.state for row in tables.images.values()] == [BuildState.READY]


async def test_a_machine_that_ends_in_a_step_fails_it(node: Node, script: Script) -> None:
    script.hang.add("two")
    async with building(node) as images:
        asking = asyncio.create_task(images.build(TWO))
        await settle()
        next(iter(node.host.machines.values())).die()
        with pytest.raises(BuildFailed, match=r"step 2 \(run\) failed \(The sandbox's machine has ended"):
            await asking
    assert node.host.machines == {}


async def test_a_step_that_hangs_beyond_its_own_deadline_is_given_up(node: Node, script: Script) -> None:
    script.hang.add("one")
    async with building(node) as images:
        with pytest.raises(BuildFailed, match="timed out"):
            await images.build(TWO)
    assert node.host.machines == {}


async def test_a_build_goes_on_when_all_who_asked_leave(node: Node, script: Script) -> None:
    script.hang.add("two")
    async with building(node) as images:
        asking = [asyncio.create_task(images.build(TWO)) for _ in range(2)]
        await settle()
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        script.waiting[0].end()
        await settle()
        started = len(node.host.started)
        await images.build(TWO)
        assert len(node.host.started) == started


async def test_a_server_that_stops_takes_its_builds_along(node: Node, script: Script) -> None:
    """Who waits is told to ask again; the next life begins without a trace."""
    script.hang.add("two")
    tables = ImageTables()
    async with building(node, tables) as images:
        asking = asyncio.create_task(images.build(TWO))
        await settle()
    with pytest.raises(NotReady):
        await asking
    assert node.host.machines == {}
    script.hang.clear()
    script.commands.clear()
    async with building(node, tables) as images:
        await settle()
        await images.upkeep.recover()
        assert tables.images == {}
        await images.build(TWO)
    assert script.commands == ["two"]


@dataclass(frozen=True)
class Left:
    """What stores and host have at one moment: all there is after a SIGKILL."""

    machines: dict[MachineId, MemoryMachine]
    rows: dict[MachineId, MachineRow]
    snapshots: dict[SnapshotId, Snapshot]
    images: dict[tuple[OrgId, str], ImageRow]
    prefixes: dict[tuple[OrgId, str], PrefixRow]

    @classmethod
    def of(cls, node: Node, tables: ImageTables) -> Left:
        return cls(
            dict(node.host.machines),
            dict(node.tables.machines),
            dict(node.tables.snapshots),
            dict(tables.images),
            dict(tables.prefixes),
        )

    def put_back(self, node: Node, tables: ImageTables) -> None:
        node.host.machines = self.machines
        node.tables.machines = self.rows
        node.tables.snapshots = self.snapshots
        tables.images, tables.prefixes = self.images, self.prefixes


class Gap:
    """The so-many-th time that something of this name is about to happen, on the host or in a store."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._left = number
        self.reached = asyncio.Event()

    async def come(self, name: str) -> None:
        if self.reached.is_set() or name != self._name:
            return
        self._left -= 1
        if self._left == 0:
            self.reached.set()
            await asyncio.Event().wait()


async def killed_while_building(node: Node, tables: ImageTables, gap: Gap) -> None:
    on_host, in_stores = node.host.before, node.tables.before

    async def host_step(event: str, machine: MachineId) -> None:
        await gap.come(event)
        await on_host(event, machine)

    async with building(node, tables) as images:
        node.host.before, node.tables.before = host_step, gap.come
        images.artefacts.before = lambda event, _: gap.come(event)
        asking = asyncio.create_task(images.build(TWO))
        await asyncio.wait_for(gap.reached.wait(), 60)
        left = Left.of(node, tables)
        asking.cancel()
        node.host.before, node.tables.before = on_host, in_stores
    left.put_back(node, tables)
    await settle()


GAPS = [
    "start",
    "started",
    "identify",
    "save",
    "stop",
    "snapshots.add",
    "snapshots.ready",
    "keep_layer",
    "kept",
]


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("name", GAPS)
async def test_a_server_that_is_killed_leaves_nothing_in_between(
    node: Node, script: Script, name: str, number: int
) -> None:
    """At every gap of a build: what is there afterwards is ready, or not there, and can be built."""
    tables = ImageTables()
    await killed_while_building(node, tables, Gap(name, number))
    async with node.process(recover=True) as process:
        images = Building(node, process, tables)
        await settle()
        await images.upkeep.recover()
        assert all(row.state is BuildState.READY for row in tables.images.values())
        assert await images.snapshots.in_state(SnapshotState.PROCESSING, SnapshotPurpose.IMAGE) == []
        snapshot = await images.build(TWO)
        assert snapshot.state is SnapshotState.READY
        assert await process.provisioning.rows() == []
        assert images.artefacts.drafts == []
    assert node.host.machines == {}
