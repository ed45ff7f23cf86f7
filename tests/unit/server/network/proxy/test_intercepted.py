"""Hosts that may be sent a secret: what they get, what comes back, and what is refused on the way."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import random
import ssl
from dataclasses import replace

import pytest

from opencomputer.server.domain.egress import EgressRules
from opencomputer.server.network.proxy.connection import ProxyConfig
from tests.support.egress import (
    OTHER_TOKEN,
    TOKEN,
    VALUE,
    Internet,
    Recorder,
    internet,
    read_chunks,
    rules,
    secret,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

HOST = "api.example.com"
GET = f"GET / HTTP/1.1\nHost: {HOST}\n"


def _rules() -> EgressRules:
    return rules(
        secret(HOST), secret("b.test", name="OTHER", token=OTHER_TOKEN, value="value-of-the-other-one")
    )


async def test_a_token_in_a_header_a_query_and_basic_credentials_becomes_the_value(net: Internet) -> None:
    net.admit(_rules())
    recorder = Recorder()
    credentials = base64.b64encode(f"user:{TOKEN}".encode()).decode()
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port)
        assert wire.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        answer = await wire.request(
            f"GET /path/{TOKEN}?key={TOKEN} HTTP/1.1\nHost: {HOST}:{port}\nX-Api-Key: {TOKEN}\n"
            f"Authorization: Basic {credentials}\nX-Other: {OTHER_TOKEN}\nX-UPPER: kept\n\n"
        )
        wire.close()
        assert (answer.status, answer.body) == (200, b"ok")
        await eventually(lambda: net.log.events)
    got = recorder.last
    assert got.head.startswith(f"GET /path/{TOKEN}?key={VALUE} HTTP/1.1\r\n")
    assert got.header("x-api-key") == VALUE
    assert base64.b64decode((got.header("authorization") or "").split()[1]) == f"user:{VALUE}".encode()
    assert got.header("x-other") == OTHER_TOKEN
    assert "X-UPPER: kept" in got.head
    event = net.log.events[0]
    assert (event.secrets, event.withheld, event.intercepted) == (("API_KEY",), ("OTHER",), True)
    assert (event.host, event.port, event.decision) == (HOST, port, "allowed")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_token_in_a_body_is_found_across_records_and_chunks(net: Internet, chunked: bool) -> None:
    """Each piece goes out in a TLS record of its own, one of them in the middle of the token."""
    net.admit(_rules())
    recorder = Recorder()
    noise = random.Random(1).randbytes(5000)
    body = noise + TOKEN.encode() + noise
    pieces = [body[:5007], body[5007:5040], body[5040:]]
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port)
        length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
        wire.writer.write(f"POST / HTTP/1.1\r\nHost: {HOST}\r\n{length}\r\n\r\n".encode())
        for piece in pieces:
            wire.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            await wire.writer.drain()
            await asyncio.sleep(0)
        if chunked:
            wire.writer.write(b"0\r\nX-Trailer: 1\r\n\r\n")
        assert (await wire.answer()).status == 200
        wire.close()
    assert recorder.last.body == noise + VALUE.encode() + noise
    expected = None if chunked else str(len(recorder.last.body))
    assert recorder.last.header("content-length") == expected


async def test_a_long_body_is_streamed_while_it_is_written(net: Internet) -> None:
    """The host gets the first part before the program has the last."""
    net.admit(_rules())
    first, whole = asyncio.Event(), list[bytes]()

    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        size = int(await reader.readuntil(b"\r\n"), 16)
        start = await reader.readexactly(size)
        await reader.readexactly(2)
        first.set()
        whole.append(start + await read_chunks(reader))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    noise = random.Random(2).randbytes(1_000_000)
    async with net.host(HOST, host) as port:
        wire = await net.secure(HOST, port)
        wire.writer.write(
            f"PUT / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(noise) * 2 + 43}\r\n\r\n".encode()
        )
        wire.writer.write(noise + TOKEN.encode()[:20])
        await asyncio.wait_for(first.wait(), 60)
        wire.writer.write(TOKEN.encode()[20:] + noise)
        assert (await wire.answer()).status == 204
        wire.close()
    assert whole == [noise + VALUE.encode() + noise]


@pytest.mark.parametrize(
    "headers", ["Content-Type: image/png", "Content-Type: application/octet-stream", "Content-Encoding: gzip"]
)
async def test_opaque_and_compressed_bodies_keep_their_length_and_every_byte(
    net: Internet, headers: str
) -> None:
    net.admit(_rules())
    recorder = Recorder()
    body = gzip.compress(random.Random(3).randbytes(900_000))
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port)
        head = f"POST / HTTP/1.1\nHost: {HOST}\nContent-Length: {len(body)}\n{headers}\n\n"
        assert (await wire.request(head, body)).status == 200
        wire.close()
    assert recorder.last.body == body
    assert recorder.last.header("content-length") == str(len(body))


async def test_a_form_of_several_parts_with_random_bytes_arrives_whole(net: Internet) -> None:
    net.admit(_rules())
    recorder = Recorder()
    noise = random.Random(4).randbytes(400_000)
    part = b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
    body = part % (b"key", TOKEN.encode()) + part % (b"file", noise) + b"--x--\r\n"
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port)
        head = f"POST / HTTP/1.1\nHost: {HOST}\nContent-Type: multipart/form-data; boundary=x\n"
        assert (await wire.request(f"{head}Content-Length: {len(body)}\n\n", body)).status == 200
        wire.close()
    assert recorder.last.body == body.replace(TOKEN.encode(), VALUE.encode())


async def test_requests_sent_ahead_are_answered_in_order_on_one_connection(net: Internet) -> None:
    net.admit(_rules())
    recorder = Recorder()
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port)
        body = json.dumps({"key": TOKEN})
        ahead = "".join(
            f"POST /{number} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
            for number in range(20)
        )
        wire.writer.write(ahead.encode())
        for _ in range(20):
            assert (await wire.answer()).body == b"ok"
        wire.close()
    assert [request.head.split()[1] for request in recorder.requests] == [f"/{n}" for n in range(20)]
    assert {request.body for request in recorder.requests} == {json.dumps({"key": VALUE}).encode()}
    assert recorder.connections == 1


async def test_events_arrive_one_by_one(net: Internet) -> None:
    net.admit(rules(secret()))
    go_on = asyncio.Event()

    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: one\n\n")
        await go_on.wait()
        writer.write(b"data: two\n\n")

    async with net.host(HOST, host) as port:
        wire = await net.secure(HOST, port)
        wire.writer.write(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        await wire.reader.readuntil(b"\r\n\r\n")
        assert b"data: one\n\n" in await asyncio.wait_for(wire.reader.readuntil(b"\n\n"), 60)
        go_on.set()
        assert b"data: two\n\n" in await wire.reader.readuntil(b"two\n\n")
        wire.close()


async def test_a_websocket_is_opened_with_the_value_and_then_left_alone(net: Internet) -> None:
    net.admit(_rules())
    heads: list[bytes] = []

    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: x\r\n\r\nfirst"
        )
        while data := await reader.read(1000):
            writer.write(data)

    async with net.host(HOST, host) as port:
        wire = await net.secure(HOST, port)
        wire.writer.write(
            f"GET /ws HTTP/1.1\r\nHost: {HOST}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
            f"Authorization: Bearer {TOKEN}\r\nSec-WebSocket-Key: x\r\n\r\nearly".encode()
        )
        answer = await wire.reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101")
        assert b"upgrade: websocket" in answer.lower()
        assert await wire.reader.readexactly(10) == b"firstearly"
        wire.writer.write(TOKEN.encode())
        assert await wire.reader.readexactly(len(TOKEN)) == TOKEN.encode()
        wire.close()
    assert f"Authorization: Bearer {VALUE}".encode() in heads[0]


async def test_values_do_not_come_back_from_hosts_that_are_not_named(net: Internet) -> None:
    answer = f'{{"you sent": "{VALUE}"}}'.encode()
    recorder = Recorder(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Echo: %b\r\nContent-Length: %d\r\n\r\n%b"
        % (VALUE.encode(), len(answer), answer)
    )
    async with net.host(HOST, recorder) as port:
        net.admit(rules(secret(HOST)))
        wire = await net.secure(HOST, port)
        assert (await wire.request(GET + "\n")).body == answer
        net.admit(rules(secret()))
        scrubbed = await wire.request(GET + f"X-Key: {TOKEN}\n\n")
        wire.close()
    assert recorder.last.header("x-key") == VALUE
    assert scrubbed.body == answer.replace(VALUE.encode(), TOKEN.encode())
    assert scrubbed.headers["x-echo"] == TOKEN


async def test_a_changed_value_is_used_for_the_next_request(net: Internet) -> None:
    net.admit(_rules())
    recorder = Recorder()
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port)
        await wire.request(GET + f"X-Key: {TOKEN}\n\n")
        net.admit(rules(replace(secret(HOST), value="a-new-value")))
        await wire.request(GET + f"X-Key: {TOKEN}\n\n")
        net.admit(rules(secret("b.test")))
        await wire.request(GET + f"X-Key: {TOKEN}\n\n")
        wire.close()
    assert [request.header("x-key") for request in recorder.requests] == [VALUE, "a-new-value", TOKEN]


async def test_a_host_in_the_request_that_is_not_the_connections_is_refused(net: Internet) -> None:
    net.admit(rules(secret(HOST), allow=[HOST]))
    recorder = Recorder()
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port)
        answer = await wire.request("GET / HTTP/1.1\nHost: hidden.example.com\n\n")
        wire.close()
        assert answer.status == 421
    assert recorder.requests == []
    assert ("hidden.example.com", "denied", "host_mismatch") in net.decisions()


@pytest.mark.parametrize("secrets", [True, False])
async def test_a_name_in_tls_that_is_not_the_connections_is_refused(net: Internet, secrets: bool) -> None:
    net.admit(rules(*([secret(HOST)] if secrets else []), allow=[HOST]))
    recorder = Recorder()
    async with net.host(HOST, recorder) as port:
        wire = await net.secure(HOST, port, sni="hidden.example.com")
        answer = await wire.request("GET / HTTP/1.1\nHost: hidden.example.com\n\n")
        wire.close()
        assert answer.status == 421
    assert (recorder.requests, net.decisions()) == ([], [("hidden.example.com", "denied", "host_mismatch")])


async def test_a_host_with_a_certificate_of_nobodys_is_502(net: Internet) -> None:
    net.admit(_rules())
    net.names.known[HOST] = ["127.0.0.2"]
    recorder = Recorder()
    async with net.host("another.example.com", recorder) as port:
        wire = await net.secure(HOST, port)
        answer = await wire.request(GET + f"X-Key: {TOKEN}\n\n")
        wire.close()
    assert answer.status == 502
    assert b"certificate" in answer.body.lower()
    assert recorder.requests == []
    assert (HOST, "denied", "upstream_tls") in net.decisions()


async def test_a_program_that_trusts_nobody_else_is_seen_in_the_log(net: Internet) -> None:
    net.admit(_rules())
    pinned = ssl.create_default_context(cadata=net.public_authority.certificate_pem)
    async with net.host(HOST, Recorder()) as port:
        wire = await net.tunnel(HOST, port)
        with pytest.raises(ssl.SSLCertVerificationError):
            await wire.secure(pinned, HOST)
        wire.close()
        await eventually(lambda: net.decisions() == [(HOST, "denied", "client_tls")])


async def test_silence_ends_an_intercepted_connection_and_any_byte_counts() -> None:
    """Ten events with 50 ms between them outlast 200 ms of permitted silence."""

    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n")
        for _ in range(10):
            writer.write(b".")
            await asyncio.sleep(0.05)
        await reader.read()

    async with internet(ProxyConfig(idle_seconds=0.2)) as net:
        net.admit(_rules())
        async with net.host(HOST, host) as port:
            wire = await net.secure(HOST, port)
            wire.writer.write(GET.replace("\n", "\r\n").encode() + b"\r\n")
            assert (await wire.rest()).endswith(b"." * 10)


async def test_two_hundred_streams_at_once(net: Internet) -> None:
    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert VALUE.encode() in head
        for _ in range(4):
            writer.write(b"8000\r\n" + bytes(0x8000) + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async def ask(port: int) -> int:
        wire = await net.secure(HOST, port)
        answer = await wire.request(GET + f"X-Key: {TOKEN}\n\n")
        wire.close()
        return len(answer.body)

    net.admit(rules(secret()))
    async with net.host(HOST, host) as port:
        sizes = await asyncio.gather(*(ask(port) for _ in range(200)))
    assert set(sizes) == {4 * 0x8000}
    await eventually(lambda: net.proxy.connections == 0)
