"""The brain's process: which engine, which port, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence

from .claude import ClaudeBrain
from .codex import CodexBrain
from .engine import Engine, EngineFailed
from .scripted import ScriptedEngine
from .server import BrainServer, complain

DEFAULT_PORT = 8080
PORT_VARIABLE = "OC_BRAIN_PORT"

ENGINES: Mapping[str, Callable[[], Engine]] = {
    "claude": ClaudeBrain,
    "codex": CodexBrain,
    "scripted": ScriptedEngine,
}


def main(arguments: Sequence[str]) -> int:
    """Serve one engine until SIGTERM or SIGINT. Returns the exit code: 1 when the engine cannot be used."""
    if len(arguments) != 1 or arguments[0] not in ENGINES:
        complain(f"usage: brains {'|'.join(sorted(ENGINES))}")
        return 2
    try:
        asyncio.run(_serve(ENGINES[arguments[0]](), int(os.environ.get(PORT_VARIABLE) or DEFAULT_PORT)))
    except EngineFailed as error:
        complain(f"the engine cannot be used: {error}")
        return 1
    return 0


async def _serve(engine: Engine, port: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = BrainServer(engine)
    await server.open(port)
    complain(f"listening on 127.0.0.1:{server.port}")
    try:
        await server.prepare()
        await ended.wait()
    finally:
        await server.close()
