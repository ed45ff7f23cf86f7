"""What each mode lets out of a machine, tried with real packets, and while modes change."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pytest

from opencomputer.server.contracts.network import Link
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.host.netlink import Netlink
from opencomputer.server.network.links import MachineLinks
from tests.support.namespaces import Namespace
from tests.support.network_world import ECHO_PORT, PORT, PRIVATE, PUBLIC, World, host_address, wait_for
from tests.support.sockets import HOST, ask_datagram, can_connect, gets_nowhere, tcp_listener, udp_echo

pytestmark = [pytest.mark.anyio, pytest.mark.machines]

OPEN, WATCHED, RESTRICTED, CLOSED = (
    EgressMode.OPEN,
    EgressMode.WATCHED,
    EgressMode.RESTRICTED,
    EgressMode.CLOSED,
)
_SO_ORIGINAL_DST = 80


@contextmanager
def listeners_of_the_proxy(world: World) -> Generator[tuple[list[str], list[tuple[str, int]]]]:
    """What a proxy is asked explicitly by whom, and where connections led to it were to go."""
    config = world.network.config
    meant: list[tuple[str, int]] = []
    with (
        tcp_listener(HOST, world.network.node_address, config.proxy_port) as callers,
        socket.create_server((world.network.node_address, config.transparent_port)) as transparent,
    ):

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = transparent.accept()
                    raw = connection.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
                    port, address = struct.unpack("!2xH4s8x", raw)
                    meant.append((socket.inet_ntoa(address), port))
                    connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield callers, meant
        finally:
            transparent.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("mode", [WATCHED, RESTRICTED])
async def test_connections_of_a_proxied_machine_are_led_to_the_proxy(world: World, mode: EgressMode) -> None:
    """Whatever the program knows of proxies; which address it meant can be asked for."""
    machine, link = world.machine(mode)
    peers = world.tcp_outside(PUBLIC)
    with listeners_of_the_proxy(world) as (callers, meant):
        assert machine.call(lambda: can_connect(PUBLIC, PORT))
        assert machine.call(lambda: can_connect("169.254.169.252", 3128))
        for private in PRIVATE[:2]:
            assert machine.call(lambda a=private: gets_nowhere(a, PORT)), private
        for own in (world.network.node_address, host_address(), link.gateway):
            assert machine.call(lambda a=own: gets_nowhere(a, world.network.config.transparent_port)), own
    await wait_for(lambda: meant == [(PUBLIC, PORT)])
    assert callers == [link.guest_address]
    assert machine.call(lambda: gets_nowhere(PUBLIC, PORT)), "nobody listens, and it is let out"
    assert peers == []


async def test_datagrams_of_a_watched_machine_go_out_and_quic_does_not(world: World) -> None:
    machine, _ = world.machine(WATCHED)
    with udp_echo(world.outside, PUBLIC, ECHO_PORT), udp_echo(world.outside, PUBLIC, 443) as quic:
        assert machine.call(lambda: ask_datagram(PUBLIC, ECHO_PORT, b"ping", seconds=3)) == b"ping"
        assert machine.call(lambda: ask_datagram(PUBLIC, 443, b"ping")) is None
        assert machine.call(lambda: echo_of_the_world(machine))
    assert quic == []


async def test_a_restricted_machine_gets_no_datagram_out(world: World) -> None:
    """Neither a question for a name to anybody but its resolver, nor an echo request."""
    machine, _ = world.machine(RESTRICTED)
    with udp_echo(world.outside, PUBLIC, 53) as names, udp_echo(world.outside, PUBLIC, 443) as quic:
        assert machine.call(lambda: ask_datagram(PUBLIC, 53, b"ping")) is None
        assert machine.call(lambda: ask_datagram(PUBLIC, 443, b"ping")) is None
        assert not echo_of_the_world(machine)
    assert (names, quic) == ([], [])


@pytest.mark.parametrize("mode", [OPEN, CLOSED])
async def test_the_listeners_of_the_proxy_are_reached_by_its_own_address_only(
    world: World, mode: EgressMode
) -> None:
    """An open machine's programs may still think of the proxy: what they may reach has changed under them."""
    machine, _ = world.machine(mode)
    config = world.network.config
    with listeners_of_the_proxy(world) as (callers, meant):
        for port in (config.proxy_port, config.transparent_port):
            assert machine.call(lambda p=port: gets_nowhere(world.network.node_address, p))
        patience = 60 if mode is OPEN else 1
        reached = machine.call(lambda: can_connect("169.254.169.252", 3128, seconds=patience))
        assert reached is (mode is OPEN)
    assert (len(callers), meant) == (int(mode is OPEN), [])


@pytest.mark.parametrize("group", [0, 7, 0x6F630004])
async def test_a_link_in_a_group_nobody_knows_is_closed(world: World, group: int) -> None:
    machine, link = world.machine()
    peers = world.tcp_outside(PUBLIC)
    await asyncio.to_thread(put_into_group, link, group)
    assert machine.call(lambda: gets_nowhere(PUBLIC, PORT))
    assert peers == []


@pytest.mark.parametrize("mode", [WATCHED, RESTRICTED, CLOSED])
async def test_a_stricter_mode_ends_the_connections_that_stand(world: World, mode: EgressMode) -> None:
    """Not one more byte in either direction, and the program is told at once."""
    machine, link = world.machine()
    with world.outside.call(lambda: socket.create_server((PUBLIC, PORT))) as server:
        inside = machine.call(lambda: socket.create_connection((PUBLIC, PORT), timeout=60))
        outside, _ = server.accept()
        with inside, outside:
            inside.sendall(b"before")
            assert outside.recv(100) == b"before"
            await asyncio.to_thread(world.network.set_egress, link, mode)
            inside.sendall(b"after")
            outside.settimeout(0.3)
            with pytest.raises(TimeoutError):
                outside.recv(100)
            outside.sendall(b"answer")
            with pytest.raises(ConnectionResetError):
                inside.recv(100)


async def test_closing_ends_what_was_led_to_the_proxy_but_not_the_metadata(world: World) -> None:
    machine, link = world.machine(RESTRICTED)
    node, config = world.network.node_address, world.network.config
    with (
        socket.create_server((node, config.transparent_port)) as proxy,
        socket.create_server((node, config.metadata_port)) as metadata,
    ):
        inside = machine.call(lambda: socket.create_connection((PUBLIC, 443), timeout=60))
        asking = machine.call(lambda: socket.create_connection(("169.254.169.254", 80), timeout=60))
        tunnel, answering = proxy.accept()[0], metadata.accept()[0]
        with inside, asking, tunnel, answering:
            await asyncio.to_thread(world.network.set_egress, link, CLOSED)
            inside.sendall(b"after")
            asking.sendall(b"still")
            answering.settimeout(60)
            assert answering.recv(100) == b"still"
            tunnel.settimeout(0.3)
            with pytest.raises(TimeoutError):
                tunnel.recv(100)


async def test_not_one_packet_gets_out_while_modes_and_rules_change(world: World) -> None:
    """A machine that hammers a denied host, while strict modes change into each other, the rules are
    replaced and the node's listeners come and go."""
    machine, link = world.machine(RESTRICTED)
    over = threading.Event()
    with udp_echo(world.outside, PUBLIC, 443) as quic, tcp_listener(world.outside, PUBLIC, PORT) as peers:
        hammers = [threading.Thread(target=machine.call, args=(lambda: hammer(over),)) for _ in range(2)]
        for thread in hammers:
            thread.start()
        try:
            for _ in range(6):
                for mode in (WATCHED, CLOSED, RESTRICTED):
                    await asyncio.to_thread(world.network.set_egress, link, mode)
                await world.network.close()
                world.network = MachineLinks(world.network.config)
                await world.network.open()
        finally:
            over.set()
            for thread in hammers:
                thread.join()
        assert (quic, peers) == ([], [])
        await asyncio.to_thread(world.network.set_egress, link, OPEN)
        assert machine.call(lambda: can_connect(PUBLIC, PORT)), "the hammer would have got through"


def put_into_group(link: Link, group: int) -> None:
    with Netlink() as netlink:
        netlink.set_group(link.host_interface, group)


def hammer(over: threading.Event) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.setblocking(False)
        while not over.is_set():
            with suppress(OSError):
                datagrams.sendto(b"x", (PUBLIC, 443))
            with suppress(OSError), socket.socket() as stream:
                stream.settimeout(0.01)
                stream.connect((PUBLIC, PORT))


def echo_of_the_world(machine: Namespace) -> bool:
    """Whether an ICMP echo comes back from outside."""

    def ask() -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
            sock.settimeout(0.4)
            body = struct.pack("!BBHHH", 8, 0, 0, 7, 1)
            checksum = 0xFFFF - (sum(struct.unpack("!4H", body)) % 0xFFFF)
            with suppress(OSError):
                sock.sendto(struct.pack("!BBHHH", 8, 0, checksum, 7, 1), (PUBLIC, 0))
                return sock.recv(100)[20] == 0
            return False

    return machine.call(ask)
