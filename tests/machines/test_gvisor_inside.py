"""What a machine on gVisor looks like from inside."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.domain.errors import NotSupported, SnapshotRefused
from opencomputer.server.drivers.gvisor.driver import GvisorDriver
from tests.support.driver_harness import SMALL, GvisorHarness
from tests.support.guest_probe import answers, wait_until_it_answers
from tests.support.machine_shell import open_machine, output, shell

pytestmark = [pytest.mark.anyio, pytest.mark.machines]


async def test_upper_layers_cover_lower_ones(harness: GvisorHarness) -> None:
    """Layers are given bottom first; the last one wins."""
    lower, upper = harness.folder / "lower", harness.folder / "upper"
    for folder, word in ((lower, "lower"), (upper, "upper")):
        (folder / "opt").mkdir(parents=True)
        (folder / "opt/which").write_text(word)
    (lower / "opt/only-lower").write_text("lower")
    spec = replace(harness.spec(), layers=(*harness.layers, lower, upper))
    async with open_machine(harness, spec) as machine:
        assert await output(machine, "cat /opt/which /opt/only-lower") == "upperlower"


async def test_what_a_machine_writes_stays_out_of_its_layers(harness: GvisorHarness) -> None:
    layer = harness.folder / "layer"
    layer.mkdir()
    (layer / "mine").write_text("before")
    spec = replace(harness.spec(), layers=(*harness.layers, layer))
    async with open_machine(harness, spec) as machine:
        await output(machine, "echo after > /mine; echo new > /new; rm /etc/debian_version; sync")
        assert await output(machine, "cat /mine; ls /etc/debian_version 2>/dev/null || echo gone") == (
            "after\ngone"
        )
    assert (layer / "mine").read_text() == "before"
    assert [path.name for path in layer.iterdir()] == ["mine"]
    assert (harness.layers[0] / "etc/debian_version").exists()


async def test_folders_of_a_layer_can_be_renamed(harness: GvisorHarness) -> None:
    """Package managers do it; an overlay without help says that it is another device."""
    async with open_machine(harness) as machine:
        await output(machine, "python3 -c \"import os; os.rename('/usr/share/doc', '/usr/share/was-doc')\"")


async def test_a_machine_is_told_the_memory_it_may_use(harness: GvisorHarness) -> None:
    spec = harness.spec(limits=replace(SMALL, memory_bytes=768 << 20))
    async with open_machine(harness, spec) as machine:
        total = await output(machine, "awk '/MemTotal/ {print $2}' /proc/meminfo")
        assert int(total) == 768 << 10


async def test_the_runtime_cannot_be_changed_from_inside(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        code, _ = await shell(machine, "touch /.oc/mine || rm /.oc/argv.json")
        assert code != 0
        code, _ = await shell(machine, "mount -o remount,rw /.oc; touch /.oc/mine")
        assert code != 0
        code, _ = await shell(machine, "mount --bind /.oc /mnt; mount -o remount,rw /mnt; touch /mnt/mine")
        assert code != 0
    assert (harness.runtime / "argv.json").exists()
    assert not (harness.runtime / "mine").exists()


async def test_short_lived_files_are_kept_in_memory_and_bounded(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        kinds = await output(machine, "stat -f -c %T /tmp /var/tmp /run /dev/shm")
        assert kinds.split() == ["tmpfs"] * 4
        code, printed = await shell(machine, "head -c 400M /dev/zero > /tmp/big", user="sandbox")
        assert code != 0
        assert "No space left" in printed


async def test_a_full_disk_is_the_machines_own(harness: GvisorHarness) -> None:
    """Writing more than its disk holds fails inside, the machine goes on, and the host has the rest."""
    driver = harness.driver
    assert isinstance(driver, GvisorDriver)
    if not driver.limits_disks:
        pytest.skip("this host has no loop devices")
    spec = harness.spec(limits=replace(SMALL, disk_bytes=96 << 20))
    async with open_machine(harness, spec) as machine:
        code, printed = await shell(machine, "head -c 300M /dev/zero > /home/sandbox/big", user="sandbox")
        assert code != 0
        assert "No space left" in printed
        used = disk_file_bytes(harness)
        assert used < 100 << 20
        code, _ = await shell(machine, "head -c 10M /dev/zero > /root/root-is-no-exception")
        assert code != 0
        await output(
            machine, "rm /home/sandbox/big /root/root-is-no-exception; sync; echo fits > /root/small"
        )
        assert disk_file_bytes(harness) < used // 4


async def test_layers_can_be_kept_in_folders_of_the_host(harness: GvisorHarness) -> None:
    """On a host without loop devices everything works but the limit."""
    await harness.keep_layers_in_folders()
    image = harness.folder / "image"
    async with open_machine(harness, harness.spec(limits=replace(SMALL, disk_bytes=32 << 20))) as machine:
        await output(
            machine, "head -c 64M /dev/zero > /root/big; rm /etc/debian_version; echo kept > /root/x"
        )
        await machine.save(image)
    async with open_machine(harness, harness.spec(saved=image)) as copy:
        assert await output(copy, "cat /root/x; test -e /etc/debian_version || echo gone") == "kept\ngone"


async def test_a_disk_keeps_its_size(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        with pytest.raises(NotSupported):
            await machine.set_limits(replace(SMALL, disk_bytes=2 << 30))


async def test_the_servers_own_limit_of_open_files_is_not_the_machines(harness: GvisorHarness) -> None:
    """Services are often started with 1024, of which a machine would use most for itself."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    try:
        async with open_machine(harness) as machine:
            script = "mkdir /root/d; cd /root/d; seq 5000 | xargs touch; cat * | wc -c"
            assert await output(machine, script) == "0"
            hold = "import os; files = [open(name) for name in os.listdir('/root/d')]; print(len(files))"
            assert await output(machine, f'cd /root/d; python3 -c "{hold}"') == "5000"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_many_small_files_fit(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        script = "mkdir /root/many; cd /root/many; seq 20000 | xargs touch; ls | wc -l"
        assert await output(machine, script) == "20000"


async def test_the_machines_kernel_has_no_powers_over_the_host(harness: GvisorHarness) -> None:
    """It is confined in three ways: a user namespace, a system call filter, an empty root."""
    machine = await harness.driver.start(harness.spec())
    kernel = machine.record.state["kernel"]
    assert isinstance(kernel, dict)
    process = f"/proc/{kernel['pid']}"
    assert os.readlink(f"{process}/ns/user") != os.readlink("/proc/self/ns/user")
    for kind in ("mnt", "net", "ipc", "uts"):
        assert os.readlink(f"{process}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    status = await asyncio.to_thread(Path(process, "status").read_text)
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    assert os.listdir(f"{process}/root/") in ([], ["proc"], ["etc", "proc"], ["proc", "etc"])


async def test_owners_and_devices_work_as_root_expects(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        script = (
            "cd /root; touch f; chown 12345:54321 f; mkfifo p; stat -c '%u %g' f; mknod n c 1 3 && echo made"
        )
        assert (await output(machine, f"{script} || echo refused")).splitlines()[0] == "12345 54321"
        await output(machine, "chmod 6755 /root/f; install -o 1000 -g 1000 -m 600 /root/f /root/g")
        assert await output(machine, "stat -c '%a %u' /root/f /root/g") == "6755 12345\n600 1000"


async def test_nothing_of_the_host_is_visible(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        mounts = await output(machine, "cat /proc/mounts /proc/self/mountinfo; ls /")
        assert str(harness.data_dir) not in mounts
        processes = await output(machine, "ls -d /proc/[0-9]* | wc -l")
        assert int(processes) < 10


async def test_a_machine_whose_first_process_is_killed_has_ended(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        waiting = asyncio.ensure_future(machine.wait())
        killing = asyncio.ensure_future(shell(machine, "kill -9 1; sleep 5"))
        done, _ = await asyncio.wait([waiting, killing], timeout=8)
        if waiting in done:
            assert waiting.result() == "exited"
        else:
            assert (await output(machine, "echo still here")) == "still here"
        for task in (waiting, killing):
            task.cancel()
        await asyncio.gather(waiting, killing, return_exceptions=True)


async def test_an_image_has_the_files_and_processes_of_its_instant(harness: GvisorHarness) -> None:
    """Also changed files of the template, and deleted ones, which are not in any layer."""
    image = harness.folder / "image"
    async with open_machine(harness) as machine:
        await output(
            machine, "echo kept > /root/kept; rm /etc/debian_version; mkdir -p /opt/a; ln -s x /opt/l"
        )
        await output(machine, "chown 1000:1000 /root/kept; chmod 640 /root/kept")
        await output(machine, "setsid sleep 543 >/dev/null 2>&1 </dev/null & true")
        await machine.save(image)
        await output(machine, "echo changed later > /root/kept")
    spec = harness.spec(saved=image)
    async with open_machine(harness, spec) as copy:
        assert await output(copy, "cat /root/kept; stat -c '%a %u %g' /root/kept") == "kept\n640 1000 1000"
        assert await output(copy, "test -e /etc/debian_version || echo gone; readlink /opt/l") == "gone\nx"
        assert await output(copy, "ls -l /proc/[0-9]*/exe 2>/dev/null | grep -c sleep") == "1"
        await output(copy, "echo mine > /root/kept; touch /etc/debian_version")
    async with open_machine(harness, harness.spec(saved=image)) as other:
        assert await output(other, "cat /root/kept") == "kept"


async def test_a_saving_that_is_cancelled_leaves_the_machine_running_and_no_image(
    harness: GvisorHarness,
) -> None:
    """At whatever moment: while it is paused, while memory is written, while files are copied."""
    machine = await harness.driver.start(harness.spec())
    await wait_until_it_answers(machine.guest_address)
    for delay in (0.0, 0.01, 0.03, 0.06, 0.1):
        saving = asyncio.ensure_future(machine.save(harness.folder / "image"))
        await asyncio.sleep(delay)
        saving.cancel()
        (outcome,) = await asyncio.gather(saving, return_exceptions=True)
        left = [path.name for path in harness.folder.glob("*image*")]
        if isinstance(outcome, asyncio.CancelledError):
            assert left == []
        else:  # it was faster
            assert left == ["image"]
            shutil.rmtree(harness.folder / "image")
        assert await answers(machine.guest_address)
    await machine.save(harness.folder / "image")


async def test_a_restored_machine_has_the_limits_it_was_started_with(harness: GvisorHarness) -> None:
    """One image serves machines of every size."""
    image = harness.folder / "image"
    async with open_machine(harness) as machine:
        await machine.save(image)
    spec = harness.spec(saved=image, limits=replace(SMALL, memory_bytes=1 << 30))
    async with open_machine(harness, spec) as copy:
        assert await output(copy, "awk '/MemTotal/ {print $2}' /proc/meminfo") == str(1 << 20)


async def test_a_file_that_is_open_but_deleted_is_named(harness: GvisorHarness) -> None:
    """Old builds cannot save such a machine; it is unharmed, and can be saved when the file is closed."""
    if harness.driver.capabilities.saves_deleted_files:
        pytest.skip("this build saves them")
    async with open_machine(harness) as machine:
        await output(machine, "echo x > /root/doomed")
        hold = "import os,time; f=open('/root/doomed'); os.unlink('/root/doomed'); time.sleep(600)"
        start = f'setsid python3 -c "{hold}" >/dev/null 2>&1 </dev/null & echo $! > /root/pid'
        await output(machine, f"{start}; while test -e /root/doomed; do sleep 0.05; done")
        with pytest.raises(SnapshotRefused) as refused:
            await machine.save(harness.folder / "image")
        assert refused.value.details["reason"] == "deleted_file"
        assert refused.value.details["path"] == "/root/doomed"
        pid = int(await output(machine, "cat /root/pid"))
        assert refused.value.details["pid"] == pid
        assert refused.value.message.startswith("/root/doomed is open but deleted")
        assert f"process {pid} (python3)" in refused.value.message
        assert await output(machine, "echo alive") == "alive"
        await output(machine, "kill $(cat /root/pid)")
        await machine.save(harness.folder / "image")
    assert not list(harness.folder.glob(".image*"))


async def test_open_deleted_files_are_saved_where_the_build_says_so(harness: GvisorHarness) -> None:
    if not harness.driver.capabilities.saves_deleted_files:
        pytest.skip("this build does not save them")
    image = harness.folder / "image"
    async with open_machine(harness) as machine:
        await output(machine, "echo precious > /root/doomed")
        hold = "import os,time; f=open('/root/doomed'); os.unlink('/root/doomed'); time.sleep(600)"
        start = f'setsid python3 -c "{hold}" >/dev/null 2>&1 </dev/null & echo $! > /root/pid'
        await output(machine, f"{start}; while test -e /root/doomed; do sleep 0.05; done")
        await machine.save(image)
        assert await output(machine, "cat /proc/$(cat /root/pid)/fd/3") == "precious"
    async with open_machine(harness, harness.spec(saved=image)) as copy:
        assert await output(copy, "cat /proc/$(cat /root/pid)/fd/3; ls /root/doomed 2>&1 | grep -c No") == (
            "precious\n1"
        )


async def test_set_user_id_programs_work_exactly_where_the_build_says_so(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        await output(
            machine, "cp /usr/bin/id /usr/local/bin/id-as-root; chmod 4755 /usr/local/bin/id-as-root"
        )
        effective = await output(machine, "id-as-root -u", user="sandbox")
    assert (effective == "0") == harness.driver.capabilities.setuid


async def test_a_file_that_is_deleted_for_a_moment_is_waited_for(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        hold = "import os,time; f=open('/root/x','w'); os.unlink('/root/x'); open('/held','w'); time.sleep(1)"
        start = f'setsid python3 -c "{hold}" >/dev/null 2>&1 </dev/null &'
        await output(machine, f"{start} until test -e /held; do sleep 0.05; done")
        await machine.save(harness.folder / "image")
    assert (harness.folder / "image").is_dir()


async def test_more_memory_than_allowed_ends_the_machine_and_says_why(harness: GvisorHarness) -> None:
    """The last resort: the guest is expected to have acted before."""
    spec = harness.spec(limits=replace(SMALL, memory_bytes=192 << 20))
    async with open_machine(harness, spec) as machine:
        waiting = asyncio.ensure_future(machine.wait())
        eat = "python3 -c \"b=[]\nwhile True: b.append(bytearray(b'x') * (8 << 20))\""
        eating = asyncio.ensure_future(shell(machine, eat, seconds=60))
        await asyncio.wait([waiting, eating], return_when=asyncio.FIRST_COMPLETED, timeout=60)
        if eating.done():
            assert eating.exception() is not None or eating.result()[0] != 0
        else:
            assert waiting.result() == "out of memory"
            eating.cancel()
        waiting.cancel()
        await asyncio.gather(waiting, eating, return_exceptions=True)


async def test_two_machines_see_nothing_of_each_other(harness: GvisorHarness) -> None:
    async with open_machine(harness) as first, open_machine(harness) as second:
        await output(first, "echo secret > /root/secret; echo secret > /tmp/secret; hostname first")
        assert await output(second, "ls /root/secret /tmp/secret 2>/dev/null | wc -l") == "0"
        assert await output(second, "hostname") != "first"
        address = first.record.state["link"]["guest_address"]  # type: ignore[index,call-overload]
        code, _ = await shell(
            second, f"python3 -c \"import socket; socket.create_connection(('{address}', 7000), 1)\""
        )
        assert code != 0


async def test_image_folders_are_not_readable_by_others(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        await machine.save(harness.folder / "image")
    assert os.stat(harness.folder / "image").st_mode & 0o077 == 0


def disk_file_bytes(harness: GvisorHarness) -> int:
    """What the one machine's disk takes up on the host."""
    (file,) = harness.data_dir.glob("machines/*/disk.ext4")
    return file.stat().st_blocks * 512
