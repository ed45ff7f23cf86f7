"""What sockets and streams share: refusing before the upgrade, and ending for one of several reasons."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from opencomputer.server.domain.access import Caller
from opencomputer.server.domain.errors import MachineLost, OpenComputerError
from opencomputer.server.http.auth import services_of
from opencomputer.server.http.errors import render_error
from opencomputer.server.services.sandboxes.live import Ending, LiveSandbox

# Clients come back by themselves after 1001, 1011 and 1012, and after no other code (behaviour 12.11).
NORMAL, POLICY, INTERNAL, COME_BACK = 1000, 1008, 1011, 1012
MAX_PAYLOAD = 32 * 1024
# In bytes: a control frame holds no more.
_LONGEST_REASON = 123


class CloseSocket(Exception):
    """Ends a socket with a code and a reason."""

    def __init__(self, code: int, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(reason)


@asynccontextmanager
async def refusing_upgrade(websocket: WebSocket) -> AsyncGenerator[None]:
    """Errors before the upgrade are plain HTTP answers; an error after it closes the socket."""
    try:
        yield
    except CloseSocket as closing:
        await _close(websocket, closing.code, closing.reason)
    except WebSocketDisconnect:
        pass
    except OpenComputerError as error:
        if websocket.client_state is WebSocketState.CONNECTING:
            answer = render_error(error)
            await websocket.send_denial_response(answer)
        else:
            await _close(websocket, INTERNAL, error.message)


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    # The client may be gone already, which is as good as closed.
    with suppress(RuntimeError, WebSocketDisconnect):
        await websocket.close(code, reason.encode()[:_LONGEST_REASON].decode(errors="ignore"))


async def run_until_one_ends(*parts: Coroutine[Any, Any, Any], seconds: float | None = None) -> None:
    """Run parts of one conversation; the first to end, or the end of the time, ends the others.

    The error of the one that ended is raised.
    """
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        # The one that has the most to say comes first: parts are given in that order.
        for task in tasks:
            if task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until_ended(websocket: WebSocket, live: LiveSandbox, caller: Caller) -> None:
    """Raise CloseSocket when the sandbox ends, moves on, or the caller's key is revoked."""
    revoked = asyncio.ensure_future(services_of(websocket).access.until_revoked(caller))
    ended = asyncio.ensure_future(live.ended.wait())
    try:
        await asyncio.wait([revoked, ended], return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise ended_reason(live)
        raise CloseSocket(POLICY, "the credential was revoked")
    finally:
        revoked.cancel()
        ended.cancel()


def ended_reason(live: LiveSandbox) -> CloseSocket:
    # Only where coming back helps now: a client must not wake a sandbox that has just gone to sleep.
    code = COME_BACK if live.ending is Ending.HANDED_ON else NORMAL
    return CloseSocket(code, live.ending)


@asynccontextmanager
async def translating_loss(live: LiveSandbox) -> AsyncGenerator[None]:
    """A machine that ends under a socket is the sandbox's end, whoever notices it first."""
    try:
        yield
    except MachineLost as error:
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await live.ended.wait()
        if live.ended.is_set():
            raise ended_reason(live) from error
        raise CloseSocket(INTERNAL, error.message) from error
