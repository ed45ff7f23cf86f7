"""What a machine can reach, tried with real packets between namespaces that the test builds."""

from __future__ import annotations

import asyncio
import secrets
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.network.links import MachineLinks
from tests.support.driver_harness import new_machine_id, why_no_gvisor
from tests.support.host_state import node_state
from tests.support.namespaces import Namespace, machine_namespace
from tests.support.network_world import (
    ECHO_PORT,
    PORT,
    PRIVATE,
    PUBLIC,
    World,
    a_node,
    host_address,
    send_raw,
    wait_for,
)
from tests.support.sockets import (
    HOST,
    ask_datagram,
    ask_stream,
    can_connect,
    gets_nowhere,
    tcp_listener,
    udp_echo,
)

pytestmark = [pytest.mark.anyio, pytest.mark.machines]

QUESTION = b"\x12\x34\x01\x00" + bytes(8)


async def test_a_machine_reaches_public_addresses(world: World) -> None:
    """Through the host, under the host's address."""
    machine, link = world.machine()
    peers = world.tcp_outside(PUBLIC)
    assert machine.call(lambda: can_connect(PUBLIC, PORT))
    await wait_for(lambda: peers == ["198.51.100.1"])
    assert link.guest_address not in peers


async def test_datagrams_to_public_addresses_come_back(world: World) -> None:
    machine, _ = world.machine()
    with udp_echo(world.outside, PUBLIC, ECHO_PORT):
        assert machine.call(lambda: ask_datagram(PUBLIC, ECHO_PORT, b"ping")) == b"ping"


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_machine_does_not_reach_private_addresses(world: World, address: str) -> None:
    """The host does reach them, so only the filter is in between."""
    machine, _ = world.machine()
    peers = world.tcp_outside(address)
    assert can_connect(address, PORT)
    assert machine.call(lambda: gets_nowhere(address, PORT))
    await wait_for(lambda: len(peers) == 1)


async def test_a_refusal_is_said_at_once(world: World) -> None:
    """A program that tries a private address is not left waiting."""
    machine, _ = world.machine()
    begin = time.monotonic()
    assert not machine.call(lambda: can_connect(PRIVATE[0], PORT, seconds=90))
    assert time.monotonic() - begin < 45


async def test_a_machine_does_not_reach_the_host(world: World) -> None:
    """Whatever address of the host it tries, on a port that is open to everybody."""
    machine, link = world.machine()
    addresses = [link.gateway, world.network.node_address, "198.51.100.1", host_address()]
    with tcp_listener(HOST, "0.0.0.0", PORT) as peers:
        for address in addresses:
            assert can_connect(address, PORT)
            assert machine.call(lambda a=address: gets_nowhere(a, PORT)), address
    assert len(peers) == len(addresses)


async def test_a_machine_does_not_reach_another_machine(world: World) -> None:
    first, _ = world.machine()
    second, link = world.machine()
    with tcp_listener(second, "0.0.0.0", PORT) as peers:
        assert can_connect(link.guest_address, PORT)
        assert first.call(lambda: gets_nowhere(link.guest_address, PORT))
    assert len(peers) == 1


async def test_a_machine_does_not_reach_a_machine_of_another_node(world: World, tmp_path: Path) -> None:
    first, _ = world.machine()
    async with a_node(tmp_path) as other:
        link = other.reserve(new_machine_id())
        with machine_namespace(other, link) as second:
            with tcp_listener(second, "0.0.0.0", PORT) as peers:
                assert first.call(lambda: gets_nowhere(link.guest_address, PORT))
                assert first.call(lambda: gets_nowhere(other.node_address, 9254))
            assert peers == []


async def test_nobody_outside_reaches_a_machine(world: World) -> None:
    machine, link = world.machine()
    world.outside.run(["ip", "route", "replace", "10.231.0.0/16", "via", "198.51.100.1"])
    with tcp_listener(machine, "0.0.0.0", PORT) as peers:
        assert world.outside.call(lambda: gets_nowhere(link.guest_address, PORT))
    assert peers == []


async def test_the_metadata_address_leads_to_the_node_and_names_the_machine(world: World) -> None:
    """The node knows its caller by the address, so that address must be the machine's own."""
    machine, link = world.machine()
    with tcp_listener(HOST, *world.network.metadata_address) as peers:
        assert machine.call(lambda: can_connect("169.254.169.254", 80))
        assert machine.call(lambda: gets_nowhere("169.254.169.254", 443))
        assert machine.call(lambda: gets_nowhere(*world.network.metadata_address))
    assert peers == [link.guest_address]


async def test_the_resolver_answers_on_both_transports(world: World) -> None:
    machine, _ = world.machine()
    with udp_echo(world.outside, PUBLIC, ECHO_PORT):
        asked = asyncio.to_thread(
            machine.call, lambda: ask_datagram("169.254.169.253", 53, QUESTION, seconds=60)
        )
        assert await asked == QUESTION
    failure = await asyncio.to_thread(machine.call, lambda: ask_stream("169.254.169.253", 53, QUESTION))
    assert failure[:2] == QUESTION[:2]
    assert failure[3] & 0x0F == 2


async def test_a_machine_without_network_reaches_nothing_but_the_metadata(world: World) -> None:
    """Names are not resolved either: a question is a message to the outside."""
    machine, link = world.machine(EgressMode.CLOSED)
    peers = world.tcp_outside(PUBLIC)
    with tcp_listener(HOST, *world.network.metadata_address) as callers:
        assert machine.call(lambda: can_connect("169.254.169.254", 80))
    assert callers == [link.guest_address]
    assert machine.call(lambda: gets_nowhere(PUBLIC, PORT))
    assert machine.call(lambda: ask_datagram("169.254.169.253", 53, QUESTION)) is None
    assert peers == []


async def test_the_host_reaches_a_machine_without_network(world: World) -> None:
    machine, link = world.machine(EgressMode.CLOSED)
    with tcp_listener(machine, "0.0.0.0", PORT) as peers:
        assert can_connect(link.guest_address, PORT)
    assert peers == [link.gateway]


@pytest.mark.parametrize("source", ["203.0.113.50", "neighbour", "gateway"])
async def test_packets_under_a_false_address_go_nowhere(world: World, source: str) -> None:
    machine, link = world.machine()
    _, other = world.machine()
    address = {"neighbour": other.guest_address, "gateway": link.gateway}.get(source, source)
    with udp_echo(world.outside, PUBLIC, ECHO_PORT) as peers:
        machine.call(lambda: send_raw(address, PUBLIC, ECHO_PORT))
        machine.call(lambda: send_raw(link.guest_address, PUBLIC, ECHO_PORT))
        await wait_for(lambda: bool(peers))
        await asyncio.sleep(0.1)  # the false one was sent first and would be here by now
    assert peers == ["198.51.100.1"]


async def test_a_machine_has_no_ipv6_but_its_loopback(world: World) -> None:
    machine, _ = world.machine()
    addresses = machine.run(["ip", "-6", "-o", "address"])
    assert [line.split()[1] for line in addresses.splitlines()] == ["lo"]


async def test_ipv6_packets_of_a_machine_are_dropped(world: World) -> None:
    """Also when it gives itself an address, as root in a machine may."""
    machine, link = world.machine()
    machine.run(["sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=0"])
    machine.run(["ip", "address", "add", "fd77::2/64", "dev", "eth0", "nodad"])
    give = ["ip", "address", "add", "fd77::1/64", "dev", link.host_interface, "nodad"]
    await asyncio.to_thread(subprocess.run, give, check=True)
    with socket.create_server(("fd77::1", 0), family=socket.AF_INET6) as listener:
        port = listener.getsockname()[1]
        assert machine.call(lambda: gets_nowhere("fd77::1", port))


async def test_opening_again_keeps_the_address_and_the_links(world: World) -> None:
    """A restarted server takes its network over: machines know the way to the old address."""
    machine, link = world.machine()
    await world.network.close()
    again = MachineLinks(world.network.config)
    await again.open()
    try:
        assert again.node_address == world.network.node_address
        assert len(again.links()) == 1
        with tcp_listener(HOST, *again.metadata_address) as peers:
            assert machine.call(lambda: can_connect("169.254.169.254", 80))
        assert peers == [link.guest_address]
    finally:
        await again.close()


async def test_a_killed_node_without_machines_is_cleared_away_by_the_next(tmp_path: Path) -> None:
    """Its rules and addresses would stay on the host for ever."""
    killed, reason = secrets.token_hex(3), why_no_gvisor()
    if reason:
        pytest.skip(reason)
    script = (
        "import asyncio, os, signal\n"
        "from opencomputer.server.network.links import MachineLinks, NetworkConfig\n"
        f"asyncio.run(MachineLinks(NetworkConfig({killed!r})).open())\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    assert await process.wait() == -9
    assert node_state(killed) != []
    async with a_node(tmp_path):
        assert node_state(killed) == []


async def test_one_machine_cannot_fill_the_hosts_table_of_conversations(
    outside: Namespace, tmp_path: Path
) -> None:
    """Others still get through when one has as many as it may."""
    async with a_node(tmp_path, flows=20) as network:
        greedy, modest = (network.reserve(new_machine_id()) for _ in range(2))
        # A port that is met twice would be one conversation, not two.
        sources = range(40_000, 40_025)
        with (
            machine_namespace(network, greedy) as first,
            machine_namespace(network, modest) as second,
            udp_echo(outside, PUBLIC, ECHO_PORT),
        ):
            heard = [
                first.call(partial(ask_datagram, PUBLIC, ECHO_PORT, b"x", source=port)) for port in sources
            ]
            assert heard == [b"x"] * 20 + [None] * 5
            assert second.call(lambda: ask_datagram(PUBLIC, ECHO_PORT, b"x", seconds=60)) == b"x"


async def test_traffic_is_counted(world: World) -> None:
    machine, link = world.machine()
    before = world.network.traffic(link)
    with tcp_listener(machine, "0.0.0.0", PORT):
        assert can_connect(link.guest_address, PORT)
    after = world.network.traffic(link)
    assert after[0] > before[0]
    assert after[1] > before[1]
