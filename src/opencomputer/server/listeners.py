"""HTTP servers inside one event loop, stopped by whoever started them and not by signals."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

_GRACE_SECONDS = 5
_BACKLOG = 2048


class AddressInUse(Exception):
    """Nothing can listen at this address."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        # Signals stop the node, which stops its listeners in the right order.
        yield


def bind(host: str, port: int) -> socket.socket:
    """Raises AddressInUse. The protocol is named so that event loops know to send small answers at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise AddressInUse(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return bound


@asynccontextmanager
async def listening(
    app: ASGIApp, bound: socket.socket, trusted_proxies: Sequence[str] = ()
) -> AsyncGenerator[None]:
    """Serve `app` on a bound socket; on leaving, finish open requests within a few seconds.

    What `X-Forwarded-For` and `-Proto` say counts when it comes from a trusted proxy, and from nobody else.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=_GRACE_SECONDS,
        timeout_keep_alive=75,
        # Node's client offers compression and then cannot read what some servers make of it; streams of
        # terminal bytes gain nothing from it anyway.
        ws_per_message_deflate=False,
        ws_max_size=16 << 20,
        server_header=False,
        forwarded_allow_ips=list(trusted_proxies),
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[bound]), name="listener")
    try:
        # The socket listens already: what comes before the server has started waits in its backlog.
        yield
    finally:
        server.should_exit = True
        await serving
