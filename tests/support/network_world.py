"""A node's network, machines in it that are namespaces, and the world outside on a cable."""

from __future__ import annotations

import asyncio
import secrets
import socket
import struct
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from opencomputer.server.contracts.network import Link
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.network.links import MachineLinks, NetworkConfig
from opencomputer.server.network.resolver import ResolverConfig
from tests.support.driver_harness import new_machine_id, why_no_gvisor
from tests.support.host_state import left_after_a_moment
from tests.support.namespaces import Namespace, machine_namespace, neighbour
from tests.support.sockets import tcp_listener

PUBLIC = "203.0.113.77"
PRIVATE = ["10.77.0.7", "172.16.77.7", "192.168.77.7", "100.64.77.7", "169.254.77.7", "198.18.77.7"]
PORT = 8123
ECHO_PORT = 8124


@dataclass
class World:
    network: MachineLinks
    outside: Namespace
    cables: ExitStack

    def machine(self, egress: EgressMode = EgressMode.OPEN) -> tuple[Namespace, Link]:
        link = self.network.reserve(new_machine_id())
        return self.cables.enter_context(machine_namespace(self.network, link, egress)), link

    def tcp_outside(self, address: str) -> list[str]:
        return self.cables.enter_context(tcp_listener(self.outside, address, PORT))


@contextmanager
def world_outside() -> Generator[Namespace]:
    missing = why_no_gvisor()
    if missing:
        pytest.skip(missing)
    with neighbour(f"tst{secrets.token_hex(3)}", [PUBLIC, *PRIVATE]) as namespace:
        yield namespace


@asynccontextmanager
async def a_node(tmp_path: Path, *, flows: int = 1000) -> AsyncGenerator[MachineLinks]:
    """A node's network whose names are resolved by whatever listens at the public address."""
    tag = secrets.token_hex(3)
    resolver = ResolverConfig(upstreams=((PUBLIC, ECHO_PORT),), attempt_seconds=1.0)
    network = MachineLinks(NetworkConfig(tag, resolver=resolver, flows_per_machine=flows))
    await network.open()
    try:
        yield network
    finally:
        for machine_id in network.links():
            await asyncio.to_thread(network.release, machine_id)
        await network.dismantle()
        left = await left_after_a_moment(tag, tmp_path / "none")
        assert not left, left


def host_address() -> str:
    """The address of the host that the world would use."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((PUBLIC, 9))  # sends nothing
        return str(sock.getsockname()[0])


def send_raw(source: str, target: str, port: int) -> None:
    """One UDP packet with a source address of our choice; the kernel fills in the checksum of the header."""
    payload = b"x"
    udp = struct.pack("!HHHH", 4444, port, 8 + len(payload), 0) + payload
    header = struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        0,
        20 + len(udp),
        0,
        0,
        64,
        socket.IPPROTO_UDP,
        0,
        socket.inet_aton(source),
        socket.inet_aton(target),
    )
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
        sock.sendto(header + udp, (target, 0))


async def wait_for(done: Callable[[], bool], *, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
