"""Commands that are under way when something happens to their sandbox as a whole."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.contracts.machine import ExitStatus
from opencomputer.server.domain.errors import Interrupted, NotFound, NotReady
from opencomputer.server.services.sandboxes.commands import CommandRequest
from opencomputer.server.services.sandboxes.live import LiveSandbox
from tests.unit.server.services.harness import Node, Process, on
from tests.unit.server.services.test_commands import keep_running, processes_of, started

pytestmark = pytest.mark.anyio


async def begin_again(process: Process, live: LiveSandbox, what: str) -> None:
    """Give the sandbox another machine."""
    if what == "sleep":
        await process.hibernation.hibernate(live.sandbox.org_id, live.id)
    elif what == "reboot":
        await process.power.reboot(live.sandbox.org_id, live.id)
    else:
        checkpoint = await process.checkpoint(live.sandbox)
        await process.restores.restore(live.sandbox.org_id, live.id, checkpoint.id)


HAPPENINGS = {"sleep": "put to sleep", "restore": "went back to a checkpoint", "reboot": "was rebooted"}


@pytest.mark.parametrize(("what", "told"), HAPPENINGS.items())
async def test_who_waits_for_a_command_is_told_what_happened_and_may_try_again(
    node: Node, what: str, told: str
) -> None:
    """The sandbox is not lost, and nobody must take it for lost."""
    async with node.process() as process:
        live, progress, _ = await started(process)
        wait = asyncio.create_task(process.commands.wait(live, progress, None))
        await asyncio.sleep(1)
        await begin_again(process, live, what)
        with pytest.raises(Interrupted, match=told) as interrupted:
            await wait
        assert interrupted.value.retryable


@pytest.mark.parametrize("what", ["sleep", "restore"])
async def test_a_command_that_was_saved_goes_on_and_its_handle_works(node: Node, what: str) -> None:
    async with node.process() as process:
        live, progress, program = await started(process)
        program.output(1, b"before ")
        assert (await process.commands.result(live, progress.id)).stdout.value() == b"before "
        await begin_again(process, live, what)
        now = await process.reach.live(live.sandbox.org_id, live.id)
        seen = await process.commands.result(now, progress.id)
        assert (seen.stdout.value(), seen.exit) == (b"before ", None)
        going_on = processes_of(now).by_id[progress.id]
        going_on.output(1, b"after")
        going_on.end(ExitStatus(4))
        done = await process.commands.result(now, progress.id)
        assert (done.stdout.value(), done.exit) == (b"before after", ExitStatus(4))


async def test_through_several_sleeps_too(node: Node) -> None:
    async with node.process() as process:
        live, progress, _ = await started(process)
        for number in range(3):
            processes_of(live).by_id[progress.id].output(1, f"{number}".encode())
            await process.commands.result(live, progress.id)
            await begin_again(process, live, "sleep")
            live = await process.reach.live(live.sandbox.org_id, live.id)
        processes_of(live).by_id[progress.id].end()
        done = await process.commands.result(live, progress.id)
        assert (done.stdout.value(), done.exit) == (b"012", ExitStatus(0))


async def test_after_a_reboot_a_handle_is_unknown(node: Node) -> None:
    async with node.process() as process:
        live, progress, _ = await started(process)
        await begin_again(process, live, "reboot")
        now = await process.reach.live(live.sandbox.org_id, live.id)
        with pytest.raises(NotFound):
            await process.commands.result(now, progress.id)


async def test_one_with_a_key_is_found_again_and_not_run_twice(node: Node) -> None:
    """So a client may send the request again that was interrupted."""
    async with node.process() as process:
        live = await process.live_one()
        processes_of(live).program = keep_running
        request = CommandRequest("make", idempotency_key="k")
        first = await process.commands.start(live, request)
        await begin_again(process, live, "sleep")
        now = await process.reach.live(live.sandbox.org_id, live.id)
        again = await process.commands.start(now, request)
        assert again.id == first.id
        assert len(processes_of(now).by_id) == 1


async def test_an_old_machine_that_is_slow_to_go_does_not_stand_in_for_the_new_one(node: Node) -> None:
    async with node.process() as process:
        live, progress, _ = await started(process)
        node.host.before = on("stop", lambda: asyncio.sleep(10), times=1)
        await begin_again(process, live, "sleep")
        now = await process.reach.live(live.sandbox.org_id, live.id)
        processes_of(now).by_id[progress.id].end(ExitStatus(6))
        assert (await process.commands.result(now, progress.id)).exit == ExitStatus(6)


async def test_a_server_that_stops_is_no_lost_machine(node: Node) -> None:
    async with node.process() as process:
        live, progress, program = await started(process)
        program.lose(NotReady("The server is stopping."))
        with pytest.raises(NotReady, match="stopping"):
            await process.commands.wait(live, progress, None)
