"""The egress proxy of a node: two listeners for its machines, and all connections they have made."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from collections import defaultdict
from collections.abc import Awaitable, Callable

from opencomputer.server.network.proxy.connection import Connection, Parts
from opencomputer.server.network.proxy.heads import Refusal
from opencomputer.server.network.proxy.serving import serve_explicit, serve_transparent
from opencomputer.server.network.proxy.streams import PlainStream, StreamLost

_BACKLOG = 1024
_SO_ORIGINAL_DST = 80
_ADDRESS = struct.Struct("!2xH4s8x")

_logger = logging.getLogger(__name__)

Serve = Callable[[Connection], Awaitable[None]]


class EgressProxy:
    """Connections of machines to the outside. While it is closed there are none: nothing else listens.

    Whose a connection is, its source address tells, which the packet filter does not let machines forge.
    """

    def __init__(
        self, parts: Parts, *, destination: Callable[[socket.socket], tuple[str, int]] | None = None
    ) -> None:
        self._parts = parts
        self._destination = destination or original_destination
        self._servers: list[asyncio.Server] = []
        self._connections: defaultdict[str, set[Connection]] = defaultdict(set)
        self._count = 0
        parts.table.subscribe(self._rules_changed)

    async def open(self, address: str, proxy_port: int, transparent_port: int) -> tuple[int, int]:
        """Start listening. Ports may be 0; returns those that it has become."""
        ports: list[int] = []
        for port, serve in ((proxy_port, serve_explicit), (transparent_port, self._serve_transparent)):
            server = await asyncio.get_running_loop().create_server(
                self._listener(serve), address, port, backlog=_BACKLOG
            )
            self._servers.append(server)
            ports.append(int(server.sockets[0].getsockname()[1]))
        return ports[0], ports[1]

    async def close(self) -> None:
        """Stop listening, and cut everything. Idempotent."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        connections = [connection for mine in self._connections.values() for connection in mine]
        for connection in connections:
            connection.cut("closing")
        tasks = [connection.task for connection in connections if connection.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in servers:
            await server.wait_closed()

    @property
    def connections(self) -> int:
        """How many there are."""
        return self._count

    def _listener(self, serve: Serve) -> Callable[[], PlainStream]:
        return lambda: PlainStream(lambda stream: self._take(stream, serve))

    def _take(self, guest: PlainStream, serve: Serve) -> None:
        caller = str(guest.transport.get_extra_info("peername")[0])
        connection = Connection(self._parts, guest, caller)
        config = self._parts.config
        if self._count >= config.in_all or len(self._connections[caller]) >= config.per_machine:
            connection.tell("denied", "too_many")
            guest.abort()
            return
        self._count += 1
        self._connections[caller].add(connection)
        connection.watch()
        connection.task = asyncio.get_running_loop().create_task(self._run(connection, serve))

    async def _run(self, connection: Connection, serve: Serve) -> None:
        """The whole life of a connection. What happens in it is nobody else's concern."""
        try:
            await serve(connection)
        except Refusal as refusal:
            connection.denied(refusal)
            connection.guest.abort()
        except (StreamLost, OSError, ssl.SSLError):
            connection.guest.abort()
        except asyncio.CancelledError:
            # Only `cut` does this, and then nobody waits for this task but `close`.
            pass
        except Exception:
            connection.guest.abort()
            _logger.exception("a connection to the outside failed in a way that was not thought of")
        finally:
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        connection.close()
        self._count -= 1
        mine = self._connections[connection.caller]
        mine.discard(connection)
        if not mine:
            del self._connections[connection.caller]

    async def _serve_transparent(self, connection: Connection) -> None:
        with socket.fromfd(_descriptor(connection.guest), socket.AF_INET, socket.SOCK_STREAM) as sock:
            address, connection.port = self._destination(sock)
        await serve_transparent(connection, address)

    def _rules_changed(self, address: str) -> None:
        for connection in tuple(self._connections.get(address, ())):
            if not connection.still_permitted():
                connection.cut("rules_changed")


def original_destination(sock: socket.socket) -> tuple[str, int]:
    """Where a connection that the packet filter has redirected was going. Raises OSError for any other."""
    port, address = _ADDRESS.unpack(sock.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, _ADDRESS.size))
    return socket.inet_ntoa(address), port


def _descriptor(stream: PlainStream) -> int:
    return int(stream.transport.get_extra_info("socket").fileno())
