"""A whole node in a thread with an event loop of its own, for tests that wait for other programs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager

from tests.support.node import NodeFolder

_SECONDS = 60.0


@contextmanager
def running_in_thread(folder: NodeFolder, **environment: str) -> Generator[str]:
    """Run the node until left; what keeps it from starting, or from ending, is raised here. Its URL."""
    started: Future[str] = Future()
    loop = asyncio.new_event_loop()
    leaving = asyncio.Event()

    async def run() -> None:
        try:
            async with folder.running(**environment) as url:
                started.set_result(url)
                await leaving.wait()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
                return
            raise

    ended: Future[None] = Future()

    def serve() -> None:
        try:
            loop.run_until_complete(run())
            ended.set_result(None)
        except BaseException as error:
            ended.set_exception(error)
        finally:
            loop.close()

    threading.Thread(target=serve, name="node", daemon=True).start()
    url = started.result(_SECONDS)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(leaving.set)
        ended.result(_SECONDS)
