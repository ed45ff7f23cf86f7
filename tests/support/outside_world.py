"""A small internet for real nodes: names, web servers, a private host, and a host that nobody may reach.

All of it is in one namespace on a cable to this host, so what arrives can be counted.
"""

from __future__ import annotations

import http.server
import secrets
import socket
import socketserver
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import dns.message
import dns.rcode
import dns.rrset
import httpx

from opencomputer.server.models.script import load_script
from opencomputer.server.models.scripted import ScriptedModel
from opencomputer.server.network.proxy.authority import Leaves, new_authority
from tests.support.model_server import ModelServer, serve_model
from tests.support.namespaces import Namespace, neighbour
from tests.support.real_clock import RealClock
from tests.support.sockets import tcp_listener, udp_echo

PUBLIC, DENIED, PRIVATE = "203.0.113.77", "203.0.113.78", "10.77.0.7"
API, HOSTILE, UNLISTED = "api.example.test", "rebind.example.test", "denied.example.test"


@dataclass
class OutsideWorld:
    """`asked` are the names that arrived at the name server, `model_keys` the keys with which a model was
    asked, the other lists who came from where."""

    authority: Path
    model: ModelServer
    asked: list[str] = field(default_factory=list[str])
    requests: list[str] = field(default_factory=list[str])
    secrets_seen: list[str] = field(default_factory=list[str])
    model_keys: list[str] = field(default_factory=list[str])
    denied: list[list[str]] = field(default_factory=list[list[str]])
    at_private: list[str] = field(default_factory=list[str])
    quic: list[str] = field(default_factory=list[str])

    @property
    def at_denied(self) -> list[str]:
        return [peer for peers in self.denied for peer in peers]

    def addresses(self, name: str) -> list[str]:
        """What the name server says."""
        return {API: [PUBLIC], UNLISTED: [DENIED], HOSTILE: [PRIVATE]}.get(name, [])


@contextmanager
def outside_world(folder: Path) -> Generator[OutsideWorld]:
    """Everything of it is gone afterwards."""
    authority = new_authority(datetime.now(UTC))
    file = folder / "test-authority.pem"
    file.write_text(authority.certificate_pem)
    leaves = Leaves(authority, lambda: datetime.now(UTC))
    with neighbour(f"tst{secrets.token_hex(3)}", [PUBLIC, DENIED, PRIVATE]) as place, ExitStack() as stack:
        model = stack.enter_context(serve_model(ScriptedModel(load_script(None), RealClock())))
        world = OutsideWorld(file, model)
        stack.enter_context(_serving(place, lambda: _NameServer(world)))
        stack.enter_context(_serving(place, lambda: _web_server(world, 80)))
        secure = place.call(lambda: _web_server(world, 443))
        secure.socket = leaves.context(API).wrap_socket(secure.socket, server_side=True)
        stack.enter_context(_serving(place, lambda: secure))
        world.denied = [stack.enter_context(tcp_listener(place, DENIED, port)) for port in (80, 443)]
        world.at_private = stack.enter_context(tcp_listener(place, PRIVATE, 443))
        world.quic = stack.enter_context(udp_echo(place, PUBLIC, 443))
        yield world


class _NameServer:
    def __init__(self, world: OutsideWorld) -> None:
        self._world = world
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((PUBLIC, 53))

    def serve_forever(self) -> None:
        with suppress(OSError):
            while True:
                wire, peer = self._socket.recvfrom(65535)
                if not wire:
                    return
                self._socket.sendto(self._answer(wire), peer)

    def _answer(self, wire: bytes) -> bytes:
        question = dns.message.from_wire(wire)
        asked = question.question[0]
        name = asked.name.to_text(omit_final_dot=True)
        self._world.asked.append(name)
        answer = dns.message.make_response(question)
        addresses = self._world.addresses(name.lower())
        if not addresses:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif asked.rdtype == 1:
            answer.answer.append(dns.rrset.from_text_list(asked.name, 5, "IN", "A", addresses))
        return answer.to_wire()

    def shutdown(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def server_close(self) -> None:
        self._socket.close()


def _web_server(world: OutsideWorld, port: int) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            world.requests.append(f"{self.headers.get('Host')}{self.path}")
            world.secrets_seen.append(self.headers.get("Authorization") or "")
            redirect = self.path == "/redirect"
            self.send_response(302 if redirect else 200)
            if redirect:
                self.send_header("Location", f"https://{PRIVATE}/")
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def do_POST(self) -> None:
            """A provider of models lives here, too."""
            world.model_keys.append(self.headers.get("X-Api-Key") or self.headers.get("Authorization") or "")
            answer = httpx.post(
                f"{world.model.url}{self.path}",
                content=_body(self),
                headers={"Content-Type": "application/json"},
                timeout=30,
            )
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *args: object) -> None:
            return

    return _WebServer((PUBLIC, port), Handler)


class _WebServer(http.server.ThreadingHTTPServer):
    def server_bind(self) -> None:
        # Without looking for a name of the address: nobody answers that in here.
        socketserver.TCPServer.server_bind(self)


def _body(request: http.server.BaseHTTPRequestHandler) -> bytes:
    if request.headers.get("Transfer-Encoding") != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))
    body = bytearray()
    while length := int(request.rfile.readline().split(b";")[0], 16):
        body += request.rfile.read(length)
        request.rfile.readline()
    request.rfile.readline()
    return bytes(body)


@contextmanager
def _serving(
    place: Namespace, make: Callable[[], http.server.ThreadingHTTPServer | _NameServer]
) -> Generator[None]:
    server = place.call(make)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
