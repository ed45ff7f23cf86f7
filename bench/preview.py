"""Requests through a preview against the same requests on a direct connection to the program, and how fast a
large answer comes."""

from __future__ import annotations

import time
from dataclasses import dataclass

import httpx

from bench.node import Place, node_at
from bench.report import Result
from bench.samples import Figure, percentile

_PORT = 8000
_WARM_UP = 20
_LISTENING_SECONDS = 15.0
# Answers `GET /N` with N bytes, each on a connection of its own.
_PROGRAM = """
import asyncio
async def serve(reader, writer):
    head = await reader.readuntil(b"\\r\\n\\r\\n")
    left = int(head.split()[1][1:] or 0)
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % left)
    piece = bytes(65536)
    while left > 0:
        writer.write(piece[:left])
        await writer.drain()
        left -= len(piece)
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "0.0.0.0", PORT)
    await server.serve_forever()
asyncio.run(main())
"""
_ADDRESS = """
import socket
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.connect(("192.0.2.1", 9))
print(asking.getsockname()[0])
"""


@dataclass(frozen=True)
class PreviewOptions:
    count: int = 500
    mebibytes: int = 256
    place: Place | None = None


def measure(options: PreviewOptions) -> Result:
    result = Result("preview", {"count": options.count, "mebibytes": options.mebibytes})
    with node_at(options.place) as running, running.client() as client:
        made = client.post("/sandboxes", json={}).raise_for_status().json()
        root = f"/sandboxes/{made['sandboxID']}"
        try:
            body = {"cmd": "python3", "args": ["-c", _PROGRAM.replace("PORT", str(_PORT))]}
            client.post(f"{root}/exec", json=body).raise_for_status()
            asked = {"cmd": "python3", "args": ["-c", _ADDRESS]}
            address = client.post(f"{root}/exec/run", json=asked).raise_for_status().json()["stdout"].strip()
            host = f"{made['sandboxID']}-p{_PORT}.{made['sandboxDomain']}"
            origin = str(client.base_url).rstrip("/").removesuffix("/api")
            ways = {
                "direct": httpx.Client(base_url=f"http://{address}:{_PORT}", timeout=60),
                "preview": httpx.Client(base_url=origin, headers={"Host": host}, timeout=60),
            }
            _compare(result, ways, options)
        except (httpx.HTTPError, AssertionError) as error:
            result.failures.append(repr(error))
        finally:
            client.delete(root)
    return result


def _compare(result: Result, ways: dict[str, httpx.Client], options: PreviewOptions) -> None:
    _await_listening(ways["direct"])
    trips = {name: _round_trips(way, options.count) for name, way in ways.items()}
    result.samples |= trips
    for share, name in ((0.50, "p50"), (0.99, "p99")):
        direct, preview = (percentile(sorted(trips[way]), share) for way in ("direct", "preview"))
        result.figures.append(Figure(f"direct: {name}", direct, "ms"))
        result.figures.append(Figure(f"preview: {name}", preview, "ms"))
        result.figures.append(Figure(f"added: {name}", preview - direct, "ms"))
    for name, way in ways.items():
        rate = _rate(way, options.mebibytes << 20)
        result.samples[f"{name} download"] = [rate]
        result.figures.append(Figure(f"{name}: download", rate, "MB/s"))


def _await_listening(way: httpx.Client) -> None:
    deadline = time.monotonic() + _LISTENING_SECONDS
    while True:
        try:
            way.get("/1").raise_for_status()
            return
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _round_trips(way: httpx.Client, count: int) -> list[float]:
    samples: list[float] = []
    for number in range(_WARM_UP + count):
        began = time.perf_counter()
        way.get("/100").raise_for_status()
        if number >= _WARM_UP:
            samples.append((time.perf_counter() - began) * 1000)
    return samples


def _rate(way: httpx.Client, size: int) -> float:
    """Megabytes a second."""
    received = 0
    began = time.perf_counter()
    with way.stream("GET", f"/{size}") as answer:
        for piece in answer.iter_raw(1 << 20):
            received += len(piece)
    seconds = time.perf_counter() - began
    assert received == size, f"received {received} bytes"
    return size / 1e6 / seconds
