"""A log as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opencomputer.server.domain.log_lines import LogLine, LogQuery
from opencomputer.server.http.pieces import send_piece, until_gone
from opencomputer.server.http.streams import run_until_one_ends
from opencomputer.server.services.sandboxes.logs import Logs, OpenLog
from opencomputer.wire.ids import OrgId, SandboxId
from opencomputer.wire.logs import LOG_END, LogEvent

KEEPALIVE_SECONDS = 15.0
_KEEPALIVE = b": keepalive\n\n"
_END = f"event: {LOG_END}\ndata: {{}}\n\n".encode()
_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
_LINES_IN_A_PIECE = 200


@dataclass(frozen=True)
class Wanted:
    """What of which log, until `until_revoked` returns. Without `tail` the answer ends with the history."""

    org_id: OrgId
    sandbox_id: SandboxId
    query: LogQuery
    tail: bool
    until_revoked: Callable[[], Coroutine[Any, Any, None]]


class LogStream(Response):
    """Lasts until the client leaves, or may no longer read it.

    After the end of the sandbox it says so, and stays: a browser that was cut off would come back for more.
    """

    def __init__(self, logs: Logs, wanted: Wanted, *, keepalive_seconds: float = KEEPALIVE_SECONDS) -> None:
        super().__init__(headers=_HEADERS, media_type="text/event-stream; charset=utf-8")
        del self.headers["content-length"]
        self._logs = logs
        self._wanted = wanted
        self._keepalive_seconds = keepalive_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = self._wanted
        async with self._logs.open(wanted.org_id, wanted.sandbox_id, wanted.query) as log:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await run_until_one_ends(
                self._tell(log, send), until_gone(receive), self._logs.closed(), wanted.until_revoked()
            )
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, log: OpenLog, send: Send) -> None:
        await _send_lines(send, log.history)
        if not self._wanted.tail:
            return
        await send_piece(send, _KEEPALIVE)
        while (lines := await log.tail.next(self._keepalive_seconds)) is not None:
            await _send_lines(send, lines)
            if not lines:
                await send_piece(send, _KEEPALIVE)
        await send_piece(send, _END)
        while True:
            await asyncio.sleep(self._keepalive_seconds)
            await send_piece(send, _KEEPALIVE)


async def _send_lines(send: Send, lines: Sequence[LogLine]) -> None:
    for start in range(0, len(lines), _LINES_IN_A_PIECE):
        piece = b"".join(_frame(line) for line in lines[start : start + _LINES_IN_A_PIECE])
        await send_piece(send, piece)


def _frame(line: LogLine) -> bytes:
    """JSON escapes what could end the line."""
    event = LogEvent(
        _time=line.at,
        source=line.source.value,
        line=line.line,
        path=line.path,
        exec_id=line.exec_id,
        command=line.command[0] if line.command else None,
        argv=list(line.command[1:]) if line.command else None,
        exit_code=line.exit_code,
        lost=line.lost or None,
    )
    return f"id: {line.number}\ndata: {event.model_dump_json()}\n\n".encode(errors="replace")
