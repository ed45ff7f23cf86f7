"""Images: built once by content, from the longest part that is kept, and nothing left in between."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.templates import TemplateLayers
from opencomputer.server.domain.builds import BuildState
from opencomputer.server.domain.errors import (
    InvalidInput,
    SnapshotRefused,
)
from opencomputer.server.domain.snapshot import SnapshotKind, SnapshotPurpose, SnapshotState
from opencomputer.server.services.sandboxes.build_log import BuildLine
from tests.support.memory.images import ImageTables
from tests.support.memory.machines import MemoryHost
from tests.unit.server.services.harness import BASE, ORG, OTHER_ORG, Node, settle
from tests.unit.server.services.image_harness import ALL, Script, building, manifest, run, step

pytestmark = pytest.mark.anyio

TWO = manifest(run("one"), run("two"))


@pytest.fixture
def script(node: Node) -> Script:
    node.host = MemoryHost(ALL)
    script = Script()
    script.install(node.host)
    return script


async def test_an_image_is_built_in_order_and_told_line_by_line(node: Node, script: Script) -> None:
    script.say["one"] = [(1, b"hel"), (1, b"lo\nwor"), (2, b"warning\n"), (1, b"ld")]
    lines: list[BuildLine] = []
    async with building(node) as images:
        snapshot = await images.build(TWO, lines)
    assert script.commands == ["one", "two"]
    assert [(line.step, line.type) for line in lines if line.message.startswith("Step")] == [
        (1, "run"),
        (1, "run"),
        (2, "run"),
        (2, "run"),
    ]
    assert [line.message for line in lines if line.step == 1][1:-1] == ["hello", "warning", "world"]
    assert (lines[0].step, lines[0].type) == (0, "build")
    assert (lines[-1].step, lines[-1].type) == (3, "checkpoint")
    assert (snapshot.purpose, snapshot.kind) == (SnapshotPurpose.IMAGE, SnapshotKind.FULL)
    assert snapshot.state is SnapshotState.READY
    assert snapshot.origin.shape.memory_mb == 1024
    assert node.host.machines == {}


async def test_what_is_built_is_found_again_without_a_machine(node: Node, script: Script) -> None:
    lines: list[BuildLine] = []
    async with building(node) as images:
        first = await images.build(TWO)
        started = len(node.host.started)
        assert await images.build(manifest(*TWO["steps"], builderMemoryMB=8192), lines) == first
        assert len(node.host.started) == started
    assert [line.type for line in lines] == ["cache_hit"]


async def test_requests_at_the_same_time_share_one_build_and_its_log(node: Node, script: Script) -> None:
    script.hang.add("two")
    logs: list[list[BuildLine]] = [[] for _ in range(3)]
    async with building(node) as images:
        asking = [asyncio.create_task(images.build(TWO, logs[0]))]
        await settle()
        asking += [asyncio.create_task(images.build(TWO, log)) for log in logs[1:]]
        await settle()
        script.waiting[0].end()
        built = [await each for each in asking]
    assert built[0] == built[1] == built[2]
    assert script.commands == ["one", "two"]
    assert logs[0] == logs[1] == logs[2]
    assert len(logs[0]) == 6


async def test_organisations_share_nothing(node: Node, script: Script) -> None:
    async with building(node) as images:
        mine = await images.build(TWO)
        theirs = await images.build(TWO, org=OTHER_ORG)
        assert (mine.org_id, theirs.org_id) == (ORG, OTHER_ORG)
        assert len(await images.images.list(ORG)) == 1
    assert script.commands == ["one", "two"] * 2


async def test_only_what_comes_after_the_longest_kept_part_is_run(node: Node, script: Script) -> None:
    lines: list[BuildLine] = []
    async with building(node) as images:
        await images.build(TWO)
        script.commands.clear()
        await images.build(manifest(*TWO["steps"], run("three"), run("four")), lines)
        assert script.commands == ["three", "four"]
        script.commands.clear()
        await images.build(manifest(run("one"), run("other")))
        assert script.commands == ["other"]
        script.commands.clear()
        await images.build(manifest(run("zero"), *TWO["steps"]))
        assert script.commands == ["zero", "one", "two"]
    assert [line.message for line in lines if "cached" in line.message] == [
        "Step 1/4 (run): cached",
        "Step 2/4 (run): cached",
    ]


async def test_steps_that_run_nothing_are_repeated_and_not_kept_apart(node: Node, script: Script) -> None:
    """They cost nothing, a layer each would."""
    steps = [
        step("env", vars={"A": "1"}),
        step("workdir", path="/app"),
        run("one"),
        step("env", vars={"B": "2"}),
    ]
    tables = ImageTables()
    async with building(node, tables) as images:
        snapshot = await images.build(manifest(*steps))
    assert len(tables.prefixes) == 2
    assert snapshot.origin.environment == {"A": "1", "B": "2"}
    assert snapshot.origin.workdir == "/app"


async def test_a_part_is_kept_without_memory_and_with_what_it_has_to_know(node: Node, script: Script) -> None:
    async with building(node) as images:
        await images.build(manifest(step("env", vars={"A": "1"}), run("one"), run("two")))
        kept = await images.snapshots.in_state(SnapshotState.READY, SnapshotPurpose.IMAGE)
        parts = [each for each in kept if each.kind is SnapshotKind.DISK_ONLY]
    assert len(parts) == 2
    assert all(each.origin.environment == {"A": "1"} for each in parts)
    assert sorted(len(each.origin.layers) for each in parts) == [1, 2]


async def test_variables_and_directory_hold_for_later_steps(node: Node, script: Script) -> None:
    async with building(node) as images:
        await images.build(
            manifest(run("one"), step("env", vars={"A": "1"}), step("workdir", path="/app"), run("two"))
        )
    specs = [process.spec for process in script.processes if process.spec.user == "sandbox"]
    one, two = (next(spec for spec in specs if f"eval {word}" in spec.argv[-1]) for word in ("one", "two"))
    assert (dict(one.environment), one.cwd) == ({}, None)
    assert (dict(two.environment), two.cwd) == ({"A": "1"}, "/app")


async def test_a_template_has_its_say_below_the_image(node: Node, script: Script) -> None:
    node.templates.templates = [
        TemplateLayers("oci", "h9", BASE.layers, environment={"A": "0", "T": "1"}, workdir="/srv")
    ]
    async with building(node) as images:
        snapshot = await images.build({"base": "oci", "steps": [step("env", vars={"A": "1"}), run("one")]})
    assert snapshot.origin.environment == {"A": "1", "T": "1"}
    assert snapshot.origin.workdir == "/srv"
    assert snapshot.origin.template == "oci"


async def test_an_unknown_template_is_a_fault_of_the_manifest(node: Node, script: Script) -> None:
    async with building(node) as images:
        with pytest.raises(InvalidInput) as caught:
            images.images.prepare({"base": "no-such"})
    assert caught.value.details["field"] == "image.base"


async def test_the_build_has_the_memory_it_asks_for(node: Node, script: Script) -> None:
    async with building(node) as images:
        snapshot = await images.build(manifest(run("one"), builderMemoryMB=10000, runtimeMemoryMB=4096))
    sizes = [(spec.limits.memory_bytes >> 20, spec.limits.cpu_percent) for spec in node.host.started]
    assert sizes == [(10000, 200), (4096, 100)]
    assert snapshot.origin.shape.memory_mb == 4096


async def test_an_image_that_cannot_be_saved_with_memory_is_kept_without(node: Node, script: Script) -> None:
    earlier, refusals = node.host.before, 0

    async def refuse(event: str, machine: MachineId) -> None:
        nonlocal refusals
        if event == "save" and len(node.host.started) == 2 and refusals == 0:
            refusals += 1
            raise SnapshotRefused("an open file is deleted")
        await earlier(event, machine)

    node.host.before = refuse
    async with building(node) as images:
        snapshot = await images.build(manifest(run("one")))
    assert (snapshot.kind, snapshot.memory) == (SnapshotKind.DISK_ONLY, None)


async def test_files_that_are_gone_are_built_again(node: Node, script: Script) -> None:
    tables = ImageTables()
    async with building(node, tables) as images:
        first = await images.build(TWO)
        images.artefacts.lose(first.origin.layers[0])
        images.artefacts.lose(first.origin.layers[1])
        script.commands.clear()
        second = await images.build(TWO)
        assert second.id != first.id
        assert script.commands == ["one", "two"]
        assert await images.build(TWO) == second


async def test_a_newer_template_makes_another_build(node: Node, script: Script) -> None:
    async with building(node) as images:
        first = await images.build(TWO)
        node.templates.templates = [TemplateLayers("base", "h2", BASE.layers)]
        second = await images.build(TWO)
    assert (first.origin.template_hash, second.origin.template_hash) == ("h1", "h2")
    assert script.commands == ["one", "two"] * 2


async def test_what_nobody_uses_is_forgotten_after_a_while(node: Node, script: Script) -> None:
    tables = ImageTables()
    async with building(node, tables) as images:
        await images.build(TWO)
        named = await images.named.begin(ORG, "kept", images.images.prepare(manifest(run("kept"))))
        kept = (await images.named.follow(named)).snapshot_id
        later = timedelta(days=31).total_seconds()
        await asyncio.sleep(later)
        await images.images.remove_unused()
        assert (tables.images, tables.prefixes) == ({}, {})
        left = await images.snapshots.in_state(SnapshotState.READY, SnapshotPurpose.IMAGE)
        assert [each.id for each in left] == [kept]


async def test_what_is_used_stays(node: Node, script: Script) -> None:
    tables = ImageTables()
    async with building(node, tables) as images:
        first = await images.build(TWO)
        for _ in range(3):
            await asyncio.sleep(timedelta(days=20).total_seconds())
            assert await images.build(TWO) == first
            await images.images.remove_unused()
    assert [row.state for row in tables.images.values()] == [BuildState.READY]


async def test_builds_wait_for_each_other_beyond_two(node: Node, script: Script) -> None:
    script.hang.add("slow")
    lines: list[BuildLine] = []
    async with building(node) as images:
        asking = [asyncio.create_task(images.build(manifest(run(f"slow {n}")))) for n in range(2)]
        await settle()
        asking.append(asyncio.create_task(images.build(manifest(run("slow 2")), lines)))
        await settle()
        assert len(script.waiting) == 2
        assert [line.message for line in lines] == ["Waiting for other builds"]
        script.hang.clear()
        for process in script.waiting:
            process.end()
        for each in asking:
            await each
