"""The stateful shell and terminals in a real machine, through our own client."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer import Sandbox, ShellBusyError, ShellClosedError
from opencomputer.sdk.pty import PtySession
from tests.support.node import Api
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.machines]


# Shell


@pytest.fixture(scope="module")
def server(shared_server: ServerProcess) -> ServerProcess:
    """Nothing here is done to the node."""
    return shared_server


async def test_a_shell_keeps_its_state(sandbox: Sandbox) -> None:
    async with await sandbox.exec.shell(cwd="/tmp", env={"A": "1"}) as shell:
        assert (await shell.run("pwd; echo $A")).stdout == "/tmp\n1\n"
        await shell.run("cd /; export B=2; C=3; f() { echo f $1; }; umask 077; set -o pipefail")
        result = await shell.run("pwd; echo $B $C; f x; umask; false | true; echo $?")
        assert result.stdout == "/\n2 3\nf x\n0077\n1\n"


async def test_a_run_has_its_own_output_and_code(sandbox: Sandbox) -> None:
    async with await sandbox.exec.shell() as shell:
        first = await shell.run("echo out; echo err >&2; (exit 7)")
        assert (first.exit_code, first.stdout, first.stderr) == (7, "out\n", "err\n")
        for text in ("no newline", "a\n\nb\n\n\n", "\r\n", " "):
            assert (await shell.run(f"printf %s {text!r}".replace("\\n", "'$'\\n''"))).exit_code == 0
        assert (await shell.run("printf 'no newline'")).stdout == "no newline"
        assert (await shell.run("printf 'a\\n\\nb\\n\\n\\n'")).stdout == "a\n\nb\n\n\n"
        assert (await shell.run("")).exit_code == 0
        heredoc = await shell.run("cat <<'X'\nline $HOME\nX\ncat <<Y\n$((1+1))\nY")
        assert heredoc.stdout == "line $HOME\n2\n"
        assert (await shell.run("echo after")).stdout == "after\n"


async def test_no_marker_ever_reaches_the_caller(sandbox: Sandbox) -> None:
    heard: list[bytes] = []
    async with await sandbox.exec.shell() as shell:
        for size in (1, 4095, 4096, 65_535, 65_536, 300_000):
            result = await shell.run(f"head -c {size} /dev/zero | tr '\\0' x", on_stdout=heard.append)
            assert result.stdout == "x" * size
            assert b"".join(heard) == b"x" * size
            heard.clear()


async def test_one_run_at_a_time(sandbox: Sandbox) -> None:
    async with await sandbox.exec.shell() as shell:
        first = asyncio.create_task(shell.run("until test -e /tmp/go; do sleep 0.1; done; echo first"))
        await asyncio.sleep(0.2)
        with pytest.raises(ShellBusyError):
            await shell.run("echo second")
        await sandbox.files.write("/tmp/go", "")
        assert (await first).stdout == "first\n"
        assert (await shell.run("echo second")).stdout == "second\n"


async def test_a_shell_that_ends_says_so(sandbox: Sandbox) -> None:
    shell = await sandbox.exec.shell()
    with pytest.raises(ShellClosedError):
        await shell.run("exit 3")
    with pytest.raises(ShellClosedError):
        await shell.run("echo hello")


async def test_a_shell_is_taken_up_again_without_its_old_output(sandbox: Sandbox) -> None:
    shell = await sandbox.exec.shell()
    await shell.run("X=kept; echo old output")
    again = await sandbox.exec.reattach_shell(shell.session_id)
    assert (await again.run("echo $X")).stdout == "kept\n"
    await again.close()


# Terminals


async def read_until(terminal: PtySession, wanted: bytes) -> bytes:
    seen = b""
    try:
        while wanted not in seen:
            seen += await asyncio.wait_for(terminal.recv(), 60)
    except TimeoutError:
        raise AssertionError(f"{wanted!r} was not shown, but {seen!r}") from None
    return seen


async def say(terminal: PtySession, line: str) -> bytes:
    await terminal.send(f"{line}; echo end''mark\n")
    return await read_until(terminal, b"endmark\r\n")


async def test_a_terminal_is_a_login_shell_of_its_size(server: ServerProcess) -> None:
    async with Sandbox.create(api_url=server.url, api_key=server.api_key, envs={"COLOUR": "blue"}) as sandbox:
        terminal = await sandbox.pty.create(cols=100, rows=30)
        text = await say(terminal, "stty size; tty; id -un; pwd; echo $TERM $COLOUR $0")
        for line in (
            b"30 100\r\n",
            b"/dev/pts/",
            b"sandbox\r\n",
            b"/home/sandbox\r\n",
            b"xterm-256color blue",
        ):
            assert line in text
        await terminal.resize(132, 50)
        assert b"50 132\r\n" in await say(terminal, "stty size")


async def test_two_terminals_and_a_signal_from_the_keyboard(sandbox: Sandbox) -> None:
    first, second = await sandbox.pty.create(), await sandbox.pty.create()
    await first.send("echo begun; cat\n")
    await read_until(first, b"begun\r\n")
    await say(second, "X=2")
    await first.send("ping\n")
    await read_until(first, b"ping\r\nping\r\n")
    await first.send(b"\x03")
    await read_until(first, b"$ ")
    assert b"130\r\n" in await say(first, "echo $?")
    assert b"[2]\r\n" in await say(second, "echo [$X]")


# What must never be done, and is only safe to try in a machine


@pytest.mark.parametrize("path", ["/", "//", "/.", "/..", "/etc/..", "../" * 50])
async def test_the_root_cannot_be_removed(api: Api, sandbox: Sandbox, path: str) -> None:
    answer = await api.delete(f"/sandboxes/{sandbox.id}/files", params={"path": path})
    assert answer.status_code in (400, 403), answer.text
    assert await sandbox.files.exists("/etc/passwd")
