"""What the egress proxy adds to a request on a kept-alive connection, and how much goes through it."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.proxy_parts import ADDRESS, OTHER_HOST, SECRET_HOST, TOKEN, Ends, running_ends
from bench.report import Result
from bench.samples import Distribution, Figure, Target, percentile

_WARM_UP = 50
_P50, _P95 = Target(5), Target(15)
_BUFFER = 1 << 18


@dataclass(frozen=True)
class ProxyOptions:
    count: int = 1000
    mebibytes: int = 128


def measure(options: ProxyOptions) -> Result:
    result = Result("proxy", {"count": options.count, "mebibytes": options.mebibytes})
    with running_ends() as ends:
        ways = {
            "direct": lambda: _direct(ends),
            "tunnelled": lambda: _through(ends, OTHER_HOST),
            "intercepted": lambda: _through(ends, SECRET_HOST),
        }
        with _direct(ends) as direct, _through(ends, OTHER_HOST) as other, _through(ends, SECRET_HOST) as own:
            trips = _round_trips({"direct": direct, "tunnelled": other, "intercepted": own}, options.count)
        result.samples.update({f"{name} ms": samples for name, samples in trips.items()})
        base = Distribution.of(trips["direct"]).p50
        result.figures.append(Figure("direct: request p50", base, "ms"))
        for name in ("tunnelled", "intercepted"):
            added = sorted(taken - base for taken in trips[name])
            result.figures += [
                Figure(f"{name}: added p50", percentile(added, 0.5), "ms", _P50),
                Figure(f"{name}: added p95", percentile(added, 0.95), "ms", _P95),
                Figure(f"{name}: added p99", percentile(added, 0.99), "ms"),
            ]
        for name, connect in ways.items():
            with connect() as sock:
                result.figures.append(Figure(f"{name}: down", _down(sock, options.mebibytes), "MiB/s"))
            with connect() as sock:
                result.figures.append(Figure(f"{name}: up", _up(sock, options.mebibytes), "MiB/s"))
    result.notes.append("client, proxy and host share the processors; a sandbox is limited to 60 MiB/s")
    return result


def _round_trips(ways: dict[str, ssl.SSLSocket], count: int) -> dict[str, list[float]]:
    """In turns, so that noise is everybody's."""
    samples: dict[str, list[float]] = {name: [] for name in ways}
    request = f"GET / HTTP/1.1\r\nHost: {{}}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    for number in range(_WARM_UP + count):
        for name, sock in ways.items():
            host = OTHER_HOST if name == "tunnelled" else SECRET_HOST
            began = time.perf_counter()
            sock.sendall(request.format(host).encode())
            answer = sock.recv(_BUFFER)
            while not answer.endswith(b"\x00\x00"):
                answer += sock.recv(_BUFFER)
            if number >= _WARM_UP:
                samples[name].append((time.perf_counter() - began) * 1000)
    return samples


def _down(sock: ssl.SSLSocket, mebibytes: int) -> float:
    size = mebibytes << 20
    began = time.perf_counter()
    sock.sendall(f"GET /{size} HTTP/1.1\r\nHost: {sock.server_hostname}\r\n\r\n".encode())
    got, buffer = 0, bytearray(_BUFFER)
    while got < size:
        taken = sock.recv_into(buffer)
        if not taken:
            raise ConnectionError("the answer broke off")
        got += taken
    return mebibytes / (time.perf_counter() - began)


def _up(sock: ssl.SSLSocket, mebibytes: int) -> float:
    size, piece = mebibytes << 20, bytes(_BUFFER)
    began = time.perf_counter()
    sock.sendall(f"PUT / HTTP/1.1\r\nHost: {sock.server_hostname}\r\nContent-Length: {size}\r\n\r\n".encode())
    for _ in range(size // len(piece)):
        sock.sendall(piece)
    if not sock.recv(_BUFFER).startswith(b"HTTP/1.1 200"):
        raise ConnectionError("the upload failed")
    return mebibytes / (time.perf_counter() - began)


@contextmanager
def _direct(ends: Ends) -> Generator[ssl.SSLSocket]:
    with _connected(ends.host_port) as plain, _secured(plain, ends, SECRET_HOST) as sock:
        yield sock


@contextmanager
def _through(ends: Ends, host: str) -> Generator[ssl.SSLSocket]:
    with _connected(ends.proxy_port) as plain:
        plain.sendall(f"CONNECT {host}:{ends.host_port} HTTP/1.1\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += plain.recv(1)
        if b" 200 " not in answer:
            raise ConnectionError(answer.decode())
        with _secured(plain, ends, host) as sock:
            yield sock


def _connected(port: int) -> socket.socket:
    sock = socket.create_connection((ADDRESS, port), timeout=60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _secured(plain: socket.socket, ends: Ends, host: str) -> ssl.SSLSocket:
    context = ssl.create_default_context(cadata=ends.host_pem + ends.proxy_pem)
    return context.wrap_socket(plain, server_hostname=host)
