"""The brain's server: health, and one request at a time."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

from .engine import Done, Engine, EngineFailed, Message
from .messages import MAX_HEAD_BYTES, Refused, Request, chunk, document, head, read_request
from .requests import CONTRACT_VERSION, BadRequest, TurnRequest, parse_turn

REQUEST_SECONDS = 60.0
"""How long somebody may take to say what they want."""

DONE = "done"


class BrainServer:
    """Serves one engine, on loopback.

    Nothing of it is lost when the machine is saved and goes on elsewhere: the socket goes on listening, and a
    request whose connection was cut by that is given up like any other whose client has gone.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._busy = False
        self._status = "starting"
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def open(self, port: int) -> None:
        """Listen. Requests are refused until `prepare` is done."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, limit=2 * MAX_HEAD_BYTES)

    async def prepare(self) -> None:
        """Have the engine load what takes long; from then on it is ready. Raises EngineFailed."""
        await self._engine.prepare()
        self._status = "ready"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._engine.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        except Exception:
            traceback.print_exc()
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _within(REQUEST_SECONDS, read_request(reader))
            if request is None:
                return
            allowed = {"/healthz": "GET", "/turn": "POST"}.get(request.path)
            if allowed is None:
                raise Refused(404, f"there is nothing at {request.path[:200]!r}")
            if request.method != allowed:
                raise Refused(405, f"{request.path} is for {allowed}")
            if allowed == "GET":
                writer.write(document(200, self._health()))
            else:
                await self._turn(parse_turn(request.body), reader, writer)
        except BadRequest as error:
            writer.write(_refusal(400, str(error)))
        except Refused as error:
            writer.write(_refusal(error.status, str(error)))
        await writer.drain()

    def _health(self) -> Mapping[str, object]:
        return {"status": self._status, "contract_version": CONTRACT_VERSION, "busy": self._busy}

    async def _turn(
        self, turn: TurnRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self._busy:
            raise Refused(409, "an earlier request is still worked on")
        if self._status != "ready":
            raise Refused(503, "the engine is not ready")
        self._busy = True
        try:
            running = asyncio.ensure_future(self._run(turn, writer))
            leaving = asyncio.ensure_future(_gone(reader))
            try:
                await asyncio.wait([running, leaving], return_when=asyncio.FIRST_COMPLETED)
            finally:
                leaving.cancel()
                if not running.done():
                    running.cancel()
                # Until then the engine may still be at work.
                await asyncio.wait([running])
        finally:
            self._busy = False
        if not running.cancelled():
            running.result()

    async def _run(self, turn: TurnRequest, writer: asyncio.StreamWriter) -> None:
        answer = _Lines(writer)
        await answer.begin()
        try:
            done = await self._engine.run(turn, answer.say)
        except EngineFailed as error:
            complain(f"the engine failed: {error}")
            writer.transport.abort()
            return
        await answer.end(done)


class _Lines:
    """The answer to one request."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._said = 0

    async def begin(self) -> None:
        headers = {"content-type": "application/x-ndjson", "transfer-encoding": "chunked"}
        self._writer.write(head(200, headers))
        await self._writer.drain()

    async def say(self, kind: str, message: Message) -> None:
        self._said += 1
        await self._write({"seq": self._said, "kind": kind, "msg": message})

    async def end(self, done: Done) -> None:
        line: dict[str, object] = {"kind": DONE, "reason": done.reason}
        if done.error is not None:
            line["error"] = done.error
        await self._write(line)
        self._writer.write(chunk(b""))
        await self._writer.drain()

    async def _write(self, line: Mapping[str, object]) -> None:
        self._writer.write(chunk(json.dumps(line).encode() + b"\n"))
        await self._writer.drain()


async def _within(seconds: float, reading: Coroutine[Any, Any, Request | None]) -> Request | None:
    task = asyncio.ensure_future(reading)
    try:
        await asyncio.wait([task], timeout=seconds)
        return task.result() if task.done() else None
    finally:
        task.cancel()


async def _gone(reader: asyncio.StreamReader) -> None:
    """Return when the client has closed its side: whoever asks for a turn reads until its end."""
    with suppress(ConnectionError):
        while await reader.read(4096):
            pass


def _refusal(status: int, message: str) -> bytes:
    return document(status, {"error": {"message": message}})


def complain(text: str) -> None:
    """Write for whoever looks after the machine."""
    print(text, file=sys.stderr, flush=True)
