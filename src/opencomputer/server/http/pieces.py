"""What answers that go on and on have in common: sent in pieces, until nobody listens."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.types import Receive, Send


async def send_piece(send: Send, piece: bytes) -> None:
    """Send one more piece of an answer that is not over."""
    await send({"type": "http.response.body", "body": piece, "more_body": True})


async def until_gone(receive: Receive) -> None:
    """Return once the client has left."""
    with suppress(OSError):
        while (await receive())["type"] != "http.disconnect":
            pass


async def for_ever() -> None:
    await asyncio.Event().wait()
