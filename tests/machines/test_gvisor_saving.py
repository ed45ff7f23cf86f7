"""Saved machines on gVisor: files, memory and what programs hold open go on as one."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.contracts.driver import LAYER, MachineSpec
from opencomputer.server.contracts.machine import Machine, ProcessKind, ProcessSpec
from opencomputer.server.domain.errors import HostDiskFull, SnapshotRefused
from opencomputer.server.drivers.gvisor import snapshot
from opencomputer.server.drivers.gvisor.driver import GvisorDriver
from opencomputer.server.drivers.gvisor.node import groups_parent
from opencomputer.server.host.cgroups import NO_LIMIT, Groups
from tests.support.driver_harness import SMALL, GvisorHarness
from tests.support.guest_probe import wait_until_it_answers
from tests.support.machine_shell import open_machine, output, shell
from tests.support.processes import finish, read_until

pytestmark = [pytest.mark.anyio, pytest.mark.machines]

_OPEN_FILES = (Path(__file__).parent / "open_files_program.py").read_text()
_WRITING = (Path(__file__).parent / "writing_program.py").read_text()


def program(text: str) -> ProcessSpec:
    argv = ("python3", "-u", "-c", text)
    return ProcessSpec(secrets.token_hex(4), ProcessKind.SESSION, argv, user="root", stdin=True)


def on(harness: GvisorHarness, *saved: Path) -> MachineSpec:
    """A machine that goes on from the last of several that went on from each other."""
    layers = (*harness.layers, *(each / LAYER for each in saved))
    return replace(harness.spec(saved=saved[-1]), layers=layers)


async def end(machine: Machine, process_id: str) -> None:
    """Returns once it has ended, and what it had started with it."""
    async with machine.processes.attach(process_id) as attachment:
        await machine.processes.signal(process_id, signal.SIGKILL)
        await finish(attachment)


async def what_is_wrong(machine: Machine, process_id: str) -> object:
    async with machine.processes.attach(process_id) as attachment:
        await attachment.write(b"check\n")
        said = await read_until(attachment, b"}\n")
    return json.loads(said.rpartition(b"ready\n")[2])


async def test_what_is_open_goes_on_in_the_original_and_in_copies(harness: GvisorHarness) -> None:
    """However it is open: the files lie in another layer afterwards, and are copied up when written to."""
    old = harness.folder / "old"
    (old / "etc").mkdir(parents=True)
    (old / "etc/hosts.allow-like").write_text("of a layer below")
    harness.layers = (*harness.layers, old)
    saved, spec = harness.folder / "saved", program(_OPEN_FILES)
    async with open_machine(harness) as machine:
        await machine.processes.spawn(spec)
        async with machine.processes.attach(spec.id) as attachment:
            await read_until(attachment, b"ready\n")
        await machine.save(saved)
        assert await what_is_wrong(machine, spec.id) == {}
    for _ in range(2):
        async with open_machine(harness, harness.spec(saved=saved)) as copy:
            assert await what_is_wrong(copy, spec.id) == {}


async def test_what_is_open_goes_on_after_several_savings(harness: GvisorHarness) -> None:
    old = harness.folder / "old"
    (old / "etc").mkdir(parents=True)
    (old / "etc/hosts.allow-like").write_text("of a layer below")
    harness.layers = (*harness.layers, old)
    spec, saved = program(_OPEN_FILES), [harness.folder / "0"]
    async with open_machine(harness) as machine:
        await machine.processes.spawn(spec)
        async with machine.processes.attach(spec.id) as attachment:
            await read_until(attachment, b"ready\n")
        await machine.save(saved[0])
    for generation in range(1, 4):
        async with open_machine(harness, on(harness, *saved)) as copy:
            saved.append(harness.folder / str(generation))
            await copy.save(saved[-1], go_on=False)
    async with open_machine(harness, on(harness, *saved)) as last:
        assert await what_is_wrong(last, spec.id) == {}


async def test_layers_say_what_was_deleted_replaced_and_renamed(harness: GvisorHarness) -> None:
    """What an overlay writes about that is understood when it lies in a layer below."""
    saved: list[Path] = []
    rename = "import os; os.rename('/srv/b', '/srv/moved'); os.rename('/usr/share/doc', '/usr/share/was')"
    steps = (
        "mkdir -p /srv/a/deep /srv/b; echo 1 > /srv/a/deep/file; echo 1 > /srv/b/file; echo 1 > /srv/c",
        "chmod 751 /; rm -r /srv/a; mkdir /srv/a; echo 2 > /srv/a/new; rm /srv/c /etc/debian_version",
        f'python3 -c "{rename}"',
        "chown 1000:1000 /srv/moved/file; ls /usr/share/was/base-files; rm -r /srv/a",
    )
    for number, step in enumerate(steps):
        async with open_machine(harness, on(harness, *saved) if saved else None) as machine:
            await output(machine, step)
            saved.append(harness.folder / str(number))
            await machine.save(saved[-1])
    last = on(harness, *saved)
    for spec in (last, replace(last, memory_image=None)):
        async with open_machine(harness, replace(spec, id=harness.spec().id)) as machine:
            assert await output(machine, "ls /srv; cat /srv/moved/file; stat -c %u /srv/moved/file") == (
                "moved\n1\n1000"
            )
            gone = "ls -d /srv/a /srv/b /srv/c /etc/debian_version /usr/share/doc 2>/dev/null; true"
            assert await output(machine, gone) == ""
            assert await output(machine, "stat -c %a /; ls -d /usr/share/was") == "751\n/usr/share/was"


_CYCLES = 8
_COUNTER = """
import sys
log = open('/root/log', 'a', buffering=1)
count = 0
print('ready')
for line in sys.stdin:
    count += 1
    log.write(f'{count}\\n')
    print(count)
"""


async def test_cycles_of_save_and_start_lose_nothing(harness: GvisorHarness) -> None:
    """Memory, a file held open and files written by others, each time by another machine."""
    spec, saved = program(_COUNTER), list[Path]()
    for cycle in range(_CYCLES):
        async with open_machine(harness, on(harness, *saved) if saved else None) as machine:
            if not saved:
                await machine.processes.spawn(spec)
            async with machine.processes.attach(spec.id, offset=None) as attachment:
                await attachment.write(b"\n")
                await read_until(attachment, f"{cycle + 1}\n".encode())
            await output(machine, f"echo {cycle} > /root/file-{cycle}; echo {cycle} >> /home/sandbox/all")
            saved.append(harness.folder / str(cycle))
            await machine.save(saved[-1], go_on=cycle % 2 == 0)
    async with open_machine(harness, on(harness, *saved)) as last:
        expected = "".join(f"{number}\n" for number in range(1, _CYCLES + 1)).strip()
        assert await output(last, "cat /root/log") == expected
        assert (
            await output(last, "cat /home/sandbox/all | wc -l; ls /root/file-* | wc -l")
            == f"{_CYCLES}\n{_CYCLES}"
        )


async def test_files_are_saved_as_they_were_just_written(harness: GvisorHarness) -> None:
    """Without memory there is nothing that could still be on its way to the disk."""
    saved = harness.folder / "saved"
    async with open_machine(harness) as machine:
        await output(machine, "head -c 20M /dev/urandom > /root/data; sha256sum /root/data > /root/sum")
        await output(machine, "setsid sh -c 'while :; do date +%N >> /root/noise; done' > /dev/null 2>&1 &")
        await output(machine, "touch -d '2001-01-01 00:00:00.123' /root/dated; echo last > /root/last")
        await machine.save(saved, memory=False)
        assert await output(machine, "cat /root/last") == "last"
    async with open_machine(harness, harness.spec(saved=saved, memory=False)) as copy:
        assert await output(copy, "sha256sum -c /root/sum; cat /root/last") == "/root/data: OK\nlast"
        assert await output(copy, "stat -c %y /root/dated") == "2001-01-01 00:00:00.123000000 +0000"


async def test_files_of_a_machine_that_answers_nobody_can_be_saved(harness: GvisorHarness) -> None:
    """Its kernel is stopped here, so that not even the runtime gets an answer."""
    saved = harness.folder / "saved"
    async with open_machine(harness) as machine:
        await output(machine, "echo kept > /root/kept; sync")
        kernel = machine.record.state["kernel"]
        assert isinstance(kernel, dict)
        pid = kernel["pid"]
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(60):
                await machine.save(saved, memory=False)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert await output(machine, "echo alive") == "alive"
    async with open_machine(harness, harness.spec(saved=saved, memory=False)) as copy:
        assert await output(copy, "cat /root/kept") == "kept"


async def test_a_full_disk_is_refused_with_its_percentage(harness: GvisorHarness) -> None:
    driver = harness.driver
    assert isinstance(driver, GvisorDriver)
    if not driver.limits_disks:
        pytest.skip("this host has no loop devices")
    async with open_machine(harness, harness.spec(limits=replace(SMALL, disk_bytes=96 << 20))) as machine:
        await shell(machine, "head -c 300M /dev/zero > /root/big; sync")
        for memory in (True, False):
            with pytest.raises(SnapshotRefused, match=r"disk is (9[5-9]|100) % full"):
                await machine.save(harness.folder / "saved", memory=memory)
        assert await output(machine, "rm /root/big; sync; echo alive") == "alive"
        await machine.save(harness.folder / "saved")


async def test_a_host_without_room_is_said_before_anything_is_written(
    harness: GvisorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_machine(harness) as machine:
        monkeypatch.setattr(snapshot, "_SPARE_BYTES", 1 << 60)
        with pytest.raises(HostDiskFull):
            await machine.save(harness.folder / "saved")
        assert await output(machine, "echo alive") == "alive"
    assert not [path for path in harness.folder.iterdir() if "saved" in path.name]


async def test_a_machine_waits_while_it_is_not_to_go_on(harness: GvisorHarness) -> None:
    """Calls wait, and are answered when it does go on, by whomever."""
    spec = program(_COUNTER)
    async with open_machine(harness) as machine:
        await machine.processes.spawn(spec)
        async with machine.processes.attach(spec.id) as attachment:
            await read_until(attachment, b"ready\n")
            await machine.save(harness.folder / "saved", go_on=False)
            waiting = asyncio.ensure_future(output(machine, "echo answered"))
            done, _ = await asyncio.wait([waiting], timeout=0.5)
            assert not done
            await machine.go_on()
            assert await waiting == "answered"
            await attachment.write(b"\n")
            assert await read_until(attachment, b"1\n")


async def test_processor_time_is_limited_again_after_a_saving_and_a_start(harness: GvisorHarness) -> None:
    """It does not slow saving and restoring down; a server that is killed in between puts it back, too."""
    groups = Groups.of_this_host(groups_parent(harness.node_tag))
    async with open_machine(harness) as machine:
        group = groups.group(machine.id)
        limit = group.cpu_limit()
        assert limit != NO_LIMIT
        await machine.save(harness.folder / "saved")
        assert group.cpu_limit() == limit
        await machine.save(harness.folder / "again", go_on=False)
        assert group.cpu_limit() == NO_LIMIT
        await machine.detach()
        await harness.restart()
        adopted = await harness.driver.adopt(machine.record)
        assert adopted is not None
        assert group.cpu_limit() == limit
        await adopted.stop()
    async with open_machine(harness, on(harness, harness.folder / "saved")) as copy:
        assert groups.group(copy.id).cpu_limit() == limit


async def test_a_note_of_a_pause_that_never_came_harms_nobody(harness: GvisorHarness) -> None:
    """A server was killed before it had paused the machine, or after it had let it go on."""
    async with open_machine(harness) as machine:
        await machine.detach()
        note = harness.data_dir / "machines" / machine.id / "saving"
        assert note.parent.is_dir()
        note.write_text("paused 100000")
        await harness.restart()
        adopted = await harness.driver.adopt(machine.record)
        assert adopted is not None
        assert not note.exists()
        await wait_until_it_answers(adopted.guest_address)
        await adopted.stop()


async def test_saved_and_stopped_machines_leave_nothing(harness: GvisorHarness) -> None:
    """No process, mount, network namespace, loop device or control group; copies included."""
    saved = harness.folder / "saved"
    machine = await harness.driver.start(harness.spec())
    await wait_until_it_answers(machine.guest_address)
    await machine.save(saved)
    await machine.stop()
    assert harness.leftovers() == []
    mounts, loops = mount_count(), loop_devices(harness)
    for turn in range(6):
        copy = await harness.driver.start(harness.spec(saved=saved))
        target = harness.folder / f"again-{turn}"
        await copy.save(target, memory=turn % 3 != 2, go_on=turn % 2 == 0)
        await copy.stop()
        assert harness.leftovers() == []
        assert sorted(path.name for path in harness.folder.glob(".*")) == []
    assert mount_count() == mounts
    assert loop_devices(harness) == loops == []


def mount_count() -> int:
    return len(Path("/proc/self/mountinfo").read_text().splitlines())


def loop_devices(harness: GvisorHarness) -> list[str]:
    """Devices on files of this node."""
    found: list[str] = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            text = backing.read_text().strip()
        except OSError:
            continue
        if text.startswith(str(harness.data_dir)):
            found.append(text)
    return found


@pytest.mark.parametrize("memory", [True, False])
async def test_copies_that_are_taken_while_programs_write_are_sound(
    harness: GvisorHarness, memory: bool
) -> None:
    """Files, a database and a history: with memory the programs go on in the copy, too."""
    writing = program(_WRITING)
    checking = f"cat > /tmp/check.py <<'X'\n{_WRITING}\nX\npython3 /tmp/check.py check"
    async with open_machine(harness) as machine:
        await machine.processes.spawn(writing)
        async with machine.processes.attach(writing.id) as attachment:
            await read_until(attachment, b"ready\n")
        for turn in range(3):
            saved = harness.folder / str(turn)
            await machine.save(saved, memory=memory)
            async with open_machine(harness, harness.spec(saved=saved, memory=memory)) as copy:
                if memory:
                    await asyncio.sleep(0.3)  # in which the programs go on writing
                    await end(copy, writing.id)
                assert await output(copy, f"rm -f /root/written/repository/.git/*.lock; {checking}") == (
                    "sound True True"
                )
        await end(machine, writing.id)
        assert "sound" in await output(machine, checking)
