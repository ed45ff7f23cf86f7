"""Exec sessions over a WebSocket: replay, the mark, live output, exit, close; for any number of clients."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.node import Api, output, receive_all
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

MARK = b"\x04"


def at(sandbox: str, session: str) -> str:
    return f"/sandboxes/{sandbox}/exec/{session}"


async def sessions(api: Api, sandbox: str) -> dict[str, Any]:
    found = (await api.get(f"/sandboxes/{sandbox}/exec")).json()
    return {each["sessionID"]: each for each in found}


async def ended(api: Api, sandbox: str, session: str) -> bool:
    return not (await sessions(api, sandbox))[session]["running"]


async def read_until(socket: ClientConnection, wanted: bytes, channel: int = 1) -> bytes:
    """The text of one channel, until `wanted` has come."""
    seen = bytearray()
    while wanted not in seen[-len(wanted) - (1 << 16) :]:
        message = await asyncio.wait_for(socket.recv(), 60)
        assert isinstance(message, bytes)
        if message[0] == channel:
            seen += message[1:]
    return bytes(seen)


async def read_mark(socket: ClientConnection) -> None:
    while await asyncio.wait_for(socket.recv(), 60) != MARK:
        pass


# The sequence


async def test_a_session_that_has_ended_gives_replay_mark_exit_close(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "echo out; exit 7")
    await eventually(lambda: ended(api, sandbox, session), "the end")
    for _ in range(2):
        async with api.socket(at(sandbox, session)) as socket:
            messages = await receive_all(socket)
        assert messages == [b"\x01out\n", MARK, b"\x03\x00\x00\x00\x07"]
        assert (socket.close_code, socket.close_reason) == (1000, "exec completed")


async def test_the_mark_comes_even_where_there_is_nothing_to_replay(api: Api, sandbox: str) -> None:
    quiet = await api.start(sandbox, "sleep 60")
    async with api.socket(at(sandbox, quiet)) as socket:
        assert await asyncio.wait_for(socket.recv(), 60) == MARK
    silent = await api.start(sandbox, "true")
    await eventually(lambda: ended(api, sandbox, silent), "the end")
    async with api.socket(at(sandbox, silent)) as socket:
        assert await receive_all(socket) == [MARK, b"\x03\x00\x00\x00\x00"]


async def test_streams_keep_their_order_within_the_replay(api: Api, sandbox: str) -> None:
    script = "for i in 1 2 3 4 5; do echo out$i; sleep 0.05; echo err$i >&2; sleep 0.05; done"
    session = await api.start(sandbox, script)
    await eventually(lambda: ended(api, sandbox, session), "the end")
    async with api.socket(at(sandbox, session)) as socket:
        messages = await receive_all(socket)
    assert messages[-2] == MARK
    expected = [piece for i in range(1, 6) for piece in (b"\x01out%d\n" % i, b"\x02err%d\n" % i)]
    assert messages[:-2] == expected


@pytest.mark.parametrize(
    ("script", "code"), [("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("no-such", 127)]
)
async def test_the_exit_frame_is_five_bytes(api: Api, sandbox: str, script: str, code: int) -> None:
    session = await api.start(sandbox, script)
    async with api.socket(at(sandbox, session)) as socket:
        messages = await receive_all(socket)
    assert messages[-1] == b"\x03" + code.to_bytes(4, "big")


async def test_every_byte_comes_before_the_exit(api: Api, sandbox: str) -> None:
    session = await api.start(
        sandbox, "head -c 700000 /dev/zero; echo end; head -c 200000 /dev/zero >&2; exit 1"
    )
    async with api.socket(at(sandbox, session)) as socket:
        messages = await receive_all(socket)
    assert len(output(messages, 1)) == 700_004
    assert output(messages, 1).endswith(b"end\n")
    assert len(output(messages, 2)) == 200_000
    assert [message[0] for message in messages].count(3) == 1
    assert messages[-1][0] == 3
    assert messages.count(MARK) == 1


async def test_no_message_is_larger_than_clients_take(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "head -c 900000 /dev/zero")
    async with api.socket(at(sandbox, session)) as socket:
        messages = await receive_all(socket)
    assert max(map(len, messages)) <= 64 * 1024 + 1


async def test_bytes_are_never_changed(api: Api, sandbox: str) -> None:
    script = r"i=0; while [ $i -lt 256 ]; do printf \\$(printf %03o $i); i=$((i+1)); done; printf 'a\r\nb'"
    session = await api.start(sandbox, script)
    async with api.socket(at(sandbox, session)) as socket:
        assert output(await receive_all(socket), 1) == bytes(range(256)) + b"a\r\nb"


async def test_not_a_byte_is_lost_or_doubled_between_replay_and_live(api: Api, sandbox: str) -> None:
    """Whenever somebody attaches while the program writes."""
    script = "i=0; while [ $i -lt 4000 ]; do echo $i; i=$((i+1)); done"
    session = await api.start(sandbox, script)

    async def attach(delay: float) -> tuple[bytes, int]:
        await asyncio.sleep(delay)
        async with api.socket(at(sandbox, session)) as socket:
            messages = await receive_all(socket)
        return output(messages, 1), messages.count(MARK)

    seen = await asyncio.gather(*(attach(number * 0.004) for number in range(12)))
    expected = b"".join(b"%d\n" % number for number in range(4000))
    assert all(each == (expected, 1) for each in seen)


# Input


async def test_input_goes_in_in_order(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "cat")
    async with api.socket(at(sandbox, session)) as socket:
        await read_mark(socket)
        for number in range(200):
            await socket.send(b"\x00line %d\n" % number)
        text = await read_until(socket, b"line 199\n")
    assert text == b"".join(b"line %d\n" % number for number in range(200))


async def test_what_is_no_input_frame_is_ignored(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "cat")
    async with api.socket(at(sandbox, session)) as socket:
        await read_mark(socket)
        for nothing in (
            b"",
            b"\x00",
            b"\x01x",
            b"\x03\x00\x00\x00\x00",
            b"\x04",
            b"\xffx",
            "text",
            "\x00text",
        ):
            await socket.send(nothing)
        await socket.send(b"\x00only this\n")
        assert await read_until(socket, b"\n") == b"only this\n"


async def test_input_for_a_program_that_has_ended_is_ignored(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "exit 3")
    await eventually(lambda: ended(api, sandbox, session), "the end")
    async with api.socket(at(sandbox, session)) as socket:
        with suppress(ConnectionClosed):
            for _ in range(1000):
                await socket.send(b"\x00" + b"x" * 10_000)
        await receive_all(socket)
    assert socket.close_code == 1000


async def test_a_message_that_is_too_large_ends_the_socket_not_the_program(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "cat")
    async with api.socket(at(sandbox, session)) as socket:
        await read_mark(socket)
        with suppress(ConnectionClosed):
            await socket.send(b"\x00" + bytes(17 << 20))
        await asyncio.wait_for(receive_all(socket), 60)
    assert socket.close_code == 1009
    assert (await sessions(api, sandbox))[session]["running"]


# Clients


async def test_all_clients_see_everything_and_may_write(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "echo before; cat")
    async with api.socket(at(sandbox, session)) as first, api.socket(at(sandbox, session)) as second:
        for socket in (first, second):
            await read_until(socket, b"before\n")
        await first.send(b"\x00from the first\n")
        for socket in (first, second):
            await read_until(socket, b"from the first\n")
        await second.send(b"\x00from the second\n")
        for socket in (first, second):
            await read_until(socket, b"from the second\n")
        assert (await sessions(api, sandbox))[session]["attachedClients"] == 2


async def test_sessions_are_independent(api: Api, sandbox: str) -> None:
    first, second = await api.start(sandbox, "cat"), await api.start(sandbox, "cat")
    async with api.socket(at(sandbox, first)) as one, api.socket(at(sandbox, second)) as two:
        await read_mark(one)
        await read_mark(two)
        await one.send(b"\x001\n")
        await two.send(b"\x002\n")
        assert await read_until(one, b"\n") == b"1\n"
        assert await read_until(two, b"\n") == b"2\n"


async def test_leaving_ends_nothing_and_coming_back_replays(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "echo one; read line; echo two $line; sleep 60")
    async with api.socket(at(sandbox, session)) as socket:
        await read_until(socket, b"one\n")

    async def alone() -> bool:
        return (await sessions(api, sandbox))[session]["attachedClients"] == 0

    await eventually(alone, "the client's leaving")
    async with api.socket(at(sandbox, session)) as socket:
        await socket.send(b"\x00again\n")
        assert await read_until(socket, b"again\n") == b"one\ntwo again\n"


async def test_a_session_lingers_so_long_after_its_last_client(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "sleep 600", maxRunAfterDisconnect=1)
    async with api.socket(at(sandbox, session)) as first:
        await read_mark(first)
        async with api.socket(at(sandbox, session)) as second:
            await read_mark(second)
        await asyncio.sleep(1.3)
        assert (await sessions(api, sandbox))[session]["running"], "one client is still there"
    await eventually(lambda: ended(api, sandbox, session), "the end after the last client left")
    assert (await sessions(api, sandbox))[session]["exitCode"] == 137


async def test_coming_back_in_time_keeps_a_session_alive(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "sleep 600", maxRunAfterDisconnect=4)
    never = await api.start(sandbox, "sleep 600", maxRunAfterDisconnect=4)
    async with api.socket(at(sandbox, session)) as socket:
        await read_mark(socket)
    async with api.socket(at(sandbox, session)):
        await asyncio.sleep(4.5)
        found = await sessions(api, sandbox)
        assert found[session]["running"]
        assert found[never]["running"], "before the first client the time does not run"


def reluctant(api: Api, path: str) -> connect:
    """A client that takes one message and then leaves the rest on the wire."""
    address = f"{api.url.replace('http', 'ws')}/api{path}?api_key={api.key}"
    return connect(address, max_queue=1, proxy=None, open_timeout=60, close_timeout=0.1)


async def test_one_who_reads_nothing_stalls_nobody(api: Api, sandbox: str) -> None:
    """Neither the program, nor another client, nor the node."""
    session = await api.start(sandbox, "read go; yes | head -c 20000000; echo finished")
    async with reluctant(api, at(sandbox, session)), api.socket(at(sandbox, session)) as reader:
        await reader.send(b"\x00go\n")
        text = await read_until(reader, b"finished\n")
        assert len(text) == 20_000_009
        assert (await api.run(sandbox, "echo alive"))["stdout"] == "alive\n"
        await eventually(lambda: ended(api, sandbox, session), "the end")


async def test_one_who_reads_too_slowly_is_told_to_come_back(api: Api, sandbox: str) -> None:
    """Bytes it has missed are never passed over in silence: it is closed, and the replay has them."""
    session = await api.start(sandbox, "read go; head -c 30000000 /dev/zero | tr '\\0' x; echo end")
    async with reluctant(api, at(sandbox, session)) as slow:
        await read_mark(slow)
        await slow.send(b"\x00go\n")
        await eventually(lambda: ended(api, sandbox, session), "the end")
        received = await receive_all(slow)
    assert len(b"".join(received)) < 30_000_000
    assert slow.close_code == 1012
    async with api.socket(at(sandbox, session)) as again:
        assert output(await receive_all(again), 1).endswith(b"end\n")


# Before the upgrade


@pytest.mark.parametrize(
    ("key", "status"), [("wrong", 401), ("osb_" + "0" * 64, 401), ("%20", 401), ("a.b.c", 401)]
)
@pytest.mark.parametrize("kind", ["exec", "agent", "pty"])
async def test_a_wrong_credential_is_refused_as_plain_http(
    api: Api, sandbox: str, kind: str, key: str, status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with api.socket(f"/sandboxes/{sandbox}/{kind}/00000000", key=key):
            pass
    response = refused.value.response
    assert response.status_code == status
    assert b'"code":"unauthorized"' in (response.body or b"")


@pytest.mark.parametrize("kind", ["exec", "agent", "pty"])
@pytest.mark.parametrize("session", ["00000000", "x", "run-async", "%00", "a" * 300])
async def test_an_unknown_session_is_refused_as_plain_http(
    api: Api, sandbox: str, kind: str, session: str
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with api.socket(f"/sandboxes/{sandbox}/{kind}/{session}"):
            pass
    assert refused.value.response.status_code == 404
    assert b'"code":"not_found"' in (refused.value.response.body or b"")


async def test_a_socket_without_a_route_is_not_found(api: Api, sandbox: str) -> None:
    for path in (f"/sandboxes/{sandbox}/nothing/x", "/nothing"):
        with pytest.raises(InvalidStatus) as refused:
            async with api.socket(path):
                pass
        assert refused.value.response.status_code == 404
        assert b'"code":"not_found"' in (refused.value.response.body or b"")


async def test_a_token_opens_the_sockets_of_its_own_sandbox_only(api: Api, sandbox: str) -> None:
    token = (await api.get(f"/sandboxes/{sandbox}")).json()["token"]
    session = await api.start(sandbox, "sleep 60")
    async with connect(
        f"{api.url.replace('http', 'ws')}{at(sandbox, session)}?token={token}", proxy=None
    ) as socket:
        await read_mark(socket)
    with pytest.raises(InvalidStatus) as refused:
        async with api.socket(at("sb-00000000", session), key=token):
            pass
    assert refused.value.response.status_code == 403


async def test_a_credential_may_stand_in_a_header_too(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "sleep 60")
    address = f"{api.url.replace('http', 'ws')}/api{at(sandbox, session)}"
    async with connect(address, additional_headers={"X-API-Key": api.key}, proxy=None) as socket:
        await read_mark(socket)


async def test_a_stopped_sandbox_is_gone(api: Api) -> None:
    sandbox = (await api.create())["sandboxID"]
    session = await api.start(sandbox, "sleep 60")
    await api.delete(f"/sandboxes/{sandbox}")
    with pytest.raises(InvalidStatus) as refused:
        async with api.socket(at(sandbox, session)):
            pass
    assert refused.value.response.status_code == 410


# Ends that come from elsewhere


async def test_a_kill_of_the_sandbox_closes_its_sockets_normally(api: Api) -> None:
    sandbox = (await api.create())["sandboxID"]
    session = await api.start(sandbox, "echo hi; sleep 600")
    async with api.socket(at(sandbox, session)) as first, api.socket(at(sandbox, session)) as second:
        for socket in (first, second):
            await read_until(socket, b"hi\n")
        await api.delete(f"/sandboxes/{sandbox}")
        for socket in (first, second):
            rest = await receive_all(socket)
            assert 3 not in [message[0] for message in rest], "nobody knows an exit code"
            assert (socket.close_code, socket.close_reason) == (1000, "sandbox stopped")


async def test_a_kill_of_the_session_is_its_exit(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "sleep 600")
    async with api.socket(at(sandbox, session)) as socket:
        await read_mark(socket)
        await api.post(f"/sandboxes/{sandbox}/exec/{session}/kill")
        assert await receive_all(socket) == [b"\x03\x00\x00\x00\x89"]
    assert socket.close_code == 1000


async def test_a_revoked_key_closes_its_open_sockets_and_no_others(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "cat")
    created = (await api.post("/api-keys", json={"name": "short-lived"})).json()
    async with api.socket(at(sandbox, session)) as mine:
        async with api.socket(at(sandbox, session), key=created["key"]) as theirs:
            await read_mark(theirs)
            await api.delete(f"/api-keys/{created['id']}")
            await asyncio.wait_for(receive_all(theirs), 60)
            assert theirs.close_code == 1008
        await read_mark(mine)
        await mine.send(b"\x00still here\n")
        await read_until(mine, b"still here\n")


async def test_pings_are_answered_while_the_program_is_silent(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "sleep 600")
    async with api.socket(at(sandbox, session)) as socket:
        await asyncio.wait_for(await socket.ping(), 60)
