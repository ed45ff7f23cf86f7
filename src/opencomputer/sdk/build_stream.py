"""Calls whose answer is a build stream: log lines, and at last a result or an error."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from opencomputer.sdk import answers
from opencomputer.sdk.answers import JsonObject
from opencomputer.sdk.callbacks import notify
from opencomputer.sdk.control_plane import Call, ControlPlane
from opencomputer.sdk.errors import BuildFailedError
from opencomputer.sdk.http import httpx

BUILD_SECONDS = 600.0
"""Between two pieces of the stream. A server that works sends something every few seconds."""
_MEDIA_TYPE = "text/event-stream"

LogCallback = Callable[[str], object]
StepCallback = Callable[[int], object]


async def build(
    plane: ControlPlane,
    call: Call,
    on_log: LogCallback | None = None,
    on_step: StepCallback | None = None,
) -> JsonObject:
    """Send the call, tell each line of the build and the number of its step, and return the result.

    Raises BuildFailedError with the server's words, and what every call raises when it is refused at once.
    """
    asking = replace(call, headers={**call.headers, "Accept": _MEDIA_TYPE}, timeout_seconds=BUILD_SECONDS)
    async with plane.stream(asking) as response:
        if _MEDIA_TYPE not in response.headers.get("content-type", ""):
            await response.aread()
            return answers.json_object(answers.parsed(response))
        async for event, data in events(response.aiter_bytes()):
            if event == "build_log":
                await notify(on_step, answers.whole(data, "step") or 0)
                await notify(on_log, answers.text(data, "message"))
            elif event == "error":
                raise BuildFailedError(answers.text(data, "error", "the server gave no reason"))
            elif event == "result":
                return data
    raise BuildFailedError("the stream ended without a result")


async def events(pieces: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, JsonObject]]:
    """The events of a stream, in whatever pieces it comes."""
    rest = b""
    async for piece in pieces:
        *frames, rest = (rest + piece).split(b"\n\n")
        for frame in frames:
            event = _event(frame)
            if event is not None:
                yield event


def _event(frame: bytes) -> tuple[str, JsonObject] | None:
    name, data = "message", b""
    for line in frame.split(b"\n"):
        if line.startswith(b"event: "):
            name = line.removeprefix(b"event: ").decode()
        elif line.startswith(b"data: "):
            data += line.removeprefix(b"data: ")
    if not data:
        return None  # a comment, which only keeps the line open
    try:
        return name, answers.json_object(json.loads(data))
    except ValueError as error:
        raise httpx.RemoteProtocolError("the build stream is no valid JSON") from error
