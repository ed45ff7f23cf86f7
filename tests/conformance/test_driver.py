"""What every driver promises, whatever it isolates with."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import replace

import pytest

from opencomputer.server.contracts.driver import Running
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.domain.errors import Conflict, MachineLost, OpenComputerError
from tests.support.driver_harness import SMALL, DriverHarness
from tests.support.guest_probe import answers, wait_until_it_answers

pytestmark = pytest.mark.anyio


async def test_a_started_machine_has_a_guest_that_answers(harness: DriverHarness) -> None:
    """The address of a machine leads to its guest."""
    machine = await harness.driver.start(harness.spec())
    await wait_until_it_answers(machine.guest_address)


async def test_a_frozen_machine_does_nothing_and_a_thawed_one_goes_on(harness: DriverHarness) -> None:
    """Freezing takes all CPU away; both ways may be asked for twice."""
    machine = await started(harness)
    await machine.freeze()
    await machine.freeze()
    assert not await answers(machine.guest_address, within_seconds=0.5)
    await machine.thaw()
    await machine.thaw()
    assert await answers(machine.guest_address)


async def test_a_freeze_that_is_cancelled_can_be_undone(harness: DriverHarness) -> None:
    """Whether it happened or not, the next thaw lets the machine go on."""
    machine = await started(harness)
    for _ in range(5):
        freezing = asyncio.ensure_future(machine.freeze())
        await asyncio.sleep(0)
        freezing.cancel()
        await asyncio.gather(freezing, return_exceptions=True)
        await machine.thaw()
        assert await answers(machine.guest_address)


async def test_what_is_let_out_can_be_changed_while_a_machine_runs_and_not_when_it_is_gone(
    harness: DriverHarness,
) -> None:
    machine = await harness.driver.start(replace(harness.spec(), egress=EgressMode.CLOSED))
    for mode in EgressMode:
        await machine.set_egress(mode)
    await wait_until_it_answers(machine.guest_address)
    await machine.stop()
    with pytest.raises(MachineLost):
        await machine.set_egress(EgressMode.OPEN)


async def test_a_machine_can_be_stopped_by_two_at_once(harness: DriverHarness) -> None:
    machine = await started(harness)
    discarding = harness.driver.discard(machine.record.machine_id)
    await asyncio.gather(machine.stop(), machine.stop(), discarding)
    assert harness.leftovers() == []


async def test_a_frozen_machine_uses_no_processor_time(harness: DriverHarness) -> None:
    machine = await started(harness)
    await machine.freeze()
    before = (await machine.usage()).cpu_seconds
    await asyncio.sleep(0.3)  # real time is what this is about
    assert (await machine.usage()).cpu_seconds == pytest.approx(before, abs=0.02)


async def test_a_stopped_machine_leaves_nothing(harness: DriverHarness) -> None:
    """Stopping removes everything, and stopping twice is not an error."""
    machine = await started(harness)
    await machine.stop()
    assert harness.leftovers() == []
    await machine.stop()


async def test_a_frozen_machine_can_be_stopped(harness: DriverHarness) -> None:
    machine = await started(harness)
    await machine.freeze()
    await machine.stop()
    assert harness.leftovers() == []


async def test_a_dead_machine_can_be_stopped(harness: DriverHarness) -> None:
    """Stopping cleans up after a machine that ended by itself."""
    machine = await started(harness)
    kill_first_process(machine)
    await asyncio.wait_for(machine.wait(), 60)
    await machine.stop()
    assert harness.leftovers() == []


async def test_a_machine_that_was_killed_says_that_it_exited(harness: DriverHarness) -> None:
    machine = await started(harness)
    waiting = asyncio.ensure_future(machine.wait())
    kill_first_process(machine)
    assert await asyncio.wait_for(waiting, 60) == "exited"


async def test_a_machine_that_was_stopped_says_so(harness: DriverHarness) -> None:
    machine = await started(harness)
    waiting = asyncio.ensure_future(machine.wait())
    await machine.stop()
    assert await asyncio.wait_for(waiting, 60) == "stopped"


async def test_calls_on_a_machine_that_ended_say_that_it_is_lost(harness: DriverHarness) -> None:
    machine = await started(harness)
    kill_first_process(machine)
    await asyncio.wait_for(machine.wait(), 60)
    for call in (machine.freeze, machine.thaw, machine.usage):
        with pytest.raises(MachineLost):
            await call()
    with pytest.raises(MachineLost):
        await machine.set_limits(SMALL)
    with pytest.raises(MachineLost):
        await machine.save(harness.folder / "image")


async def test_another_driver_adopts_a_running_machine(harness: DriverHarness) -> None:
    """A record is all that is needed to take a machine over, and the machine notices nothing."""
    machine = await started(harness)
    record = machine.record
    await harness.restart()
    adopted = await harness.driver.adopt(record)
    assert adopted is not None
    assert adopted.guest_address == machine.guest_address
    assert adopted.record == record
    assert await answers(adopted.guest_address)
    await adopted.stop()
    assert harness.leftovers() == []


async def test_a_frozen_machine_is_adopted_and_thawed(harness: DriverHarness) -> None:
    machine = await started(harness)
    await machine.freeze()
    await harness.restart()
    adopted = await harness.driver.adopt(machine.record)
    assert adopted is not None
    await adopted.thaw()
    assert await answers(adopted.guest_address)


async def test_a_dead_machine_is_not_adopted(harness: DriverHarness) -> None:
    machine = await started(harness)
    kill_first_process(machine)
    await asyncio.wait_for(machine.wait(), 60)
    await harness.restart()
    assert await harness.driver.adopt(machine.record) is None


async def test_a_record_of_another_driver_is_not_adopted(harness: DriverHarness) -> None:
    machine = await started(harness)
    assert await harness.driver.adopt(replace(machine.record, driver="other")) is None
    assert await harness.driver.adopt(replace(machine.record, state={})) is None


async def test_another_driver_surveys_and_discards_what_it_did_not_start(harness: DriverHarness) -> None:
    """Nothing of a lost server stays for ever: what exists is listed, and can be removed by its id."""
    machine = await started(harness)
    half = harness.make_half_a_machine()
    await harness.restart()
    assert set(await harness.driver.survey()) == {machine.record.machine_id, half}
    await harness.driver.discard(half)
    await harness.driver.discard(machine.record.machine_id)
    await harness.driver.discard(machine.record.machine_id)
    assert await harness.driver.survey() == []
    assert harness.leftovers() == []


async def test_usage_grows(harness: DriverHarness) -> None:
    machine = await started(harness)
    first = await machine.usage()
    deadline = time.monotonic() + 20
    while (await machine.usage()).cpu_seconds <= first.cpu_seconds:
        assert time.monotonic() < deadline
        await answers(machine.guest_address)
    later = await machine.usage()
    assert later.memory_bytes > 0
    assert later.pids > 0


async def test_limits_can_be_changed_while_it_runs(harness: DriverHarness) -> None:
    machine = await started(harness)
    await machine.set_limits(replace(SMALL, memory_bytes=1 << 30, cpu_percent=50))
    assert await answers(machine.guest_address)


async def test_a_limit_below_the_use_is_refused(harness: DriverHarness) -> None:
    """A machine is not killed by being given less than it already has."""
    machine = await started(harness)
    with pytest.raises(Conflict):
        await machine.set_limits(replace(SMALL, memory_bytes=4096))
    assert await answers(machine.guest_address)


async def test_a_machine_starts_from_an_image_while_the_saved_one_runs_on(harness: DriverHarness) -> None:
    machine = await started(harness)
    image = harness.folder / "image"
    await machine.save(image)
    assert await answers(machine.guest_address)
    copies = [await harness.driver.start(harness.spec(saved=image)) for _ in range(2)]
    addresses = {each.guest_address for each in (machine, *copies)}
    assert len(addresses) == 3
    for copy in copies:
        await wait_until_it_answers(copy.guest_address, deadline_seconds=5)


async def test_a_frozen_machine_can_be_saved_and_is_frozen_afterwards(harness: DriverHarness) -> None:
    machine = await started(harness)
    await machine.freeze()
    await machine.save(harness.folder / "image")
    assert not await answers(machine.guest_address, within_seconds=0.3)


async def test_a_machine_stopped_while_it_is_saved_is_lost_and_leaves_nothing(harness: DriverHarness) -> None:
    machine = await started(harness)
    for delay in (0.0, 0.02, 0.05):
        machine = await started(harness)
        saving = asyncio.ensure_future(machine.save(harness.folder / f"image-{delay}"))
        await asyncio.sleep(delay)
        await machine.stop()
        (outcome,) = await asyncio.gather(saving, return_exceptions=True)
        assert outcome is None or isinstance(outcome, MachineLost), outcome
        await harness.driver.discard(machine.record.machine_id)
    await harness.remove_all()
    assert harness.leftovers() == []
    assert not list(harness.folder.glob(".image*"))


async def test_an_image_never_replaces_what_is_there(harness: DriverHarness) -> None:
    machine = await started(harness)
    (harness.folder / "image").mkdir()
    with pytest.raises(FileExistsError):
        await machine.save(harness.folder / "image")
    assert [path.name for path in harness.folder.iterdir() if "image" in path.name] == ["image"]
    assert await answers(machine.guest_address)


async def test_starting_from_a_damaged_image_fails_and_leaves_nothing(harness: DriverHarness) -> None:
    image = harness.folder / "image"
    (image / "memory").mkdir(parents=True)
    (image / "layer").mkdir()
    with pytest.raises(OpenComputerError):
        await harness.driver.start(harness.spec(saved=image))
    assert harness.leftovers() == []


async def test_two_machines_do_not_share_an_end(harness: DriverHarness) -> None:
    """Stopping one leaves the other alone."""
    first, second = await started(harness), await started(harness)
    assert first.guest_address != second.guest_address
    await first.stop()
    assert await answers(second.guest_address)


async def test_an_id_is_taken_once(harness: DriverHarness) -> None:
    """A second start with the same id is refused and does the first no harm."""
    spec = harness.spec()
    machine = await harness.driver.start(spec)
    with pytest.raises(Conflict):
        await harness.driver.start(spec)
    await wait_until_it_answers(machine.guest_address)


async def test_a_cancelled_start_leaves_nothing(harness: DriverHarness) -> None:
    """However far it had come."""
    for delay in (0.0, 0.005, 0.02, 0.05, 0.08):
        start = asyncio.ensure_future(harness.driver.start(harness.spec()))
        await asyncio.sleep(delay)
        start.cancel()
        try:
            machine = await start
        except asyncio.CancelledError:
            pass
        else:
            await machine.stop()  # it was faster than the cancellation
        assert harness.leftovers() == []


async def test_the_same_id_can_be_used_again_at_once(harness: DriverHarness) -> None:
    """Whatever is slow about an end is over when stop returns."""
    spec = harness.spec()
    for _ in range(3):
        machine = await harness.driver.start(spec)
        await machine.stop()
    assert harness.leftovers() == []


async def test_several_machines_start_at_once(harness: DriverHarness) -> None:
    machines = await asyncio.gather(*(harness.driver.start(harness.spec()) for _ in range(4)))
    assert len({machine.guest_address for machine in machines}) == 4
    for machine in machines:
        await wait_until_it_answers(machine.guest_address)
    await asyncio.gather(*(machine.stop() for machine in machines))
    assert harness.leftovers() == []


async def test_an_id_of_another_shape_is_refused(harness: DriverHarness) -> None:
    """Ids become names on the host."""
    for bad in ("m../../etc", "m123", "M0123456789abcdef"):
        with pytest.raises(ValueError, match="machine id"):
            await harness.driver.start(replace(harness.spec(), id=bad))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="machine id"):
            await harness.driver.discard(bad)  # type: ignore[arg-type]


async def test_version_and_capabilities_are_known(harness: DriverHarness) -> None:
    assert harness.driver.version
    assert harness.driver.capabilities.memory_snapshots


async def started(harness: DriverHarness) -> Running:
    machine = await harness.driver.start(harness.spec())
    await wait_until_it_answers(machine.guest_address)
    return machine


def kill_first_process(machine: Running) -> None:
    """End a machine from outside, as a crash does."""
    state = machine.record.state
    kernel = state.get("kernel")
    pid = kernel["pid"] if isinstance(kernel, dict) else state["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
