"""A web program as people run them in sandboxes: the standard library only, so that it runs anywhere.

    python3 preview_program.py [port]

Listens on 127.0.0.1 only. Every request that has no place below is answered with what came, byte by byte.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
import sys

GZIPPED = gzip.compress(b"hello " * 1000, mtime=0)
PIECE = bytes(range(256)) * 256
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

Headers = list[tuple[str, str]]


class Exchange:
    """One request and its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.line = ""
        self.headers: Headers = []

    async def read_head(self) -> None:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.line, *lines = head[:-4].split("\r\n")
        self.headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]

    @property
    def path(self) -> str:
        return self.line.split(" ")[1].partition("?")[0]

    @property
    def query(self) -> str:
        return self.line.split(" ")[1].partition("?")[2]

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    async def body(self) -> tuple[int, str]:
        """Length and hash of the body, read as it comes."""
        digest, total = hashlib.sha256(), 0
        if self.header("transfer-encoding") == "chunked":
            while size := int(await self.reader.readline(), 16):
                digest.update(await self.reader.readexactly(size))
                total += size
                await self.reader.readline()
            await self.reader.readline()
        left = int(self.header("content-length") or 0)
        while left:
            piece = await self.reader.read(min(left, 1 << 16))
            digest.update(piece)
            total, left = total + len(piece), left - len(piece)
        return total, digest.hexdigest()

    def begin(self, status: str, headers: Headers) -> None:
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers), "", ""]
        self.writer.write("\r\n".join(lines).encode("latin-1"))

    def answer(self, status: str, body: bytes, headers: Headers | None = None) -> None:
        self.begin(status, [("Content-Length", str(len(body))), *(headers or [])])
        self.writer.write(body)


async def echo(exchange: Exchange) -> None:
    length, digest = await exchange.body()
    seen = {"line": exchange.line, "headers": exchange.headers, "length": length, "sha256": digest}
    exchange.answer("200 OK", json.dumps(seen).encode(), [("Content-Type", "application/json")])


async def events(exchange: Exchange) -> None:
    """As many events as the query says, one each tenth of a second, without a length."""
    exchange.begin("200 OK", [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")])
    for number in range(int(exchange.query)):
        data = f"data: {number}\n\n".encode()
        exchange.writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await exchange.writer.drain()
        await asyncio.sleep(0.1)
    exchange.writer.write(b"0\r\nx-trailer: ignored\r\n\r\n")


async def big(exchange: Exchange) -> None:
    """As many bytes as the query says."""
    left = int(exchange.query)
    exchange.begin("200 OK", [("Content-Length", str(left))])
    while left > 0:
        exchange.writer.write(PIECE[:left])
        await exchange.writer.drain()
        left -= len(PIECE)


async def compressed(exchange: Exchange) -> None:
    exchange.answer("200 OK", GZIPPED, [("Content-Encoding", "gzip"), ("Access-Control-Allow-Origin", "x")])


async def cookies(exchange: Exchange) -> None:
    names = ("a=1; Path=/", "b=2", "oc-preview=stolen", "__Host-oc-preview=stolen; Secure; Path=/")
    hop = [("Connection", "keep-alive, X-Private"), ("X-Private", "1"), ("Keep-Alive", "timeout=5")]
    exchange.answer("200 OK", b"", [*(("Set-Cookie", each) for each in names), *hop])


async def fails(exchange: Exchange) -> None:
    exchange.answer("502 Bad Gateway", b"sandbox not found")


async def redirects(exchange: Exchange) -> None:
    exchange.answer("302 Found", b"", [("Location", "http://169.254.169.254/latest/meta-data")])


async def refuses_early(exchange: Exchange) -> None:
    exchange.answer("413 Content Too Large", b"no more")
    await exchange.writer.drain()


async def hints(exchange: Exchange) -> None:
    exchange.begin("103 Early Hints", [("Link", "</style.css>; rel=preload")])
    exchange.answer("200 OK", b"after a hint")


async def unchanged(exchange: Exchange) -> None:
    exchange.begin("304 Not Modified", [("Content-Length", "1000"), ("ETag", '"x"')])


async def cut_off(exchange: Exchange) -> None:
    exchange.begin("200 OK", [("Content-Length", "1000")])
    exchange.writer.write(b"only this")
    await exchange.writer.drain()


async def garbage(exchange: Exchange) -> None:
    exchange.writer.write(b"\x00this is not HTTP\r\n\r\n")


async def hangs_up(_exchange: Exchange) -> None:
    return


async def socket(exchange: Exchange) -> None:
    """Echoes; `close CODE REASON` closes, `ping` makes the program ping and tell of the pong."""
    if not exchange.header("upgrade"):
        exchange.answer("426 Upgrade Required", b"a WebSocket, please")
        return
    key = exchange.header("sec-websocket-key").encode()
    accept = base64.b64encode(hashlib.sha1(key + MAGIC).digest()).decode()
    headers = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)]
    offered = [each.strip() for each in exchange.header("sec-websocket-protocol").split(",")]
    if "chat.v2" in offered:
        headers.append(("Sec-WebSocket-Protocol", "chat.v2"))
    exchange.begin("101 Switching Protocols", [*headers, ("X-From-Program", "yes")])
    if exchange.query == "greet":
        exchange.writer.write(_frame(1, b"welcome"))
    while True:
        code, payload = await _read_frame(exchange.reader)
        if code == 8:
            exchange.writer.write(_frame(8, payload))
            print("closed", payload, flush=True)
            return
        if payload.startswith(b"close "):
            _, number, reason = payload.split(b" ", 2)
            exchange.writer.write(_frame(8, int(number).to_bytes(2, "big") + reason))
        elif payload == b"ping":
            exchange.writer.write(_frame(9, b"?"))
        elif code == 10:
            exchange.writer.write(_frame(1, b"pong came"))
        else:
            exchange.writer.write(_frame(code, payload))
        await exchange.writer.drain()


def _frame(code: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = bytes([0x80 | code, size])
    elif size < 65536:
        head = bytes([0x80 | code, 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([0x80 | code, 127]) + size.to_bytes(8, "big")
    return head + payload


async def _read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    first, second = await reader.readexactly(2)
    size = second & 0x7F
    if size > 125:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
    mask = await reader.readexactly(4)
    masked = await reader.readexactly(size)
    whole = (mask * (size // 4 + 1))[:size]
    data = (int.from_bytes(masked, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")
    return first & 0xF, data


PLACES = {
    "/events": events,
    "/big": big,
    "/gzip": compressed,
    "/cookies": cookies,
    "/fails": fails,
    "/redirects": redirects,
    "/early": refuses_early,
    "/hints": hints,
    "/unchanged": unchanged,
    "/cut": cut_off,
    "/garbage": garbage,
    "/hangs-up": hangs_up,
    "/ws": socket,
}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    exchange = Exchange(reader, writer)
    try:
        await exchange.read_head()
        if exchange.path == "/silent":
            await reader.read()
            return
        await PLACES.get(exchange.path, echo)(exchange)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), limit=1 << 18)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
