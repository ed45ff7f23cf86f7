"""Passing questions on, with everything a hostile machine may send."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest

from opencomputer.server.network.resolver import (
    Resolver,
    ResolverConfig,
    failure_answer,
    is_question,
    parse_nameservers,
)
from tests.support.sockets import ask_datagram, ask_stream

pytestmark = pytest.mark.anyio
QUESTION = b"\xab\xcd\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04name\x00\x00\x01\x00\x01"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Upstream(asyncio.DatagramProtocol):
    """Answers each question with itself and a mark, unless told otherwise."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.asked = asyncio.Event()
        self.silent = False
        self.wrong_first = False
        self.port = 0
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._stream, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", self.port))

    def close(self) -> None:
        assert self._transport is not None
        assert self._server is not None
        self._transport.close()
        self._server.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.seen.append(data)
        self.asked.set()
        assert self._transport is not None
        if self.silent:
            return
        if self.wrong_first:
            self._transport.sendto(b"\x00\x00" + data[2:] + b"forged", addr)
        self._transport.sendto(answer_to(data), addr)

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(2), "big")
        answer = answer_to(await reader.readexactly(length)) + bytes(5000)
        writer.write(len(answer).to_bytes(2, "big") + answer)
        writer.close()


def answer_to(question: bytes) -> bytes:
    return question[:2] + b"\x81\x80" + question[4:] + b"answer"


@pytest.fixture
async def upstream(anyio_backend: str) -> AsyncGenerator[Upstream]:
    made = Upstream()
    await made.open()
    try:
        yield made
    finally:
        made.close()


async def opened(config: ResolverConfig) -> tuple[Resolver, int]:
    resolver = Resolver(config)
    return resolver, await resolver.open("127.0.0.1", 0)


def config_for(*upstreams: Upstream, attempt_seconds: float = 20.0, per_machine: int = 64) -> ResolverConfig:
    ports = tuple(("127.0.0.1", each.port) for each in upstreams)
    return ResolverConfig(upstreams=ports, attempt_seconds=attempt_seconds, per_machine=per_machine)


async def datagram(port: int, question: bytes, *, seconds: float = 30.0) -> bytes | None:
    return await asyncio.to_thread(ask_datagram, "127.0.0.1", port, question, seconds=seconds)


async def test_a_question_is_passed_on_and_answered(upstream: Upstream) -> None:
    resolver, port = await opened(config_for(upstream))
    assert await datagram(port, QUESTION) == answer_to(QUESTION)
    assert upstream.seen == [QUESTION]
    await resolver.close()


async def test_long_answers_come_over_a_stream(upstream: Upstream) -> None:
    resolver, port = await opened(config_for(upstream))
    answer = await asyncio.to_thread(ask_stream, "127.0.0.1", port, QUESTION)
    assert answer == answer_to(QUESTION) + bytes(5000)
    await resolver.close()


async def test_the_next_upstream_is_asked_when_one_is_silent(upstream: Upstream) -> None:
    second = Upstream()
    await second.open()
    upstream.silent = True
    resolver, port = await opened(config_for(upstream, second, attempt_seconds=2.0))
    assert await datagram(port, QUESTION) == answer_to(QUESTION)
    await resolver.close()
    second.close()


async def test_a_failure_is_said_when_nobody_answers(upstream: Upstream) -> None:
    """So a program inside gives up at once instead of waiting."""
    upstream.silent = True
    resolver, port = await opened(config_for(upstream, attempt_seconds=0.1))
    assert await datagram(port, QUESTION) == failure_answer(QUESTION)
    await resolver.close()


async def test_an_answer_to_another_question_is_not_taken(upstream: Upstream) -> None:
    upstream.wrong_first = True
    resolver, port = await opened(config_for(upstream))
    assert await datagram(port, QUESTION) == answer_to(QUESTION)
    await resolver.close()


@pytest.mark.parametrize("nonsense", [b"", b"x", bytes(11), b"\xab\xcd\x81\x80" + bytes(8), bytes(5000)])
async def test_what_is_no_question_is_not_passed_on(upstream: Upstream, nonsense: bytes) -> None:
    """Answers in the wrong direction least of all: they would make a loop."""
    resolver, port = await opened(config_for(upstream))
    assert await datagram(port, nonsense, seconds=0.1) is None
    assert upstream.seen == []
    assert await datagram(port, QUESTION) == answer_to(QUESTION)
    await resolver.close()


async def test_one_machine_cannot_use_up_the_resolver(upstream: Upstream) -> None:
    """What is too much is dropped; when the questions before are done with, it is heard again."""
    upstream.silent = True
    resolver, port = await opened(config_for(upstream, attempt_seconds=2.0, per_machine=5))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
        for number in range(20):
            flood.sendto(number.to_bytes(2, "big") + QUESTION[2:], ("127.0.0.1", port))
        flood.settimeout(30)
        answers = [await asyncio.to_thread(flood.recv, 512) for _ in range(5)]
    assert {answer[3] & 0x0F for answer in answers} == {2}
    assert len(upstream.seen) == 5
    upstream.silent = False
    assert await datagram(port, QUESTION) == answer_to(QUESTION)
    await resolver.close()


async def test_too_many_streams_of_one_machine_are_closed(upstream: Upstream) -> None:
    config = config_for(upstream)
    resolver, port = await opened(config)
    opened_streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
    ends = await asyncio.gather(
        *(asyncio.wait_for(reader.read(), 0.3) for reader, _ in opened_streams), return_exceptions=True
    )
    assert len([end for end in ends if end == b""]) == 20 - config.connections_per_machine
    for _, writer in opened_streams:
        writer.close()
    await resolver.close()


async def test_closing_ends_everything_that_is_under_way(upstream: Upstream) -> None:
    upstream.silent = True
    resolver, port = await opened(config_for(upstream, attempt_seconds=60))
    asking = asyncio.ensure_future(datagram(port, QUESTION, seconds=1))
    await upstream.asked.wait()
    await asyncio.wait_for(resolver.close(), 2)
    assert await asking is None


async def test_the_hosts_resolvers_are_read_again_when_they_change(
    upstream: Upstream, tmp_path: Path
) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("nameserver 127.0.0.2\n")
    resolver = Resolver(ResolverConfig(resolv_conf=file))
    current = resolver._upstreams.current  # pyright: ignore[reportPrivateUsage]
    assert current() == (("127.0.0.2", 53),)
    file.write_text("nameserver 127.0.0.3\nnameserver ::1\n")
    os.utime(file, (1, 1))
    assert current() == (("127.0.0.3", 53), ("::1", 53))
    file.unlink()
    assert current() == (("127.0.0.1", 53),)


def test_only_nameserver_lines_count() -> None:
    text = (
        "# nameserver 1.1.1.1\nsearch lan\nnameserver\nnameserver 9.9.9.9 # quad\n  nameserver fe80::1%eth0\n"
    )
    assert parse_nameservers(text) == ("9.9.9.9", "fe80::1%eth0")


def test_a_failure_keeps_the_questions_number_and_wish() -> None:
    failure = failure_answer(QUESTION)
    assert failure[:2] == QUESTION[:2]
    assert failure[2] & 0x80
    assert failure[2] & 0x01
    assert failure[3] & 0x0F == 2
    assert len(failure) == 12
    assert not is_question(failure)
