"""Named snapshots: names, states, who may start from them, and what survives a server."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.contracts.machine import ExitStatus
from opencomputer.server.contracts.templates import TemplateLayers
from opencomputer.server.domain.access import Organisation
from opencomputer.server.domain.builds import BuildState
from opencomputer.server.domain.errors import BuildFailed, Conflict, Forbidden, InvalidInput, NotFound
from opencomputer.server.services.sandboxes.build_log import BuildLine
from tests.support import rows
from tests.support.memory.images import ImageTables
from tests.support.memory.machines import MemoryHost
from tests.unit.server.services.harness import BASE, ORG, OTHER_ORG, Node, settle
from tests.unit.server.services.image_harness import ALL, Building, Script, building, manifest, run

pytestmark = pytest.mark.anyio

TWO = manifest(run("one"), run("two"))


@pytest.fixture
def script(node: Node) -> Script:
    node.host = MemoryHost(ALL)
    node.tables.organisations[ORG] = Organisation(ORG, "first", rows.at(0))
    node.tables.organisations[OTHER_ORG] = Organisation(OTHER_ORG, "second", rows.at(1))
    script = Script()
    script.install(node.host)
    return script


async def make(images: Building, name: str = "tools", org: str = ORG) -> None:
    row = await images.named.begin(ORG if org == ORG else OTHER_ORG, name, images.images.prepare(TWO))
    await images.named.follow(row)


async def test_a_name_is_building_until_it_is_ready(node: Node, script: Script) -> None:
    script.hang.add("two")
    lines: list[BuildLine] = []

    async def log(line: BuildLine) -> None:
        lines.append(line)

    async with building(node) as images:
        row = await images.named.begin(ORG, "tools", images.images.prepare(TWO))
        following = asyncio.create_task(images.named.follow(row, log))
        await settle()
        assert (await images.named.get(ORG, "tools")).state is BuildState.BUILDING
        with pytest.raises(InvalidInput, match="not ready"):
            await images.named.lookup(ORG, "tools")
        with pytest.raises(Conflict):
            await images.named.begin(ORG, "tools", images.images.prepare(manifest()))
        script.waiting[0].end()
        ready = await following
        assert ready == await images.named.get(ORG, "tools")
        assert ready.state is BuildState.READY
        assert (await images.named.resolve(ORG, "tools")).id == ready.snapshot_id
    assert [line.type for line in lines] == ["build", "run", "run", "run", "run", "checkpoint"]


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "x" * 129, ".", "..", "a\n"])
async def test_a_name_can_stand_in_a_url(node: Node, script: Script, name: str) -> None:
    async with building(node) as images:
        with pytest.raises(InvalidInput) as caught:
            await images.named.begin(ORG, name, images.images.prepare(TWO))
    assert caught.value.details["field"] == "name"


async def test_a_snapshot_of_a_built_image_is_instant(node: Node, script: Script) -> None:
    async with building(node) as images:
        built = await images.build(TWO)
        script.commands.clear()
        await make(images)
        assert (await images.named.get(ORG, "tools")).snapshot_id == built.id
    assert script.commands == []


async def test_a_snapshot_that_failed_says_why_and_can_be_tried_again(node: Node, script: Script) -> None:
    script.fail["two"] = ExitStatus(3)
    async with building(node) as images:
        row = await images.named.begin(ORG, "tools", images.images.prepare(TWO))
        with pytest.raises(BuildFailed):
            await images.named.follow(row)
        failed = await images.named.get(ORG, "tools")
        assert (failed.state, failed.error) == (BuildState.FAILED, "step 2 (run) failed (exit 3)")
        script.fail.clear()
        await make(images)
        assert [each.state for each in await images.named.list(ORG)] == [BuildState.READY]


async def test_a_build_goes_on_without_who_asked(node: Node, script: Script) -> None:
    script.hang.add("two")
    async with building(node) as images:
        row = await images.named.begin(ORG, "tools", images.images.prepare(TWO))
        following = asyncio.create_task(images.named.follow(row))
        await settle()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        script.waiting[0].end()
        await settle()
        assert (await images.named.get(ORG, "tools")).state is BuildState.READY


async def test_deleting_a_name_leaves_what_was_made_from_it(node: Node, script: Script) -> None:
    async with building(node) as images:
        await make(images)
        snapshot = await images.named.resolve(ORG, "tools")
        await images.named.delete(ORG, "tools")
        with pytest.raises(NotFound):
            await images.named.delete(ORG, "tools")
        with pytest.raises(NotFound):
            await images.named.get(ORG, "tools")
        with pytest.raises(InvalidInput):
            await images.named.lookup(ORG, "tools")
        assert await images.snapshots.get(snapshot.id) == snapshot


async def test_a_name_deleted_while_it_is_built_stays_deleted(node: Node, script: Script) -> None:
    script.hang.add("two")
    async with building(node) as images:
        row = await images.named.begin(ORG, "tools", images.images.prepare(TWO))
        await settle()
        await images.named.delete(ORG, "tools")
        script.waiting[0].end()
        await images.named.follow(row)
        assert await images.named.list(ORG) == []


async def test_using_a_snapshot_is_noted(node: Node, script: Script) -> None:
    async with building(node) as images:
        await make(images)
        assert (await images.named.get(ORG, "tools")).last_used_at is None
        await images.named.resolve(ORG, "tools")
        assert (await images.named.get(ORG, "tools")).last_used_at == images.process.clock.now()


async def test_a_snapshot_stays_what_it_is_when_the_template_changes(node: Node, script: Script) -> None:
    async with building(node) as images:
        await make(images)
        before = await images.named.resolve(ORG, "tools")
        node.templates.old = [BASE]
        node.templates.templates = [TemplateLayers("base", "h2", BASE.layers)]
        assert await images.named.resolve(ORG, "tools") == before


async def test_a_snapshot_whose_files_are_gone_is_built_again(node: Node, script: Script) -> None:
    async with building(node) as images:
        await make(images)
        before = await images.named.resolve(ORG, "tools")
        for layer in before.origin.layers:
            images.artefacts.lose(layer)
        after = await images.named.resolve(ORG, "tools")
        assert after.id != before.id
        assert (await images.named.get(ORG, "tools")).snapshot_id == after.id


async def test_the_platforms_own_snapshots_can_be_for_all(node: Node, script: Script) -> None:
    async with building(node) as images:
        await make(images)
        with pytest.raises(InvalidInput):
            await images.named.lookup(OTHER_ORG, "tools")
        assert (await images.named.publish(ORG, "tools", public=True)).is_public
        assert (await images.named.lookup(OTHER_ORG, "tools")).org_id == ORG
        await make(images, org=OTHER_ORG)
        assert (await images.named.lookup(OTHER_ORG, "tools")).org_id == OTHER_ORG
        with pytest.raises(Forbidden):
            await images.named.publish(OTHER_ORG, "tools", public=True)
        await images.named.delete(OTHER_ORG, "tools")
        await images.named.publish(ORG, "tools", public=False)
        with pytest.raises(InvalidInput):
            await images.named.lookup(OTHER_ORG, "tools")


async def test_a_name_in_a_manifest_is_made_once(node: Node, script: Script) -> None:
    async with building(node) as images:
        image = images.images.prepare(TWO)
        first = await images.named.ensure(ORG, "tools", image)
        await images.named.follow(first)
        assert (await images.named.ensure(ORG, "tools", image)).id == first.id
        with pytest.raises(Conflict):
            await images.named.ensure(ORG, "tools", images.images.prepare(manifest()))


async def test_what_was_building_when_the_server_ended_is_built_by_the_next(
    node: Node, script: Script
) -> None:
    script.hang.add("two")
    tables = ImageTables()
    async with building(node, tables) as images:
        await images.named.begin(ORG, "tools", images.images.prepare(TWO))
        await settle()
    script.hang.clear()
    await settle()
    async with building(node, tables) as images:
        assert (await images.named.get(ORG, "tools")).state is BuildState.BUILDING
        await settle()
        await images.upkeep.recover()
        await settle()
        assert (await images.named.get(ORG, "tools")).state is BuildState.READY


async def test_what_cannot_be_built_any_more_is_failed_by_the_next_server(node: Node, script: Script) -> None:
    script.hang.add("two")
    tables = ImageTables()
    async with building(node, tables) as images:
        await images.named.begin(ORG, "tools", images.images.prepare(TWO))
        await settle()
    await settle()
    node.templates.templates = []
    async with building(node, tables) as images:
        await settle()
        await images.upkeep.recover()
        failed = await images.named.get(ORG, "tools")
    assert (failed.state, failed.error) == (BuildState.FAILED, "image.base: there is no template 'base'")
