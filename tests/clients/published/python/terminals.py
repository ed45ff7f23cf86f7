"""The published SDK's `pty`."""

import asyncio

import websockets
from checks import covers, main, raises, until


async def read_until(terminal, wanted, seconds=60):
    """Everything that the terminal showed until `wanted` was among it."""
    seen = b""
    try:
        async with asyncio.timeout(seconds):
            while wanted not in seen:
                seen += await terminal.recv()
    except TimeoutError:
        raise AssertionError(f"{wanted!r} was not shown, but {seen!r}") from None
    return seen


@covers("A25")
async def a_terminal_has_the_size_it_was_asked_for(sandbox):
    terminal = await sandbox.pty.create(cols=132, rows=43)
    await terminal.send("stty size\n")
    await read_until(terminal, b"43 132")
    await terminal.close()


@covers("A25")
async def a_terminal_is_a_login_shell_at_home_with_colours(sandbox):
    terminal = await sandbox.pty.create()
    await terminal.send('shopt login_shell; echo "<$TERM|$PWD>"; tty; stty size\n')
    seen = await read_until(terminal, b"24 80")
    assert b"<xterm-256color|/home/sandbox>" in seen
    assert b"login_shell    \ton" in seen
    assert b"/dev/pts/" in seen
    await terminal.close()


@covers("A25")
async def a_terminal_knows_the_sandbox_environment(sandbox):
    terminal = await sandbox.pty.create()
    await terminal.send("locale charmap; printf '\\342\\224\\200|\\n'\n")
    assert b"UTF-8" in await read_until(terminal, "─|".encode())
    await terminal.close()


@covers("A25")
async def control_c_interrupts_the_foreground_job(sandbox):
    terminal = await sandbox.pty.create()
    await terminal.send("echo begun; cat\n")
    await read_until(terminal, b"begun\r\n")
    # The program's own answer, beside the echo: a shell that is still starting one may miss the interrupt.
    await terminal.send("ping\n")
    await read_until(terminal, b"ping\r\nping\r\n")
    await terminal.send(b"\x03")
    await read_until(terminal, b"$ ")
    await terminal.send("echo code=$?\n")
    await read_until(terminal, b"code=130")
    await terminal.close()


@covers("A25")
async def output_can_be_handed_to_a_callback(sandbox):
    seen = []
    terminal = await sandbox.pty.create(on_output=seen.append)
    await terminal.send("echo $((40 + 2))\n")
    await until(lambda: b"42" in b"".join(seen))
    await terminal.close()


@covers("A25")
async def leaving_the_shell_closes_the_socket_normally(sandbox):
    terminal = await sandbox.pty.create()
    await terminal.send("exit\n")
    closed = await raises(websockets.ConnectionClosed, read_until(terminal, b"never shown"))
    assert closed.rcvd.code == 1000


@covers("A25")
async def closing_a_terminal_may_be_repeated(sandbox):
    terminal = await sandbox.pty.create()
    await terminal.close()
    await terminal.close()


main()
