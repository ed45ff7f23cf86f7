"""The two other ends of `bench proxy`, each a process of its own: a host, and the proxy in front of it."""

from __future__ import annotations

import asyncio
import multiprocessing
import ssl
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection

import uvloop

from opencomputer.server.contracts.egress import EgressEvent
from opencomputer.server.domain.egress import EgressRules, SealedSecret
from opencomputer.server.network.egress_table import EgressTableInMemory
from opencomputer.server.network.proxy.authority import Leaves, new_authority
from opencomputer.server.network.proxy.connection import Parts, ProxyConfig
from opencomputer.server.network.proxy.lookup import Dialler
from opencomputer.server.network.proxy.proxy import EgressProxy
from opencomputer.wire.ids import OrgId, SandboxId

ADDRESS = "127.0.0.1"
SECRET_HOST, OTHER_HOST = "secret.test", "other.test"
TOKEN = "osb_sealed_" + "0123456789abcdef" * 2
_PIECE = bytes(1 << 16)


@dataclass(frozen=True)
class Ends:
    """Where the host and the proxy listen, and the certificates with which they prove who they are."""

    host_port: int
    proxy_port: int
    host_pem: str
    proxy_pem: str


@contextmanager
def running_ends() -> Generator[Ends]:
    """A host with two names, one of which may be sent a secret, and a proxy; both end with the context."""
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    host = processes.Process(target=_run_host, args=(theirs,), daemon=True)
    host.start()
    host_port, host_pem = ours.recv()
    proxy = processes.Process(target=_run_proxy, args=(theirs, host_pem), daemon=True)
    proxy.start()
    try:
        proxy_port, proxy_pem = ours.recv()
        yield Ends(host_port, proxy_port, host_pem, proxy_pem)
    finally:
        for process in (proxy, host):
            process.terminate()
            process.join()


def _run_host(told: Connection) -> None:
    uvloop.run(_host(told))


async def _host(told: Connection) -> None:
    authority = new_authority(datetime.now(UTC))
    leaves = Leaves(authority, lambda: datetime.now(UTC))
    context, other = leaves.context(SECRET_HOST), leaves.context(OTHER_HOST)

    def choose(tls: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name == OTHER_HOST:
            tls.context = other

    context.sni_callback = choose
    server = await asyncio.start_server(_serve, ADDRESS, 0, ssl=context)
    told.send((server.sockets[0].getsockname()[1], authority.certificate_pem))
    await server.serve_forever()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, EOFError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            target, length = head.split()[1], 0
            if "content-length: " in head:
                length = int(head.split("content-length: ")[1].split("\r\n")[0])
            elif "chunked" in head:
                while size := int(await reader.readuntil(b"\r\n"), 16):
                    await reader.readexactly(size + 2)
                await reader.readexactly(2)
            while length:
                length -= len(await reader.read(min(length, 1 << 18)))
            size = int(target.removeprefix("/") or "2")
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n"
                % size
            )
            while size:
                writer.write(_PIECE[:size])
                size -= min(size, len(_PIECE))
                await writer.drain()
    writer.close()


def _run_proxy(told: Connection, host_pem: str) -> None:
    uvloop.run(_proxy(told, host_pem))


async def _proxy(told: Connection, host_pem: str) -> None:
    async with _open_proxy(host_pem) as (port, certificate):
        told.send((port, certificate))
        await asyncio.Event().wait()


@asynccontextmanager
async def _open_proxy(host_pem: str) -> AsyncGenerator[tuple[int, str]]:
    authority = new_authority(datetime.now(UTC))
    table = EgressTableInMemory()
    secret = SealedSecret("KEY", TOKEN, "the-real-value-of-the-key", (SECRET_HOST,))
    table.admit(ADDRESS, EgressRules(OrgId("bench"), SandboxId("sb-00000000"), secrets=(secret,)))
    trust = ssl.create_default_context(cadata=host_pem)
    nothing = _Nothing()
    leaves = Leaves(authority, lambda: datetime.now(UTC))
    dialler = Dialler(nothing, permits=lambda _: True)
    parts = Parts(ProxyConfig(), table, nothing, nothing, leaves, dialler, trust, lambda: datetime.now(UTC))
    proxy = EgressProxy(parts)
    port, _ = await proxy.open(ADDRESS, 0, 0)
    try:
        yield port, authority.certificate_pem
    finally:
        await proxy.close()


class _Nothing:
    """A log that keeps nothing, names that nobody was told, and a lookup that knows one address."""

    def record(self, event: EgressEvent) -> None:
        pass

    def names(self, guest_address: str, address: str) -> frozenset[str]:
        del guest_address, address
        return frozenset()

    async def addresses(self, name: str) -> Sequence[str]:
        del name
        return [ADDRESS]
