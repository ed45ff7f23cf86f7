"""The log of a sandbox on the fake node: the node's `log`, and its end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse

if TYPE_CHECKING:
    from tests.support.fake_node.routes import Call


class Cut(Exception):
    """The connection breaks."""


async def _logs(call: Call) -> Response:
    """Each of `log_cuts` breaks one answer off, after so many events."""
    begin = int(call.headers.get("last-event-id", "0"))
    cut = call.node.log_cuts.pop(0) if call.node.log_cuts else None

    async def events() -> AsyncIterator[str]:
        yield ": keepalive\n\n"
        for number, event in list(enumerate(call.node.log, 1))[begin:]:
            if number - begin - 1 == cut:
                raise Cut
            yield f"id: {number}\ndata: {json.dumps(event)}\n\n"
        if call.query["tail"] == "true":
            yield "event: end\ndata: {}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


ROUTES = [("GET", "/logs", _logs)]
