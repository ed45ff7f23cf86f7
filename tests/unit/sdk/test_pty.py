"""`sandbox.pty`, on a real terminal."""

from __future__ import annotations

import pytest
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK

from opencomputer import LinkLostError, PtySession, Sandbox
from tests.support.fake_node import FakeNode
from tests.support.fake_node.node import FakeSandbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def read_until(terminal: PtySession, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        seen += await terminal.recv()
    return seen


async def test_what_is_typed_is_answered(sandbox: Sandbox) -> None:
    async with await sandbox.pty.create() as terminal:
        await terminal.send("echo $((6*7))\n")
        assert b"42" in await read_until(terminal, b"42")


async def test_the_terminal_has_the_size_it_was_given_and_then_the_new_one(sandbox: Sandbox) -> None:
    async with await sandbox.pty.create(cols=100, rows=40) as terminal:
        await terminal.send(b"stty size\n")
        assert b"40 100" in await read_until(terminal, b"40 100")
        await terminal.resize(cols=120, rows=50)
        await terminal.send(b"stty size\n")
        assert b"50 120" in await read_until(terminal, b"50 120")


async def test_output_goes_to_the_callback_when_there_is_one(sandbox: Sandbox) -> None:
    out: list[bytes] = []
    async with await sandbox.pty.create(on_output=out.append) as terminal:
        await terminal.send("echo $((6*7))\n")
        await eventually(lambda: b"42" in b"".join(out))


async def test_the_end_of_the_shell_is_the_end_of_the_output(sandbox: Sandbox) -> None:
    terminal = await sandbox.pty.create()
    await terminal.send("exit\n")
    with pytest.raises(EOFError) as raised:
        await read_until(terminal, b"never")
    assert isinstance(raised.value, ConnectionClosedOK), "what the published SDK raises"
    assert str(raised.value) == "the terminal has ended"
    with pytest.raises(EOFError):
        await terminal.send("more")


async def test_another_shell_can_be_asked_for(node: FakeNode, sandbox: Sandbox) -> None:
    async with await sandbox.pty.create(shell="/bin/bash") as terminal:
        await terminal.send("echo $BASH\n")
        await read_until(terminal, b"/bash")
    assert node.requests("POST", "/pty")[0].body == {"cols": 80, "rows": 24, "shell": "/bin/bash"}


async def test_closing_ends_the_terminal_and_may_be_repeated(sandbox: Sandbox, inside: FakeSandbox) -> None:
    terminal = await sandbox.pty.create()
    await terminal.close()
    await terminal.close()
    assert inside.terminals[terminal.session_id].deleted


async def test_a_detached_terminal_can_be_taken_up_again(sandbox: Sandbox, inside: FakeSandbox) -> None:
    first = await sandbox.pty.create()
    await first.send("kept=yes\n")
    await first.detach()
    assert not inside.terminals[first.session_id].deleted
    second = await sandbox.pty.attach(first.session_id)
    await second.send('echo "$kept$kept"\n')
    assert b"yesyes" in await read_until(second, b"yesyes")
    await second.close()


async def test_the_credential_goes_in_header_and_query(node: FakeNode, sandbox: Sandbox) -> None:
    terminal = await sandbox.pty.create()
    await terminal.close()
    socket = node.requests("WS", terminal.session_id)[0]
    assert socket.query == {"token": f"token-of-{sandbox.sandbox_id}"}
    assert socket.headers["authorization"] == f"Bearer token-of-{sandbox.sandbox_id}"
    assert "sec-websocket-extensions" not in socket.headers


async def test_a_broken_link_is_told_apart_from_the_end(sandbox: Sandbox, inside: FakeSandbox) -> None:
    terminal = await sandbox.pty.create()
    inside.terminals[terminal.session_id].break_link()
    with pytest.raises(LinkLostError, match="the link to the terminal was lost") as raised:
        await read_until(terminal, b"never")
    assert isinstance(raised.value, ConnectionClosedError)
    await terminal.close()


async def test_a_terminal_that_another_client_had_goes_on_where_it_was(
    node: FakeNode, sandbox: Sandbox
) -> None:
    """How much that one had seen is not known here, so that the server has to know."""
    first = await sandbox.pty.create()
    await first.send("echo a$((1 + 1))b\n")
    await read_until(first, b"a2b")
    await first.detach()
    second = await sandbox.pty.attach(first.session_id)
    await second.reconnect()
    assert "offset" not in node.requests("WS", first.session_id)[-1].query
    await second.close()
