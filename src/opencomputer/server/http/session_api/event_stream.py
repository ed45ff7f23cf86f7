"""The log as a stream, framed as browsers and published clients read it (agent-sessions.md section 3.13)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opencomputer.server.domain.sessions.events import EventFilter
from opencomputer.server.http.pieces import send_piece, until_gone
from opencomputer.server.http.streams import run_until_one_ends
from opencomputer.server.services.sessions.log import Reader, SessionLog
from opencomputer.server.services.sessions.tail import Line
from opencomputer.wire.ids import SessionId

HEARTBEAT_SECONDS = 12.0
_HEARTBEAT = b": hb\n\n"
_OPENING = b"retry: 2000\n\n" + _HEARTBEAT
_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
_PIECE_BYTES = 64 << 10
_LAST_WORD_SECONDS = 1.0


@dataclass(frozen=True)
class Following:
    """What a stream tells, until `until_revoked` returns, and for so many seconds; None is for good."""

    session_id: SessionId
    wanted: EventFilter
    after: int
    until_revoked: Callable[[], Coroutine[Any, Any, None]]
    seconds: float | None = None


def frame(line: Line) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (line.event.seq, line.json)


class EventStream(Response):
    """Tells every event once and in order, until the client leaves, may read no more, or the node stops."""

    def __init__(
        self, log: SessionLog, following: Following, *, heartbeat_seconds: float = HEARTBEAT_SECONDS
    ) -> None:
        super().__init__(headers=_HEADERS, media_type="text/event-stream; charset=utf-8")
        del self.headers["content-length"]
        self._log = log
        self._following = following
        self._heartbeat_seconds = heartbeat_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        following = self._following
        with self._log.reading(following.session_id, following.wanted, following.after) as reader:
            await run_until_one_ends(
                self._tell(reader, send),
                until_gone(receive),
                self._log.closed(),
                following.until_revoked(),
                seconds=following.seconds,
            )
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_LAST_WORD_SECONDS):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, reader: Reader, send: Send) -> None:
        clock = asyncio.get_running_loop()
        await send_piece(send, _OPENING)
        told_at = clock.time()
        while True:
            lines = await reader.next()
            for piece in pieces(lines):
                await send_piece(send, piece)
                told_at = clock.time()
            quiet = told_at + self._heartbeat_seconds - clock.time()
            if quiet <= 0 or not await reader.wait(quiet):
                await send_piece(send, _HEARTBEAT)
                told_at = clock.time()


def pieces(lines: Iterable[Line]) -> list[bytes]:
    """Frames, several to a piece where they are small."""
    joined: list[bytes] = []
    piece = bytearray()
    for line in lines:
        piece += frame(line)
        if len(piece) >= _PIECE_BYTES:
            joined.append(bytes(piece))
            piece.clear()
    if piece:
        joined.append(bytes(piece))
    return joined
