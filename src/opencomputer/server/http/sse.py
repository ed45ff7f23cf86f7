"""The build stream: server-sent events as the contract's clients parse them (sandbox-wire.md section 1.8).

They split at two line feeds and match the words `event: ` and `data: ` to the letter.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

import structlog
from fastapi import Request
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.http.pieces import send_piece, until_gone
from opencomputer.server.services.sandboxes.build_log import BuildLine, Listener
from opencomputer.wire.images import BUILD_LOG, ERROR, RESULT, BuildLogEvent

_log = structlog.get_logger(__name__)

MEDIA_TYPE = "text/event-stream"
KEEPALIVE_SECONDS = 10.0
_KEEPALIVE = b": keepalive\n\n"
_WAITING_FRAMES = 64
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

Result = TypeVar("Result", bound=BaseModel)
Work = Callable[[Listener], Awaitable[Result]]


def wants_stream(request: Request) -> bool:
    return request.headers.get("accept", "").strip().lower() == MEDIA_TYPE


def frame(event: str, data: Mapping[str, object]) -> bytes:
    """One event on one line of data: escaped, so that nothing in it can end the line."""
    return f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


class BuildStream(Response, Generic[Result]):
    """Tells what `work` says, and how it ends. Everything that can be refused has to be refused before.

    When the client leaves, the work is cancelled; a result that it did not get any more is handed to `undo`.
    """

    def __init__(
        self,
        work: Work[Result],
        undo: Callable[[Result], Awaitable[None]] | None = None,
        *,
        keepalive_seconds: float = KEEPALIVE_SECONDS,
    ) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers=_HEADERS)
        del self.headers["content-length"]
        self._work = work
        self._undo = undo
        self._keepalive_seconds = keepalive_seconds
        self._undelivered: Result | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        frames: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING_FRAMES)
        producing = asyncio.create_task(self._produce(frames))
        leaving = asyncio.create_task(until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._relay(frames, leaving, send)
        finally:
            for task in (producing, leaving):
                task.cancel()
            await asyncio.gather(producing, leaving, return_exceptions=True)
            if self._undelivered is not None and self._undo is not None:
                await asyncio.shield(self._undo(self._undelivered))

    async def _relay(
        self, frames: asyncio.Queue[bytes | None], leaving: asyncio.Task[None], send: Send
    ) -> None:
        taking = asyncio.ensure_future(frames.get())
        try:
            while not leaving.done():
                done, _ = await asyncio.wait(
                    [taking, leaving], timeout=self._keepalive_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                if taking not in done:
                    if not leaving.done():
                        await send_piece(send, _KEEPALIVE)
                    continue
                piece = taking.result()
                if piece is None:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    self._undelivered = None
                    return
                await send_piece(send, piece)
                taking = asyncio.ensure_future(frames.get())
        finally:
            taking.cancel()

    async def _produce(self, frames: asyncio.Queue[bytes | None]) -> None:
        async def say(line: BuildLine) -> None:
            event = BuildLogEvent(step=line.step, type=line.type, message=line.message)
            await frames.put(frame(BUILD_LOG, event.model_dump(by_alias=True)))

        try:
            result = self._undelivered = await self._work(say)
            last = frame(RESULT, result.model_dump(mode="json", by_alias=True, exclude_none=True))
        except OpenComputerError as error:
            last = frame(ERROR, {"error": error.message, "code": error.code})
        except Exception as error:
            # The top of a task: the client has to learn that nothing comes any more.
            _log.error("unexpected error", exc_info=error)
            unexpected = OpenComputerError()
            last = frame(ERROR, {"error": unexpected.message, "code": unexpected.code})
        await frames.put(last)
        await frames.put(None)
