"""A node's life: open in order, serve, stop in order."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

import structlog
from fastapi import FastAPI
from starlette.types import ASGIApp

from opencomputer.server.host.service_manager import READY, STOPPING, notify
from opencomputer.server.identity import DataFolder, write_private
from opencomputer.server.listeners import bind, listening
from opencomputer.server.services.access import Access
from opencomputer.server.services.reconciler import Reconciler
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.server.services.sandboxes.pool import Pool
from opencomputer.server.settings import Settings

_log = structlog.get_logger(__name__)

FIRST_ORGANISATION = "default"


class Keeper(Protocol):
    """Does something again and again, as long as the node runs."""

    async def keep(self) -> None: ...


@dataclass(frozen=True)
class Parts:
    """What the composition root made, as far as a node's life is about it."""

    app: FastAPI
    metadata_app: ASGIApp
    metadata_at: tuple[str, int] | None
    access: Access
    lifecycle: Lifecycle
    pool: Pool
    reconciler: Reconciler
    keepers: Sequence[Keeper]


@asynccontextmanager
async def running(settings: Settings, folder: DataFolder, parts: Parts) -> AsyncGenerator[str]:
    """Serve until left. Yields the URL of the API once the node is ready.

    Requests are taken before earlier machines are adopted; `/readyz` tells when they are.
    """
    address = settings.listen
    bound = bind(address.host, address.port)
    url = f"http://{address.host}:{bound.getsockname()[1]}"
    await introduce(settings, folder, parts.access, url)
    found = await parts.reconciler.look()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(parts.lifecycle.detach)
        await stack.enter_async_context(parts.pool)
        if parts.metadata_at is not None:
            await stack.enter_async_context(listening(parts.metadata_app, bind(*parts.metadata_at)))
        await stack.enter_async_context(listening(parts.app, bound, settings.trusted_proxies))
        await parts.reconciler.recover(found)
        keepers = [asyncio.create_task(each.keep()) for each in (parts.reconciler, *parts.keepers)]
        parts.app.state.ready = True
        notify(settings.notify_socket, READY)
        _log.info("ready", url=url, data=str(settings.data))
        try:
            yield url
        finally:
            parts.app.state.ready = False
            notify(settings.notify_socket, STOPPING)
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)


async def introduce(settings: Settings, folder: DataFolder, access: Access, url: str) -> None:
    """On the first start, make an organisation and a key. Always tell `oc` on this machine where we are."""
    if not await access.has_organisations():
        created = await access.create_organisation(FIRST_ORGANISATION, settings.bootstrap_api_key)
        write_private(folder.local_key, {"apiKey": created.secret})
        _log.info("first organisation created", key_file=str(folder.local_key))
    with suppress(FileNotFoundError):
        key = json.loads(folder.local_key.read_text())["apiKey"]
        write_private(settings.local_node_file, {"apiUrl": url, "apiKey": key})


async def until_stopped() -> None:
    """Return at SIGINT or SIGTERM. A second signal ends the process at once."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopping.is_set():
            raise SystemExit(1)
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    await stopping.wait()
    _log.info("stopping; sandboxes go on running and will be adopted by the next start")
