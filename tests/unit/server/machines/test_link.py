"""What happens to running work when the connection, the server or the machine goes away."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.contracts.machine import ExitStatus, Identity, Output
from opencomputer.server.domain.errors import GuestFault, MachineLost, NotReady
from opencomputer.server.machines.link import Link
from opencomputer.server.machines.machine import LinkedMachine
from tests.support.cuttable_proxy import CuttableProxy, cuttable_proxy
from tests.support.host_guest import TOKEN, HostGuest, linked_machine
from tests.support.processes import command, finish, read_until, run, shell, with_stdin
from tests.support.real_clock import RealClock
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
async def proxy(running: HostGuest) -> AsyncGenerator[CuttableProxy]:
    async with cuttable_proxy(running.guest_address) as proxy:
        yield proxy


@pytest.fixture
async def proxied(running: HostGuest, proxy: CuttableProxy) -> AsyncGenerator[LinkedMachine]:
    machine = LinkedMachine(running, Link(proxy.address, TOKEN), RealClock())
    await machine.connect(10)
    yield machine
    await machine.detach()


async def test_output_goes_on_after_a_cut_without_loss_or_repetition(
    proxied: LinkedMachine, proxy: CuttableProxy
) -> None:
    spec = replace(shell("seq 1 3000000"), scrollback_bytes=64 << 20)
    await proxied.processes.spawn(spec)
    received = bytearray()
    async with proxied.processes.attach(spec.id) as attachment:
        next_cut = 1_000_000
        async for item in attachment:
            if isinstance(item, Output):
                assert item.offset == len(received)
                received += item.data
                if len(received) > next_cut:
                    next_cut += 4_000_000
                    proxy.cut()
            else:
                assert item == ExitStatus(0)
    expected = "".join(f"{number}\n" for number in range(1, 3_000_001)).encode()
    assert bytes(received) == expected
    assert proxy.connections > 4


async def test_input_goes_on_after_a_cut_without_loss_or_repetition(
    proxied: LinkedMachine, proxy: CuttableProxy
) -> None:
    data = b"".join(number.to_bytes(4, "big") for number in range(1_000_000))
    spec = with_stdin(command("sha256sum"))
    await proxied.processes.spawn(spec)
    async with proxied.processes.attach(spec.id) as attachment:
        for start in range(0, len(data), 100_000):
            await attachment.write(data[start : start + 100_000])
            if start % 500_000 == 0:
                proxy.cut()
        await attachment.close_input()
        proxy.cut()
        finished = await finish(attachment)
    assert finished.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


async def test_a_request_during_a_cut_is_done_once(
    proxied: LinkedMachine, proxy: CuttableProxy, home: Path
) -> None:
    for _ in range(10):
        spec = shell("echo x >> count")
        spawning = asyncio.create_task(proxied.processes.spawn(spec))
        await asyncio.sleep(0)
        proxy.cut()
        await spawning
        assert (await run(proxied, spec)).exit == ExitStatus(0)
    assert (home / "count").read_text() == "x\n" * 10


async def test_a_cut_is_not_a_disconnect_of_the_reader(proxied: LinkedMachine, proxy: CuttableProxy) -> None:
    spec = with_stdin(replace(shell("echo started; read x; echo alive"), linger_seconds=0.2))
    await proxied.processes.spawn(spec)
    async with proxied.processes.attach(spec.id, counted=True) as attachment:
        await read_until(attachment, b"started\n")
        proxy.accepting = False
        proxy.cut()
        await asyncio.sleep(0.5)  # longer than it would have lingered
        proxy.accepting = True
        await attachment.write(b"\n")
        assert (await finish(attachment)).stdout == b"alive\n"


async def test_a_new_server_finds_everything_and_arms_the_lingering(running: HostGuest) -> None:
    spec = with_stdin(replace(shell("echo started; read x; sleep 300"), linger_seconds=0.3))
    async with linked_machine(running, RealClock()) as old:
        await old.processes.spawn(spec)
        async with old.processes.attach(spec.id, counted=True) as attachment:
            await read_until(attachment, b"started\n")
            await old.detach()
            with pytest.raises(NotReady):
                await finish(attachment)
    async with linked_machine(running, RealClock()) as new:
        assert (await new.processes.get(spec.id)).attached == 0
        async with new.processes.attach(spec.id) as attachment:
            finished = await finish(attachment)
    assert finished.stdout == b"started\n"
    assert finished.exit == ExitStatus(137, 9, "disconnected")


async def test_a_newer_server_takes_over_from_one_that_still_holds_on(running: HostGuest) -> None:
    async with linked_machine(running, RealClock()) as old, linked_machine(running, RealClock()) as new:
        await old.processes.list()
        assert (await run(new, shell("echo hi"))).stdout == b"hi\n"


async def test_the_end_of_the_machine_is_told_to_everybody(
    machine: LinkedMachine, running: HostGuest
) -> None:
    spec = with_stdin(shell("echo started; read x"))
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id) as attachment:
        await read_until(attachment, b"started\n")
        await running.crash()
        with pytest.raises(MachineLost):
            await finish(attachment)
    with pytest.raises(MachineLost):
        await machine.processes.list()
    assert machine.lost


async def test_a_wrong_token_is_not_let_in(running: HostGuest) -> None:
    link = Link(running.guest_address, "wrong")
    with pytest.raises(GuestFault):
        await link.connect(0.3)
    await link.close(NotReady())


async def test_a_new_identity_brings_a_new_token_and_environment(
    machine: LinkedMachine, running: HostGuest
) -> None:
    identity = Identity("sb-00000001", "box", "0" * 32, "new token", b"\1" * 32, {"GREETING": "hello"})
    await machine.identify(identity)
    assert (await run(machine, shell("echo $GREETING"))).stdout == b"hello\n"
    with pytest.raises(GuestFault):
        async with linked_machine(running, RealClock(), seconds=0.3):
            pass
    async with linked_machine(running, RealClock(), token="new token") as other:
        await other.processes.list()


async def test_a_lost_answer_to_a_new_identity_is_survived(
    proxied: LinkedMachine, proxy: CuttableProxy
) -> None:
    for number in range(5):
        token = f"token {number}"
        identity = Identity("sb-00000001", "box", "0" * 32, token, b"", {"N": str(number)})
        identifying = asyncio.create_task(proxied.identify(identity))
        for _ in range(number):
            await asyncio.sleep(0.0005)
        proxy.cut()
        await identifying
        assert (await run(proxied, shell("echo $N"))).stdout == f"{number}\n".encode()


async def test_the_link_does_not_connect_for_nobody(proxied: LinkedMachine, proxy: CuttableProxy) -> None:
    await proxied.processes.list()
    before = proxy.connections
    proxy.cut()
    await asyncio.sleep(0.2)
    assert proxy.connections == before
    await proxied.processes.list()
    assert proxy.connections == before + 1


async def test_leaving_during_a_cut_leaves_no_reader_behind(
    proxied: LinkedMachine, proxy: CuttableProxy
) -> None:
    spec = with_stdin(shell("echo started; read x"))
    await proxied.processes.spawn(spec)
    async with proxied.processes.attach(spec.id, counted=True) as attachment:
        await read_until(attachment, b"started\n")
        proxy.cut()
    await eventually(lambda: proxy.connections >= 1)
    assert (await proxied.processes.get(spec.id)).attached == 0
