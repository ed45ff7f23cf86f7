"""A small internet on loopback: hosts with names and certificates, and a machine behind the egress proxy."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from opencomputer.server.contracts.egress import EgressEvent
from opencomputer.server.domain.egress import EgressRules, SealedSecret
from opencomputer.server.network.addresses import is_public
from opencomputer.server.network.egress_table import EgressTableInMemory
from opencomputer.server.network.proxy.authority import Authority, Leaves, new_authority
from opencomputer.server.network.proxy.connection import Parts, ProxyConfig
from opencomputer.server.network.proxy.lookup import Dialler
from opencomputer.server.network.proxy.proxy import EgressProxy
from opencomputer.wire.ids import OrgId, SandboxId

MACHINE = "127.0.0.1"
"""Where the connections of the machine come from."""

ORG, SANDBOX = OrgId("org_1"), SandboxId("sb-0123abcd")
TOKEN = "osb_sealed_" + "0123456789abcdef" * 2
OTHER_TOKEN = "osb_sealed_" + "f" * 32
VALUE = "sk-real-value-of-the-key"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def now() -> datetime:
    return datetime.now(UTC)


def secret(*hosts: str, name: str = "API_KEY", token: str = TOKEN, value: str = VALUE) -> SealedSecret:
    return SealedSecret(name, token, value, hosts)


def rules(*secrets: SealedSecret, allow: Sequence[str] = (), network: bool = True) -> EgressRules:
    return EgressRules(ORG, SANDBOX, network, tuple(allow), secrets)


@dataclass
class EventList:
    """An EgressLog that keeps everything."""

    events: list[EgressEvent] = field(default_factory=list[EgressEvent])

    def record(self, event: EgressEvent) -> None:
        self.events.append(event)


@dataclass
class ToldNames:
    """A ResolvedNames with what the test says."""

    told: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def names(self, guest_address: str, address: str) -> frozenset[str]:
        del guest_address
        return self.told.get(address, frozenset())


@dataclass
class Names:
    """A Lookup that counts, and whose answers a test may change between two questions."""

    known: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    asked: list[str] = field(default_factory=list[str])

    async def addresses(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        return self.known.get(name, [])


def permits_loopback(address: str) -> bool:
    """127.0.0.0/24 stands for the internet, everything else is what it is."""
    return address.startswith("127.0.0.") or is_public(address)


@dataclass
class Internet:
    """What a test has: the proxy's ports, and all that it was given."""

    config: ProxyConfig
    authority: Authority = field(default_factory=lambda: new_authority(now()))
    public_authority: Authority = field(default_factory=lambda: new_authority(now()))
    table: EgressTableInMemory = field(default_factory=EgressTableInMemory)
    log: EventList = field(default_factory=EventList)
    told: ToldNames = field(default_factory=ToldNames)
    names: Names = field(default_factory=Names)
    destination: tuple[str, int] = ("127.0.0.2", 443)
    """Where a connection to the transparent port was going."""
    explicit_port: int = 0
    transparent_port: int = 0
    proxy: EgressProxy = field(init=False)

    def __post_init__(self) -> None:
        trust = ssl.create_default_context(cadata=self.public_authority.certificate_pem)
        trust.set_alpn_protocols(["http/1.1"])
        self.leaves = Leaves(self.public_authority, now)
        dialler = Dialler(self.names, self.config.handshake_seconds, permits=permits_loopback)
        parts = Parts(
            self.config,
            self.table,
            self.log,
            self.told,
            Leaves(self.authority, now),
            dialler,
            trust,
            now,
        )
        self.proxy = EgressProxy(parts, destination=lambda _: self.destination)

    @property
    def machines_trust(self) -> ssl.SSLContext:
        """What programs in the machine trust: the public authorities and the proxy."""
        context = ssl.create_default_context(cadata=self.authority.certificate_pem)
        context.load_verify_locations(cadata=self.public_authority.certificate_pem)
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context

    def admit(self, given: EgressRules) -> None:
        self.table.admit(MACHINE, given)

    @asynccontextmanager
    async def host(
        self, name: str, serve: Serve, *, tls: bool = True, address: str = "127.0.0.2"
    ) -> AsyncGenerator[int]:
        """A host of that name; yields its port."""
        context = self.leaves.context(name) if tls else None
        self.names.known.setdefault(name, [address])

        server = await asyncio.start_server(until_its_end(serve), address, 0, ssl=context)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()

    async def ask_proxy(self, request: bytes, *, source: str = MACHINE) -> Wire:
        wire = await Wire.connect(self.explicit_port, source=source)
        wire.writer.write(request)
        return wire

    async def tunnel(self, host: str, port: int, *, source: str = MACHINE) -> Wire:
        """CONNECT; the answer must be 200."""
        request = f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
        wire = await self.ask_proxy(request, source=source)
        answer = await wire.reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        return wire

    async def secure(self, host: str, port: int, *, sni: str | None = None) -> Wire:
        """A TLS connection to a host through the proxy, as programs make it."""
        wire = await self.tunnel(host, port)
        await wire.secure(self.machines_trust, sni or host)
        return wire

    async def led_here(self) -> Wire:
        """A connection to `destination`, of a program that knows of no proxy."""
        return await Wire.connect(self.transparent_port)

    def decisions(self) -> list[tuple[str, str, str | None]]:
        return [(event.host, event.decision, event.reason) for event in self.log.events]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Wire:
    """One connection of a program."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def connect(cls, port: int, *, source: str = MACHINE) -> Wire:
        return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0)))

    async def secure(self, trust: ssl.SSLContext, host: str) -> None:
        await self.writer.start_tls(trust, server_hostname=host)

    async def request(self, text: str | bytes, body: bytes = b"") -> Answer:
        """Send a head, lines ended as in Python, and a body; read the answer."""
        head = text.encode() if isinstance(text, str) else text
        self.writer.write(head.replace(b"\n", b"\r\n") + body)
        return await self.answer()

    async def answer(self) -> Answer:
        async with asyncio.timeout(60):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            pairs = (line.split(": ", 1) for line in head[1:] if line)
            headers = {name.lower(): value for name, value in pairs}
            if headers.get("transfer-encoding") == "chunked":
                body = await read_chunks(self.reader)
            elif "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            else:
                body = b""
        return Answer(int(head[0].split()[1]), headers, body)

    async def rest(self) -> bytes:
        """All that still comes; none when the connection was cut."""
        try:
            async with asyncio.timeout(60):
                return await self.reader.read(-1)
        except OSError:
            return b""

    def close(self) -> None:
        self.writer.close()


async def read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return body


def until_its_end(serve: Serve) -> Serve:
    """A host to which clients hanging up is nothing special."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    return handle


@dataclass
class Recorded:
    """A request as a host got it."""

    head: str
    body: bytes

    def header(self, name: str) -> str | None:
        lines = (line.partition(": ") for line in self.head.split("\r\n")[1:])
        return next((value for key, _, value in lines if key.lower() == name.lower()), None)


@dataclass
class Recorder:
    """A host that takes down what it gets, and answers each time with `answer`."""

    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    requests: list[Recorded] = field(default_factory=list[Recorded])
    connections: int = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request = Recorded(head, b"")
            if request.header("transfer-encoding") == "chunked":
                request.body = await read_chunks(reader)
            elif length := request.header("content-length"):
                request.body = await reader.readexactly(int(length))
            self.requests.append(request)
            writer.write(self.answer)
            await writer.drain()

    @property
    def last(self) -> Recorded:
        return self.requests[-1]


@asynccontextmanager
async def internet(config: ProxyConfig | None = None) -> AsyncGenerator[Internet]:
    made = Internet(config or ProxyConfig(moment_seconds=1.0))
    made.explicit_port, made.transparent_port = await made.proxy.open("127.0.0.1", 0, 0)
    try:
        yield made
    finally:
        await made.proxy.close()
