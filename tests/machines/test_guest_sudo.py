"""sudo in a machine whose kernel ignores set-user-ID bits; newer kernels run the real one."""

from __future__ import annotations

import secrets

import pytest

from opencomputer.server.contracts.machine import ExitStatus, Machine, ProcessKind, ProcessSpec, TerminalSize
from tests.support.driver_harness import GvisorHarness
from tests.support.machine_shell import open_machine
from tests.support.processes import command, finish, read_until, run

pytestmark = [pytest.mark.anyio, pytest.mark.machines]

SCRIPTS = [
    ("sudo id -u", "0\n"),
    ("sudo -n id -un", "root\n"),
    ("sudo -u www-data id -un", "www-data\n"),
    ("sudo -u '#33' id -u", "33\n"),
    ("sudo -u sandbox id -un", "sandbox\n"),
    ("sudo -- ls -d /root", "/root\n"),
    ("FOO=bar sudo sh -c 'echo [$FOO]'", "[]\n"),
    ("FOO=bar sudo -E sh -c 'echo [$FOO] $USER'", "[bar] root\n"),
    ("sudo FOO=bar sh -c 'echo $FOO'", "bar\n"),
    ("sudo -i pwd", "/root\n"),
    ("sudo -i echo '$HOME' 'a  b'", "/root a  b\n"),
    ("sudo -s echo hi", "hi\n"),
    ("cd /tmp; sudo pwd", "/tmp\n"),
    ("echo input | sudo cat", "input\n"),
    ("sudo sh -c 'exit 7'; echo $?", "7\n"),
    ("sudo sh -c 'kill -TERM $$'; echo $?", "143\n"),
    ("sudo no-such-program 2>/dev/null; echo $?", "1\n"),
    ("sudo -u no-such-user true 2>/dev/null; echo $?", "1\n"),
    ("sudo -v; echo $?", "0\n"),
    ("sudo sudo id -u", "0\n"),
    ("echo text | sudo tee /etc/of-root >/dev/null; stat -c %U /etc/of-root", "root\n"),
    ("head -c 3000000 /dev/zero | sudo cat | wc -c", "3000000\n"),
    (
        "sudo sh -c 'echo $SUDO_USER $HOME $SSL_CERT_FILE'",
        "sandbox /root /etc/ssl/certs/ca-certificates.crt\n",
    ),
]


async def bash(machine: Machine, script: str) -> str:
    finished = await run(machine, command("/bin/bash", "-c", script))
    return finished.stdout.decode()


async def test_sudo_does_what_scripts_expect_of_it(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        for script, printed in SCRIPTS:
            assert await bash(machine, script) == printed, script


async def test_other_users_may_not_use_it(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        printed = await bash(machine, "sudo -u www-data sh -c 'sudo -n id -u; echo code $?'")
        assert "code 1" in printed


async def test_what_sudo_started_belongs_to_the_session(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        spec = command("/bin/bash", "-c", "sudo sh -c 'setsid sleep 301 & echo started; sleep 302'")
        await machine.processes.spawn(spec)
        async with machine.processes.attach(spec.id) as attachment:
            await read_until(attachment, b"started\n")
            await machine.processes.signal(spec.id, 9)
            assert (await finish(attachment)).exit == ExitStatus(137, 9, "killed")
        assert await bash(machine, "pgrep -c sleep") == "0\n"


async def test_sudo_on_a_terminal(harness: GvisorHarness) -> None:
    """Keys, sizes, jobs and the terminal's state afterwards are as with any other program."""
    argv = ("/bin/bash", "--noprofile", "--norc")
    spec = ProcessSpec(secrets.token_hex(4), ProcessKind.PTY, argv, terminal=TerminalSize(90, 33))
    async with open_machine(harness) as machine:
        await machine.processes.spawn(spec)
        async with machine.processes.attach(spec.id, offset=None) as attachment:

            async def type_until(keys: bytes, wanted: bytes) -> None:
                await attachment.write(keys)
                await read_until(attachment, wanted)

            await type_until(b"PS1='% '; bind 'set enable-bracketed-paste off'\n", b"\r% ")
            await type_until(b"sudo sh -c 'tty; stty size'\n", b"33 90\r\n% ")
            await type_until(b"echo piped | sudo cat\n", b"\r\npiped\r\n% ")
            await type_until(b"sudo sh -c 'echo begun; exec cat'\n", b"begun\r\n")
            await type_until(b"ping\n", b"ping\r\nping\r\n")
            await type_until(b"\x03", b"% ")
            await type_until(b"echo code $?\n", b"code 130\r\n% ")
            await type_until(b"sudo bash --norc --noprofile\n", b"# ")
            await type_until(
                b"PS1='root# '; bind 'set enable-bracketed-paste off'; id -un\n", b"root\r\nroot# "
            )
            await machine.processes.resize(spec.id, TerminalSize(100, 40))
            await type_until(b"read x; stty size\n", b"stty size\r\n")
            await type_until(b"\n", b"40 100\r\nroot# ")
            await type_until(b"echo begun; cat\n", b"begun\r\n")
            await type_until(b"ping\n", b"ping\r\nping\r\n")
            await type_until(b"\x1a", b"root# ")
            await type_until(b"kill -9 %1; exec sh -c 'exit 6'\n", b"% ")
            await type_until(b"echo code $?; stty -a | grep -o -- '.icanon '\n", b"code 6\r\n icanon \r\n% ")
            await attachment.write(b"exit\n")
            await finish(attachment)
