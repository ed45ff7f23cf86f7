"""Following a log live: replayed from a position, then as it grows, and on after every lost connection."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from opencomputer.sdk.durable.connection import Connection
from opencomputer.sdk.durable.events import SessionEvent, matches, read_event
from opencomputer.sdk.errors import RateLimitError, UnavailableError, UnexpectedAnswerError
from opencomputer.sdk.http import httpx

RECONNECT_SECONDS = 1.0


@dataclass(frozen=True)
class Following:
    """Which events, from where, and whether a lost connection is made anew."""

    path: str
    level: str = "internal"
    type: str | None = None
    after: int = 0
    reconnect: bool = True


async def follow(connection: Connection, wanted: Following) -> AsyncGenerator[SessionEvent]:
    """Every event after the position, each once and in order, for as long as it is asked.

    The first opening fails as any call does. After that a lost connection, or a server that is not ready, is
    waited out; what a server refuses for good (`AuthError` when a token is over, say) is raised.
    """
    after = wanted.after
    opened = False
    while True:
        delay = RECONNECT_SECONDS
        try:
            params = {"level": wanted.level, "type": wanted.type}
            async with connection.stream(wanted.path, params, after) as response:
                opened = True
                async with aclosing(frames(response.aiter_bytes())) as received:
                    async for data in received:
                        event = _event(data)
                        if event.seq <= after:
                            continue  # sent once more, because its frame was not known to have arrived
                        after = event.seq
                        if matches(event, wanted.type):
                            yield event
        except httpx.TransportError:
            if not (opened and wanted.reconnect):
                raise
        except (RateLimitError, UnavailableError) as error:
            if not (opened and wanted.reconnect):
                raise
            delay = max(delay, min(error.retry_after_seconds or 0, 60))
        if not wanted.reconnect:
            return
        await connection.options.sleep(delay)


async def frames(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """The data of each complete frame, in whatever pieces it comes; one that is cut off does not count."""
    rest = b""
    async for piece in pieces:
        # A CR at the end may be half of a CRLF: looked at again with what follows.
        text = (rest + piece).replace(b"\r\n", b"\n")
        *complete, rest = text.split(b"\n\n")
        for frame in complete:
            lines = (line for line in frame.split(b"\n") if line.startswith(b"data:"))
            data = b"\n".join(line[5:].removeprefix(b" ") for line in lines)
            if data:
                yield data


def _event(data: bytes) -> SessionEvent:
    try:
        return read_event(json.loads(data))
    except ValueError as error:
        raise UnexpectedAnswerError("an event in the stream is no JSON") from error
