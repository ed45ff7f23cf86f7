"""`…/pty/{sid}` as a WebSocket: terminal bytes both ways, no framing (sandbox-wire.md section 8).

Beyond the contract, `?offset=` asks for what was retained of the output from there on: 0 for all of it.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

from fastapi import APIRouter
from starlette.websockets import WebSocket

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.machine import ExitStatus, ProcessKind
from opencomputer.server.http.auth import caller_of, live_sandbox, services_of
from opencomputer.server.http.streams import (
    MAX_PAYLOAD,
    NORMAL,
    CloseSocket,
    refusing_upgrade,
    run_until_one_ends,
    translating_loss,
    until_ended,
)
from opencomputer.server.services.sandboxes.sessions import SessionAttachment
from opencomputer.wire.ids import ProcessId

_MOST_DIGITS = 18

router = APIRouter(prefix="/sandboxes/{sandbox_id}")


@router.websocket("/pty/{session_id}")
async def attach(websocket: WebSocket, session_id: str) -> None:
    async with refusing_upgrade(websocket), AsyncExitStack() as stack:
        caller = await caller_of(websocket)
        live = await live_sandbox(websocket, caller)
        sessions = services_of(websocket).sessions
        record = await sessions.get(live, ProcessId(session_id), ProcessKind.PTY)
        offset = _offset(websocket.query_params.get("offset", ""))
        opening = sessions.attach_terminal(live, ProcessId(record.id), offset)
        attachment = await stack.enter_async_context(opening)
        await websocket.accept()
        async with translating_loss(live):
            await run_until_one_ends(
                _write(websocket, attachment),
                _read(websocket, attachment),
                until_ended(websocket, live, caller),
            )


def _offset(text: str) -> int | None:
    """How many bytes of the terminal a client has seen that comes back; nothing: those nobody has seen."""
    if text and not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise InvalidInput("offset: must be a whole number", field="offset")
    return int(text) if text else None


async def _write(websocket: WebSocket, attachment: SessionAttachment) -> None:
    async for event in attachment:
        if isinstance(event, ExitStatus):
            raise CloseSocket(NORMAL, "the terminal's program ended")
        for start in range(0, len(event.data), MAX_PAYLOAD):
            await websocket.send_bytes(event.data[start : start + MAX_PAYLOAD])
    raise CloseSocket(NORMAL, "another client took this terminal over")


async def _read(websocket: WebSocket, attachment: SessionAttachment) -> None:
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        text = message.get("text")
        data = text.encode() if text is not None else message.get("bytes") or b""
        if data:
            await attachment.write(data)
