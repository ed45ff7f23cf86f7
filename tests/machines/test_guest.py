"""The guest as PID 1 of a real machine: users, trees, terminals, files."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from opencomputer.server.contracts.machine import (
    ExitStatus,
    Identity,
    Machine,
    ProcessKind,
    ProcessSpec,
    TerminalSize,
)
from opencomputer.server.domain.errors import DiskFull, FileForbidden, NotAFile
from tests.support.driver_harness import GvisorHarness
from tests.support.machine_shell import open_machine, output
from tests.support.processes import command, finish, read_until, run, shell, with_stdin
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.machines]

BREAKAWAY = """
yes >/dev/null & sleep 300 & (setsid sleep 301 &) ; setsid sh -c 'sleep 302 & exec env -i setsid sleep 303' &
sh -c '(env -i setsid sh -c "sleep 304 & sleep 305" &)' ; echo started; wait
"""


def as_root(spec: ProcessSpec) -> ProcessSpec:
    return replace(spec, user="root")


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def processes_of(machine: Machine) -> list[str]:
    """Command lines of everything but PID 1 and the looking itself."""
    listing = await run(machine, as_root(shell("ps -eo pid=,stat=,args= | grep -vE 'ps -eo|grep'")))
    lines = [line.split(None, 2) for line in listing.stdout.decode().splitlines()]
    return [f"{stat} {args}" for pid, stat, args in lines if pid != "1" and "ps -eo" not in args]


async def test_programs_run_as_the_sandbox_user_without_powers(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        facts = await output(
            machine,
            "id -un; id -Gn; pwd; umask; grep -E 'CapEff|CapPrm' /proc/self/status; echo $HOME $USER $SHELL",
            user="sandbox",
        )
    lines = facts.splitlines()
    assert lines[:4] == ["sandbox", "sandbox sudo docker", "/home/sandbox", "0022"] or lines[0] == "sandbox"
    assert lines[2] == "/home/sandbox"
    assert [line.split()[1] for line in lines[4:6]] == ["0" * 16, "0" * 16]
    assert lines[6] == "/home/sandbox sandbox /bin/bash"


async def test_output_can_be_opened_by_name(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        finished = await run(machine, shell("echo one >/dev/stdout; echo two | tee /dev/stderr >/dev/null"))
    assert (finished.stdout, finished.stderr) == (b"one\n", b"two\n")


async def test_a_directory_the_user_may_not_enter_is_refused(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        finished = await run(machine, replace(command("pwd"), cwd="/root"))
        assert (finished.exit.code, finished.stderr) == (126, b"/root: permission denied\n")
        assert (await run(machine, as_root(replace(command("pwd"), cwd="/root")))).stdout == b"/root\n"


async def test_killing_takes_what_called_setsid_and_lost_its_environment(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        spec = shell(BREAKAWAY)
        await machine.processes.spawn(spec)
        async with machine.processes.attach(spec.id) as attachment:
            await read_until(attachment, b"started\n")

            async def all_begun() -> bool:
                return len(await processes_of(machine)) >= 7

            await eventually(all_begun, "that all of them have begun")
            await machine.processes.signal(spec.id, 9)
            assert (await finish(attachment)).exit == ExitStatus(137, 9, "killed")
        assert await processes_of(machine) == []


@pytest.mark.timeout(150)
async def test_a_timeout_ends_a_fork_bomb_and_the_machine_is_fine(harness: GvisorHarness) -> None:
    """How soon depends on what else this host does; that it ends, and the machine does not, depends on us."""
    async with open_machine(harness) as machine:
        bomb = replace(shell("b() { b | b & }; b; sleep 60"), timeout_seconds=3.0)
        await machine.processes.spawn(bomb)
        async with machine.processes.attach(bomb.id) as attachment:
            finished = await finish(attachment, seconds=80)
        assert finished.exit.reason == "timeout"
        assert (await run(machine, command("echo", "fine"))).stdout == b"fine\n"
        assert await processes_of(machine) == []


async def test_orphans_are_reaped_and_short_commands_keep_their_code(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        for batch in range(10):
            results = await asyncio.gather(
                *(run(machine, shell(f"(setsid true &); exit {batch * 10 + each}")) for each in range(10))
            )
            codes = [result.exit.code for result in results]
            assert codes == [batch * 10 + each for each in range(10)]
        await run(machine, shell("for i in $(seq 300); do (setsid true &); done"))
        assert [each for each in await processes_of(machine) if each.startswith("Z")] == []


async def test_the_guest_survives_what_the_user_kills(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        sleeper = command("sleep", "300")
        await machine.processes.spawn(sleeper)
        await run(machine, shell("kill -9 -1"))
        async with machine.processes.attach(sleeper.id) as attachment:
            assert (await finish(attachment)).exit.code == 137
        for signal in ("TERM", "INT", "HUP", "KILL", "USR1", "STOP"):
            await run(machine, shell(f"kill -{signal} 1"))
        for signal in ("TERM", "INT", "HUP", "USR1", "USR2", "QUIT"):
            await run(machine, as_root(shell(f"kill -{signal} 1")))
        killers = [shell("for i in $(seq 200); do kill -9 -1 1; done") for _ in range(2)]
        for killer in killers:
            await machine.processes.spawn(killer)
        for _ in range(30):
            await run(machine, command("true"))
        assert (await run(machine, command("echo", "alive"))).stdout == b"alive\n"


async def test_the_token_cannot_be_read_by_the_user(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        finished = await run(machine, shell("cat /proc/1/environ; ls /proc/1/fd; cat /proc/1/mem"))
        assert finished.exit.code != 0
        assert b"OC_TOKEN" not in finished.stdout
        assert b"OC_TOKEN" not in (await run(machine, shell("env"))).stdout


async def test_the_guest_does_not_talk_to_its_own_machine(harness: GvisorHarness) -> None:
    probe = (
        "import socket; s = socket.create_connection(('127.0.0.1', 7000), 5); s.settimeout(5);"
        "s.sendall(b'x' * 9); print(s.recv(10))"
    )
    async with open_machine(harness) as machine:
        finished = await run(machine, command("python3", "-c", probe))
        assert finished.stdout in (b"b''\n", b"")
        assert (await run(machine, command("true"))).exit == ExitStatus(0)


async def test_an_identity_reaches_every_place(harness: GvisorHarness) -> None:
    identity = Identity(
        "sb-12345678", "sb-12345678", "ab" * 16, "the new token", b"\7" * 64, {"GREETING": "hi"}
    )
    async with open_machine(harness) as machine:
        await machine.identify(identity)
        facts = await output(
            machine, "hostname; cat /etc/hostname /etc/machine-id; getent hosts sb-12345678; echo $GREETING"
        )
        clock = float(await output(machine, "date +%s.%N"))
    lines = facts.splitlines()
    assert lines[:3] == ["sb-12345678", "sb-12345678", "ab" * 16]
    assert lines[3].split()[0] == "127.0.1.1"
    assert lines[4] == "hi"
    assert abs(clock - time.time()) < 2


def terminal(*argv: str) -> ProcessSpec:
    return ProcessSpec(secrets.token_hex(4), ProcessKind.PTY, argv, terminal=TerminalSize(90, 33))


async def test_a_terminal_is_complete(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        script = "tty; stty size; id -un; pwd; echo $TERM $LANG"
        finished = await run(machine, terminal("/bin/bash", "-c", script))
        lines = finished.stdout.decode().replace("\r", "").splitlines()
        assert lines[0].startswith("/dev/pts/")
        assert lines[1:4] == ["33 90", "sandbox", "/home/sandbox"]
        assert lines[4].startswith("xterm-256color ")


async def test_an_interactive_shell_in_a_terminal(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        spec = terminal("/bin/bash", "-l")
        await machine.processes.spawn(spec)
        async with machine.processes.attach(spec.id, offset=None) as attachment:
            await read_until(attachment, b"$ ")
            await attachment.write(b"echo begun; cat\n")
            await read_until(attachment, b"begun\r\n")
            await attachment.write(b"ping\n")
            await read_until(attachment, b"ping\r\nping")
            await attachment.write(b"\x03")
            await read_until(attachment, b"$ ")
            await attachment.write(b"echo code $?\n")
            await read_until(attachment, b"code 130")
            await machine.processes.resize(spec.id, TerminalSize(120, 50))
            await attachment.write(b"stty size\n")
            await read_until(attachment, b"50 120")
            await attachment.write("printf '┌─┐☕'\n".encode())
            await read_until(attachment, "\r┌─┐☕".encode())
            await attachment.write(b"exit 4\n")
            assert (await finish(attachment)).exit == ExitStatus(4)


async def test_new_files_belong_to_who_may_write_there(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        await run(machine, as_root(shell("mkdir -m 700 /srv/private && chown 33:33 /srv/private")))
        for path in (
            "mine/deep/file",
            "/tmp/file",
            "/etc/file",
            "/srv/private/sub/file",
            "/workspace/in-home",
        ):
            await machine.files.write(path, pieces(b"x"))
        await machine.files.make_directory("/opt/made/deep")
        await run(machine, as_root(shell("cd /home/sandbox; touch kept; chown 7:8 kept; chmod 600 kept")))
        await machine.files.write("/home/sandbox/kept", pieces(b"new"))
        places = (
            "/home/sandbox/mine /home/sandbox/mine/deep /home/sandbox/mine/deep/file /tmp/file /etc/file"
            " /srv/private/sub /srv/private/sub/file /home/sandbox/in-home /opt/made/deep /home/sandbox/kept"
        )
        owners = await output(machine, f"stat -c '%u:%g %a' {places}")
    assert owners.splitlines() == [
        "1000:1000 755",
        "1000:1000 755",
        "1000:1000 644",
        "1000:1000 644",
        "0:0 644",
        "33:33 755",
        "33:33 644",
        "1000:1000 644",
        "0:0 755",
        "7:8 600",
    ]


async def test_a_full_disk_is_told_and_leaves_nothing(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        await run(machine, as_root(shell("mkdir /mnt/small; mount -t tmpfs -o size=1m tmpfs /mnt/small")))
        with pytest.raises(DiskFull):
            await machine.files.write("/mnt/small/file", pieces(*[bytes(65536)] * 100))
        with pytest.raises(DiskFull):
            await machine.files.write("/mnt/small/file", pieces(b"x"), size_hint=2 << 20)
        assert await output(machine, "ls -A /mnt/small | wc -l") == "0"


async def test_what_cannot_be_written_or_removed_is_forbidden(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        for path in ("/.oc/bin/python3", "/.oc/new", "/proc/new"):
            with pytest.raises((FileForbidden, NotAFile)):
                await machine.files.write(path, pieces(b"x"))
        with pytest.raises(FileForbidden):
            await machine.files.remove("/.oc/bin")
        assert (await run(machine, command("true"))).exit == ExitStatus(0)


async def test_pseudo_files_are_read_to_their_end(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine, machine.files.read("/proc/meminfo") as content:
        assert content.size_bytes is None
        assert b"MemTotal" in b"".join([chunk async for chunk in content.chunks])


async def test_a_chatty_process_nobody_reads_costs_no_memory(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        before = int(await output(machine, "ps -o rss= -p 1"))
        chatty = shell("yes $(seq 100) & (yes >&2) & wait")
        await machine.processes.spawn(chatty)
        slow = machine.processes.attach(chatty.id)
        async with slow:
            await asyncio.sleep(3)  # what it does with its time is the thing under test
            after = int(await output(machine, "ps -o rss= -p 1"))
            await machine.processes.signal(chatty.id, 9)
        assert after - before < 24 << 10, (before, after)


async def test_everything_survives_a_memory_image(harness: GvisorHarness) -> None:
    image = harness.folder / "image"
    async with open_machine(harness) as machine:
        spec = with_stdin(replace(shell("echo before; read x; echo got $x; sleep 300"), linger_seconds=300))
        await machine.processes.spawn(spec)
        async with machine.processes.attach(spec.id, counted=True) as attachment:
            await read_until(attachment, b"before\n")
            await machine.save(image)
            await attachment.write(b"original\n")
            await read_until(attachment, b"got original\n")
    async with open_machine(harness, harness.spec(saved=image)) as copy:
        record = await copy.processes.get(spec.id)
        assert (record.exit, record.attached) == (None, 0)
        async with copy.processes.attach(spec.id) as attachment:
            await attachment.write(b"copy\n")
            assert await read_until(attachment, b"got copy\n") == b"before\ngot copy\n"
            assert (await run(copy, command("true"))).exit == ExitStatus(0)
            await copy.processes.signal(spec.id, 9)
            assert (await finish(attachment)).exit == ExitStatus(137, 9, "killed")
        assert await processes_of(copy) == []


async def test_a_process_that_takes_all_memory_is_ended_and_the_machine_is_not(
    harness: GvisorHarness,
) -> None:
    """At once, bit by bit, and by several at the same time."""
    at_once = "x = bytearray(2 << 30)"
    slowly = "x = []\nwhile True: x.append(bytearray(4 << 20))"
    async with open_machine(harness) as machine:
        innocent = with_stdin(shell("read x; echo still here"))
        await machine.processes.spawn(innocent)
        for program in (at_once, slowly):
            finished = await run(machine, command("python3", "-c", program))
            assert finished.exit.code in (137, 1), finished  # 1: it was told that there is no more
        several = [run(machine, command("python3", "-c", slowly)) for _ in range(3)]
        assert [each.exit.code in (137, 1) for each in await asyncio.gather(*several)] == [True] * 3
        async with machine.processes.attach(innocent.id) as attachment:
            await attachment.write(b"\n")
            assert (await finish(attachment)).stdout == b"still here\n"
