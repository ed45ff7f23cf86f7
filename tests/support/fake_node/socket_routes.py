"""WebSocket routes of the fake."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from opencomputer.wire import frames

if TYPE_CHECKING:
    from tests.support.fake_node.routes import Call
    from tests.support.fake_node.sessions import FakeSession
    from tests.support.fake_node.terminal import FakeTerminal

_GOING_AWAY = 1001


async def follow_session(call: Call, websocket: WebSocket) -> None:
    """Replay, end of scrollback, live output, exit, close."""
    session = call.sandbox.sessions.get(call.params["sid"])
    if session is None:
        await _not_found(websocket)
        return
    await websocket.accept()
    reader = asyncio.create_task(_feed(websocket, session))
    with suppress(WebSocketDisconnect, RuntimeError):
        async for frame in session.follow():
            await websocket.send_bytes(frames.encode(*frame))
        if session.drop_followers:
            await websocket.close(_GOING_AWAY)
        elif session.exit_code is not None:
            await websocket.send_bytes(frames.encode_exit(session.exit_code))
            await websocket.close(1000)
    reader.cancel()


async def follow_terminal(call: Call, websocket: WebSocket) -> None:
    """Raw bytes both ways until the program ends."""
    terminal = call.sandbox.terminals.get(call.params["sid"])
    if terminal is None:
        await _not_found(websocket)
        return
    await websocket.accept()
    reader = asyncio.create_task(_type(websocket, terminal))
    with suppress(WebSocketDisconnect, RuntimeError):
        while data := await terminal.output.get():
            await websocket.send_bytes(data)
        await websocket.close(1000)
    reader.cancel()


async def _not_found(websocket: WebSocket) -> None:
    refusal = JSONResponse({"error": "There is no such session.", "code": "not_found"}, 404)
    await websocket.send_denial_response(refusal)


async def _feed(websocket: WebSocket, session: FakeSession) -> None:
    with suppress(WebSocketDisconnect):
        while True:
            frame = frames.decode(await websocket.receive_bytes())
            if frame and frame.channel == frames.STDIN:
                await session.feed(frame.payload)


async def _type(websocket: WebSocket, terminal: FakeTerminal) -> None:
    with suppress(WebSocketDisconnect):
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            terminal.type(message.get("bytes") or (message.get("text") or "").encode())
