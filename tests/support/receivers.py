"""Receivers of webhooks that answer as they are told, over real connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from opencomputer.server.contracts.webhooks import WebhookAnswer


@dataclass(frozen=True)
class Received:
    path: str
    headers: Mapping[str, str]
    body: bytes


Respond = Callable[[asyncio.StreamWriter, Received], Awaitable[None]]


def answering(status: int = 200, body: bytes = b"", **headers: str) -> Respond:
    """Answer with this status; `_` in names of headers stands for `-`."""

    async def respond(writer: asyncio.StreamWriter, _received: Received) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    return respond


async def silence(writer: asyncio.StreamWriter, _received: Received) -> None:
    """Take the request, and never answer."""
    await asyncio.Event().wait()


async def hang_up(writer: asyncio.StreamWriter, _received: Received) -> None:
    """Take the request, and close."""


@dataclass
class Receiver:
    """`respond` may change at any time. `port` is where it listens on 127.0.0.1."""

    respond: Respond = field(default_factory=answering)
    received: list[Received] = field(default_factory=list[Received])
    connections: int = 0
    port: int = 0
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    secure: bool = False

    @property
    def url(self) -> str:
        return f"http{'s' if self.secure else ''}://127.0.0.1:{self.port}/hook?a=b"

    async def wait_for(self, count: int) -> list[Received]:
        async with asyncio.timeout(60):
            while len(self.received) < count:
                self.heard.clear()
                await self.heard.wait()
        return self.received[:count]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            pairs = [line.split(": ", 1) for line in head[1:] if line]
            headers = {name.lower(): value for name, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            received = Received(head[0].split(" ")[1], headers, body)
            self.received.append(received)
            self.heard.set()
            await self.respond(writer, received)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def receiver(
    respond: Respond | None = None, *, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Receiver]:
    made = Receiver(respond or answering(), secure=tls is not None)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(made.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class SlowCheck:
    """Implements WebhookSender for who asks where to send: `meanwhile` happens before the answer."""

    def __init__(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._meanwhile = meanwhile

    async def check(self, url: str) -> None:
        await self._meanwhile()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookAnswer:
        raise AssertionError
