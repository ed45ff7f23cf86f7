"""Small clients and servers of sockets, blocking and with deadlines, for use inside namespaces."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol, TypeVar

QUICK_SECONDS = 0.4
T = TypeVar("T")


class Place(Protocol):
    """Where a socket is made."""

    def call(self, work: Callable[[], T]) -> T: ...


class Host:
    """The namespace of the test itself."""

    def call(self, work: Callable[[], T]) -> T:
        return work()


HOST = Host()


def can_connect(address: str, port: int, *, seconds: float = 3.0) -> bool:
    """Whether a TCP connection comes about. A refusal is no connection."""
    try:
        with socket.create_connection((address, port), timeout=seconds):
            return True
    except OSError:
        return False


def gets_nowhere(address: str, port: int) -> bool:
    """Whether a TCP connection does not come about in a time in which it otherwise would."""
    return not can_connect(address, port, seconds=QUICK_SECONDS)


def ask_datagram(
    address: str, port: int, question: bytes, *, seconds: float = QUICK_SECONDS, source: int = 0
) -> bytes | None:
    """The answer, or nothing in time; from the port `source`, or from any free one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("", source))
        sock.settimeout(seconds)
        try:
            sock.sendto(question, (address, port))
            return sock.recvfrom(65535)[0]
        except OSError:
            return None


def ask_stream(address: str, port: int, question: bytes, *, seconds: float = 3.0) -> bytes:
    """One length-prefixed question and answer, as DNS does it on TCP."""
    with socket.create_connection((address, port), timeout=seconds) as sock:
        sock.sendall(struct.pack("!H", len(question)) + question)
        (length,) = struct.unpack("!H", receive(sock, 2))
        return receive(sock, length)


def receive(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = sock.recv(length - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


@contextmanager
def tcp_listener(place: Place, address: str, port: int) -> Generator[list[str]]:
    """Accept and close connections; the list has the addresses they came from."""
    sock = place.call(lambda: bound_tcp(address, port))
    peers: list[str] = []

    def serve() -> None:
        while True:
            try:
                connection, peer = sock.accept()
            except OSError:
                return
            peers.append(peer[0])
            connection.close()

    with _background(sock, serve):
        yield peers


@contextmanager
def udp_echo(place: Place, address: str, port: int) -> Generator[list[str]]:
    """Send every datagram back; the list has the addresses they came from."""
    sock = place.call(lambda: _bound_udp(address, port))
    peers: list[str] = []

    def serve() -> None:
        while True:
            try:
                data, peer = sock.recvfrom(65535)
            except OSError:
                return
            if not data:
                return
            peers.append(peer[0])
            sock.sendto(data, peer)

    with _background(sock, serve):
        yield peers


def bound_tcp(address: str, port: int) -> socket.socket:
    return socket.create_server((address, port), backlog=64)


def _bound_udp(address: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((address, port))
    return sock


@contextmanager
def _background(sock: socket.socket, serve: Callable[[], None]) -> Generator[None]:
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        while select.select([sock], [], [], 0)[0]:
            time.sleep(0.002)  # what has arrived counts
        try:
            sock.shutdown(socket.SHUT_RDWR)  # wakes the thread; close alone does not
        except OSError:
            pass
        sock.close()
        thread.join(timeout=2)
