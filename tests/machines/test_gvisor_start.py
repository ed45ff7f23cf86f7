"""Starting and ending machines on gVisor when something goes wrong at any step."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.contracts.driver import DriverRecord
from opencomputer.server.domain.errors import OpenComputerError, StartFailed
from opencomputer.server.drivers.gvisor.config import MachineFolder
from opencomputer.server.host.subprocesses import run_async
from tests.support.driver_harness import GvisorHarness
from tests.support.guest_probe import answers, wait_until_it_answers

pytestmark = [pytest.mark.anyio, pytest.mark.machines]

START_STEPS = ["folder", "group", "link", "files", "disk", "network", "mounts", "runsc"]
REMOVAL_STEPS = ["remove group", "remove link", "remove folder"]


class Broken(Exception):
    pass


@pytest.mark.parametrize("step", START_STEPS)
async def test_a_start_that_fails_at_any_step_leaves_nothing(harness: GvisorHarness, step: str) -> None:
    def break_at(name: str) -> None:
        if name == step:
            raise Broken(step)

    harness.before_step = break_at
    spec = harness.spec()
    with pytest.raises(StartFailed):
        await harness.driver.start(spec)
    assert harness.leftovers() == []
    harness.before_step = lambda _: None
    machine = await harness.driver.start(spec)
    await wait_until_it_answers(machine.guest_address)


@pytest.mark.parametrize("step", START_STEPS)
async def test_a_start_cancelled_at_any_step_leaves_nothing(harness: GvisorHarness, step: str) -> None:
    """The cancellation arrives while the step is being taken."""
    reached, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hold_at(name: str) -> None:
        if name == step:
            loop.call_soon_threadsafe(reached.set)
            go_on.wait(10)

    harness.before_step = hold_at
    start = asyncio.ensure_future(harness.driver.start(harness.spec()))
    await asyncio.wait_for(reached.wait(), 60)
    start.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert harness.leftovers() == []


@pytest.mark.parametrize("delay", [0.01, 0.03, 0.06, 0.1])
async def test_a_start_cancelled_while_runsc_runs_leaves_nothing(
    harness: GvisorHarness, delay: float
) -> None:
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()

    def notice(name: str) -> None:
        if name == "runsc":
            loop.call_soon_threadsafe(reached.set)

    harness.before_step = notice
    start = asyncio.ensure_future(harness.driver.start(harness.spec()))
    await asyncio.wait_for(reached.wait(), 60)
    await asyncio.sleep(delay)
    start.cancel()
    try:
        machine = await start
    except asyncio.CancelledError:
        pass
    else:
        await machine.stop()  # it was faster
    assert harness.leftovers() == []


@pytest.mark.parametrize("step", REMOVAL_STEPS)
async def test_a_removal_that_fails_is_finished_by_the_next(harness: GvisorHarness, step: str) -> None:
    """What a failed end leaves is listed, and a second try removes it."""
    machine = await harness.driver.start(harness.spec())

    def break_at(name: str) -> None:
        if name == step:
            raise Broken(step)

    harness.before_step = break_at
    with pytest.raises(Broken):
        await machine.stop()
    harness.before_step = lambda _: None
    assert await harness.driver.survey() == [machine.record.machine_id]
    await harness.driver.discard(machine.record.machine_id)
    assert harness.leftovers() == []


async def test_a_layer_that_is_missing_is_named(harness: GvisorHarness) -> None:
    with pytest.raises(StartFailed) as failure:
        await harness.driver.start(replace(harness.spec(), layers=(harness.folder / "nothing",)))
    assert failure.value.details["reason"] == "host"
    assert harness.leftovers() == []


async def test_a_root_without_anything_in_it_is_enough(harness: GvisorHarness) -> None:
    """The guest stands on its own interpreter: no image can be too bare for it."""
    empty = harness.folder / "empty"
    empty.mkdir()
    machine = await harness.driver.start(replace(harness.spec(), layers=(empty,)))
    await wait_until_it_answers(machine.guest_address)
    assert list(empty.iterdir()) == []


async def test_runsc_that_hangs_is_ended_at_the_deadline(harness: GvisorHarness, tmp_path: Path) -> None:
    """Whatever it started is ended with it."""
    hanging = tmp_path / "runsc"
    hanging.write_text("#!/bin/sh\nsleep 300 & sleep 300\n")
    hanging.chmod(0o755)
    await harness.use_instead_of_runsc(hanging, start_deadline_seconds=0.3)
    with pytest.raises(StartFailed) as failure:
        await harness.driver.start(harness.spec())
    assert "longer than" in str(failure.value.details["runtime"])
    assert harness.leftovers() == []


async def test_what_runsc_says_is_in_the_error(harness: GvisorHarness, tmp_path: Path) -> None:
    failing = tmp_path / "runsc"
    failing.write_text("#!/bin/sh\necho the moon is full >&2; exit 128\n")
    failing.chmod(0o755)
    await harness.use_instead_of_runsc(failing)
    with pytest.raises(StartFailed) as failure:
        await harness.driver.start(harness.spec())
    assert failure.value.details["runtime"] == "the moon is full"


async def test_starting_and_ending_the_same_id_again_and_again(harness: GvisorHarness) -> None:
    """No waiting in between, no error, nothing left."""
    spec = harness.spec()
    for _ in range(8):
        machine = await harness.driver.start(spec)
        await machine.stop()
    assert harness.leftovers() == []


_SERVER = """
import asyncio, dataclasses, json, sys
from pathlib import Path
from opencomputer.server.contracts.driver import Limits, MachineId, MachineSpec
from opencomputer.server.drivers.gvisor.config import GvisorConfig
from opencomputer.server.drivers.gvisor.driver import GvisorDriver
from opencomputer.server.network.links import MachineLinks, NetworkConfig

async def main():
    data, tag, runsc, runtime, layer = sys.argv[1:]
    driver = GvisorDriver(
        GvisorConfig(Path(data), tag, Path(runsc), Path(runtime)), MachineLinks(NetworkConfig(tag))
    )
    await driver.open()
    limits = Limits(512 << 20, 200, 1 << 30)
    spec = MachineSpec(MachineId("m00000000000cafe"), (Path(layer),), limits, "token")
    machine = await driver.start(spec)
    await machine.freeze()
    print(json.dumps(dataclasses.asdict(machine.record)), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_machines_survive_the_server_being_killed(harness: GvisorHarness) -> None:
    """SIGKILL, with the whole process group; then another process takes the machine over."""
    await harness.network.close()
    arguments = [harness.data_dir, harness.node_tag, harness.runsc, harness.runtime, harness.layers[0]]
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _SERVER,
        *map(str, arguments),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert server.stdout is not None
    try:
        line = await asyncio.wait_for(server.stdout.readline(), 30)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        await server.wait()
    await harness.restart()
    record = DriverRecord(**json.loads(line))
    machine = await harness.driver.adopt(record)
    assert machine is not None
    await machine.thaw()
    await wait_until_it_answers(machine.guest_address, deadline_seconds=5)


async def test_a_machine_that_was_paused_for_an_image_goes_on_when_it_is_adopted(
    harness: GvisorHarness,
) -> None:
    """The server was killed between pausing and resuming it."""
    machine = await harness.driver.start(harness.spec())
    await wait_until_it_answers(machine.guest_address)
    folder = MachineFolder(harness.data_dir / "machines" / machine.record.machine_id)
    folder.saving.touch()
    done = await run_async(
        [str(harness.runsc), f"--root={folder.state}", "pause", machine.record.machine_id],
        deadline_seconds=20,
    )
    assert done.exit_code == 0
    assert not await answers(machine.guest_address, within_seconds=0.5)
    await harness.restart()
    adopted = await harness.driver.adopt(machine.record)
    assert adopted is not None
    assert await answers(adopted.guest_address, within_seconds=5)
    assert not folder.saving.exists()


async def test_machines_hold_none_of_the_servers_descriptors(harness: GvisorHarness) -> None:
    """A machine that inherited a listening socket would keep the port after the server's end."""
    with (harness.folder / "a file of the server").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        machine = await harness.driver.start(harness.spec())
        kernel = machine.record.state["kernel"]
        assert isinstance(kernel, dict)
        held = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{kernel['pid']}/fd")]
    assert not [target for target in held if "a file of the server" in target]


async def test_errors_of_a_start_are_of_our_own_tree(harness: GvisorHarness) -> None:
    (harness.data_dir / "machines").rmdir()
    (harness.data_dir / "machines").write_text("in the way")
    with pytest.raises(OpenComputerError):
        await harness.driver.start(harness.spec())
    (harness.data_dir / "machines").unlink()
    (harness.data_dir / "machines").mkdir()
