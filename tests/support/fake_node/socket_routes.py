"""WebSocket routes of the fake."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

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
    await _both(_replay_and_follow(websocket, session), _feed(websocket, session))


async def follow_terminal(call: Call, websocket: WebSocket) -> None:
    """Raw bytes both ways until the program ends."""
    terminal = call.sandbox.terminals.get(call.params["sid"])
    if terminal is None:
        await _not_found(websocket)
        return
    if terminal.not_ready:
        await websocket.send_denial_response(JSONResponse({"error": "Not yet.", "code": "not_ready"}, 503))
        return
    terminal.link_broken = False
    await websocket.accept()
    if "offset" in call.query:
        await _replay(websocket, terminal, int(call.query["offset"]))
    await _both(_show(websocket, terminal), _type(websocket, terminal))


async def _both(out: Coroutine[Any, Any, None], into: Coroutine[Any, Any, None]) -> None:
    """Run both directions until either ends, which ends the other."""
    tasks = [asyncio.create_task(out), asyncio.create_task(into)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _replay_and_follow(websocket: WebSocket, session: FakeSession) -> None:
    async for frame in session.follow():
        await websocket.send_bytes(frames.encode(*frame))
    if session.drop_followers:
        await websocket.close(_GOING_AWAY)
    elif session.exit_code is not None:
        await websocket.send_bytes(frames.encode_exit(session.exit_code))
        await websocket.close(1000)


async def _show(websocket: WebSocket, terminal: FakeTerminal) -> None:
    while data := await terminal.output.get():
        await websocket.send_bytes(data)
    await websocket.close(_GOING_AWAY if terminal.link_broken else 1000)


async def _replay(websocket: WebSocket, terminal: FakeTerminal, offset: int) -> None:
    while not terminal.output.empty():
        terminal.output.get_nowait()
    if missed := terminal.history[offset:]:
        await websocket.send_bytes(missed)


async def _not_found(websocket: WebSocket) -> None:
    refusal = JSONResponse({"error": "There is no such session.", "code": "not_found"}, 404)
    await websocket.send_denial_response(refusal)


async def _feed(websocket: WebSocket, session: FakeSession) -> None:
    with suppress(WebSocketDisconnect):
        while True:
            frame = frames.decode(await websocket.receive_bytes())
            if frame and frame.channel == frames.STDIN:
                await session.feed(frame.payload)
            if frame and frame.channel == frames.STDIN_END:
                session.end_input()


async def _type(websocket: WebSocket, terminal: FakeTerminal) -> None:
    with suppress(WebSocketDisconnect):
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            terminal.type(message.get("bytes") or (message.get("text") or "").encode())
