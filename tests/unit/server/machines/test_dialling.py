"""Connections to programs of a machine, over the real link to a real guest."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from opencomputer.server.domain.errors import GuestFault, NothingListens, ProgramFault
from opencomputer.server.machines.dialling import WINDOW
from opencomputer.server.machines.link import Link
from opencomputer.server.machines.machine import LinkedMachine
from tests.support.cuttable_proxy import cuttable_proxy
from tests.support.host_guest import TOKEN, HostGuest
from tests.support.real_clock import RealClock

pytestmark = pytest.mark.anyio

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def program(serve: Serve, host: str = "127.0.0.1") -> AsyncGenerator[int]:
    """A program that listens; yields its port."""

    async def serving(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serving, host, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


async def test_bytes_go_both_ways_until_both_have_ended(machine: LinkedMachine) -> None:
    data = os.urandom(3 << 20)
    async with program(echo) as port, machine.dial(port) as connection:

        async def send() -> None:
            await connection.write(data)
            await connection.end()

        sending = asyncio.create_task(send())
        received = b""
        while piece := await connection.read():
            received += piece
        await sending
    assert received == data


async def test_a_program_on_ipv6_only_is_reached_too(machine: LinkedMachine) -> None:
    async with program(echo, "::1") as port, machine.dial(port) as connection:
        await connection.write(b"six")
        assert await connection.read() == b"six"


async def test_nothing_listens(machine: LinkedMachine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(NothingListens):
        async with machine.dial(port):
            raise AssertionError("connected to nothing")
    with pytest.raises(NothingListens):
        async with machine.dial(7000):
            raise AssertionError("connected to the guest itself")


async def test_an_end_of_input_lets_the_program_answer(machine: LinkedMachine) -> None:
    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(str(len(await reader.read(-1))).encode())

    async with program(count) as port, machine.dial(port) as connection:
        await connection.write(b"x" * 1000)
        await connection.end()
        assert await connection.read() == b"1000"
        assert await connection.read() == b""


async def test_an_answer_that_came_before_the_program_hung_up_is_read(machine: LinkedMachine) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(10)
        writer.write(b"too much")
        await writer.drain()
        linger = b"\1\0\0\0\0\0\0\0"
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with program(refuse) as port, machine.dial(port) as connection:
        await connection.write(b"x" * 10)
        assert await connection.read() == b"too much"

        async def go_on() -> None:
            while await connection.read():
                await connection.write(b"more")

        with pytest.raises(ProgramFault):
            await go_on()


async def test_neither_side_runs_ahead_of_the_other(machine: LinkedMachine) -> None:
    """A program that sends without end waits for who reads, and one that reads nothing stops who writes."""
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with program(flood) as port, machine.dial(port) as connection:
        assert await connection.read()
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 32 << 20
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await connection.write(b"y" * (64 << 20))
        left = 4 * WINDOW + sent
        while left > 0:
            left -= len(await connection.read())


async def test_many_connections_at_once(machine: LinkedMachine) -> None:
    async with program(echo) as port:

        async def one(number: int) -> None:
            async with machine.dial(port) as connection:
                text = str(number).encode() * 1000
                await connection.write(text)
                await connection.end()
                received = b""
                while piece := await connection.read():
                    received += piece
                assert received == text

        await asyncio.gather(*(one(number) for number in range(100)))


async def test_leaving_closes_the_connection(machine: LinkedMachine) -> None:
    over = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b"hello"
        over.set()

    async with program(wait) as port:
        async with machine.dial(port) as connection:
            await connection.write(b"hello")
        await asyncio.wait_for(over.wait(), 60)


async def test_a_lost_link_breaks_the_connection(running: HostGuest) -> None:
    async with cuttable_proxy(running.guest_address) as proxy, program(echo) as port:
        machine = LinkedMachine(running, Link(proxy.address, TOKEN), RealClock())
        try:
            async with machine.dial(port) as connection:
                proxy.cut()
                with pytest.raises(GuestFault):
                    await connection.read()
                with pytest.raises(GuestFault):
                    await connection.write(b"x")
            async with machine.dial(port) as connection:
                await connection.write(b"again")
                assert await connection.read() == b"again"
        finally:
            await machine.detach()
