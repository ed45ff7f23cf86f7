"""HTTP/1 with programs and hosts that do unusual, faulty or hostile things."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.domain.egress import EgressRules
from tests.support.egress import (
    OTHER_TOKEN,
    TOKEN,
    Internet,
    Recorder,
    read_chunks,
    rules,
    secret,
)

pytestmark = pytest.mark.anyio

HOST = "api.example.com"
GET = f"GET / HTTP/1.1\nHost: {HOST}\n"


def _rules() -> EgressRules:
    return rules(
        secret(HOST), secret("b.test", name="OTHER", token=OTHER_TOKEN, value="value-of-the-other-one")
    )


@pytest.mark.parametrize(
    "head",
    [
        "POST / HTTP/1.1\nHost: {host}\nContent-Length: 3\nTransfer-Encoding: chunked\n\n",
        "POST / HTTP/1.1\nHost: {host}\nContent-Length: 3\nContent-Length: 3\n\n",
        "POST / HTTP/1.1\nHost: {host}\nContent-Length: 3, 4\n\n",
        "POST / HTTP/1.1\nHost: {host}\nContent-Length: +3\n\n",
        "POST / HTTP/1.1\nHost: {host}\nTransfer-Encoding: chunked\nTransfer-Encoding: identity\n\n",
        "POST / HTTP/1.1\nHost: {host}\nTransfer-Encoding : chunked\n\n",
        "GET / HTTP/1.1\nHost: {host}\nX-Folded: a\n b\n\n",
        "GET / HTTP/1.1\nHost: {host}\nHost: {host}\n\n",
        "GET / HTTP/1.1\nHost: {host}\nX: a\rb\n\n",
        "GET / HTTP/1.1\nHost: {host}\nX: a\x00b\n\n",
        "GET / HTTP/1.1\nHost:\n\n",
        "GET / HTTP/1.1\nX: no host\n\n",
        "GET / HTTP/1.1\nHost: a b\n\n",
        "nonsense\n\n",
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused(net: Internet, head: str) -> None:
    net.admit(_rules())
    recorder = Recorder()
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port)
        assert (await wire.request(head.replace("{host}", HOST), b"abc")).status in (400, 501)
        wire.close()
    assert recorder.requests == []


async def test_a_transfer_encoding_nobody_knows_is_refused(net: Internet) -> None:
    net.admit(_rules())
    recorder = Recorder()
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port)
        answer = await wire.request(f"POST / HTTP/1.1\nHost: {HOST}\nTransfer-Encoding: xchunked\n\n")
        assert answer.status == 400
        wire.close()
    assert recorder.requests == []


async def test_headers_for_the_next_hop_stay_there(net: Internet) -> None:
    """Naming a header in Connection does not make the host miss it either."""
    net.admit(_rules())
    recorder = Recorder()
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port)
        await wire.request(
            GET + "Connection: keep-alive, X-Needed\nX-Needed: 1\nKeep-Alive: 5\nUpgrade: h2c\nTE: gzip\n\n"
        )
        wire.close()
    assert recorder.last.header("x-needed") == "1"
    for name in ("connection", "keep-alive", "upgrade", "te"):
        assert recorder.last.header(name) is None


async def test_a_program_that_asks_first_may_go_on(net: Internet) -> None:
    """curl waits for 100 Continue: ours when the body is short, the host's when it is long."""
    net.admit(_rules())
    recorder = Recorder()
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port)
        head = f"POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        wire.writer.write(head.encode())
        assert (await wire.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        wire.writer.write(b"abc")
        assert (await wire.answer()).status == 200
        wire.close()
    assert recorder.last.header("expect") is None

    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"Expect: 100-continue" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await read_chunks(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n%07d" % len(body))

    async with net.host(HOST, host) as port:
        wire = await net.secure(HOST, port)
        wire.writer.write(head.replace(": 3\r", ": 300000\r").encode())
        assert (await wire.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        wire.writer.write(b"x" * 300_000)
        assert (await wire.answer()).body == b"0300000"
        wire.close()


async def test_a_host_that_answers_before_the_body_is_over_is_heard(net: Internet) -> None:
    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        await reader.read()

    net.admit(_rules())
    async with net.host(HOST, host) as port:
        wire = await net.secure(HOST, port)
        answer = await wire.request(
            f"POST / HTTP/1.1\nHost: {HOST}\nContent-Length: 9999999\n\n", b"x" * 1000
        )
        assert answer.status == 413
        wire.close()


async def test_a_host_that_hangs_up_between_requests_is_connected_to_again(net: Internet) -> None:
    connections: list[int] = []

    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()

    net.admit(_rules())
    async with net.host(HOST, host) as port:
        wire = await net.secure(HOST, port)
        for _ in range(3):
            assert (await wire.request(GET + "\n")).body == b"ok"
        wire.close()
    assert len(connections) == 3


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\n\r\n"])
async def test_a_host_that_answers_nonsense_is_502(net: Internet, answer: bytes) -> None:
    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    net.admit(_rules())
    async with net.host(HOST, host) as port:
        wire = await net.secure(HOST, port)
        assert (await wire.request(GET + "\n")).status == 502
        wire.close()


async def test_an_answer_that_breaks_off_is_not_made_to_look_whole(net: Internet) -> None:
    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await writer.drain()

    net.admit(_rules())
    async with net.host(HOST, host) as port:
        wire = await net.secure(HOST, port)
        wire.writer.write(GET.replace("\n", "\r\n").encode() + b"\r\n")
        rest = await wire.rest()
    assert b"abc" in rest
    assert not rest.endswith(b"0\r\n\r\n")


async def test_old_programs_and_answers_without_a_body_work(net: Internet) -> None:
    net.admit(_rules())
    recorder = Recorder(b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n")
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port)
        wire.writer.write(f"HEAD / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        assert b"12345" in await wire.reader.readuntil(b"\r\n\r\n")
        recorder.answer = b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"
        assert (await wire.request(GET + "\n")).status == 304
        recorder.answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
        wire.writer.write(f"GET / HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode())
        rest = await wire.rest()
        wire.close()
    assert rest.endswith(b"\r\n\r\nok")
    assert b"chunked" not in rest


async def test_what_is_no_tls_is_passed_on_as_it_is(net: Internet) -> None:
    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())

    net.admit(_rules())
    async with net.host(HOST, host, tls=False) as port:
        wire = await net.tunnel(HOST, port)
        wire.writer.write(f"ping {TOKEN}\n".encode())
        assert await wire.rest() == f"ping {TOKEN}\n".upper().encode()
