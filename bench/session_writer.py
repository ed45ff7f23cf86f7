"""What `bench sessions` measures: the log with its routes, in a process of its own, and somebody who writes.

Reads one JSON command per line, and answers each with one line.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

from opencomputer.server.domain.sessions.session import Claim
from opencomputer.server.logs import configure_logs
from tests.support import session_rows as new
from tests.support.log_server import LogServer, log_server

_PAD = "x" * 200
"""An event is some hundred bytes long, as the messages and the calls of an agent are."""


async def _serve(file: Path) -> None:
    async with log_server(file) as server:
        _answer({"url": server.url, "key": server.client.headers["X-API-Key"], "pid": os.getpid()})
        while command := await asyncio.to_thread(sys.stdin.readline):
            _answer(await _do(server, json.loads(command)))


async def _do(server: LogServer, command: dict[str, Any]) -> dict[str, Any]:
    match command["do"]:
        case "sessions":
            began = time.monotonic()
            made = [await server.session() for _ in range(command["count"])]
            return {"ids": [each.id for each in made], "seconds": time.monotonic() - began}
        case "pace":
            return await _pace(server, await _claim(server, command["session"]), command)
        case "flood":
            return await _flood(server, await _claim(server, command["session"]), command)
        case other:
            raise ValueError(other)


async def _claim(server: LogServer, session: Any) -> Claim:
    return await server.running(session)


async def _pace(server: LogServer, claim: Claim, command: dict[str, Any]) -> dict[str, Any]:
    """One event after the other with pauses, each with the time at which its append began."""
    for _ in range(command["count"]):
        event = new.said(_PAD, refs={"began": time.monotonic()})
        await server.tables.turns.append(claim, [event], new.at(1))
        await asyncio.sleep(command["pause"])
    return {}


async def _flood(server: LogServer, claim: Claim, command: dict[str, Any]) -> dict[str, Any]:
    """Batches, one after the other, as fast as it goes."""
    began, count = time.monotonic(), 0
    while time.monotonic() - began < command["seconds"]:
        keyed = [new.said(_PAD, key=f"k{count + each}") for each in range(command["batch"])]
        count += len(await server.tables.turns.append(claim, keyed, new.at(1)))
    return {"count": count, "seconds": time.monotonic() - began}


def _answer(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    configure_logs("warning")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(Path(sys.argv[1])))
