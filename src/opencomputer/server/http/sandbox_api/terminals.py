"""`…/pty`: terminals over HTTP. The socket is in `terminal_socket.py`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from opencomputer.server.domain.machine import ProcessKind, TerminalSize
from opencomputer.server.http.auth import Live, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.server.services.sandboxes.sessions import SIGKILL
from opencomputer.wire.ids import ProcessId
from opencomputer.wire.processes import CreateTerminal, ListedTerminal, ResizeTerminal, TerminalView

router = APIRouter(prefix="/sandboxes/{sandbox_id}/pty")


@router.post("", status_code=201)
async def create(
    live: Live, services: ServicesOf, body: Annotated[CreateTerminal, Depends(json_body(CreateTerminal))]
) -> TerminalView:
    size = TerminalSize(body.columns, body.rows)
    record = await services.sessions.open_terminal(live, size, body.shell)
    return TerminalView(session_id=record.id, sandbox_id=live.id)


@router.get("")
async def list_terminals(live: Live, services: ServicesOf) -> list[ListedTerminal]:
    return [
        ListedTerminal(
            session_id=record.id,
            sandbox_id=live.id,
            # Nobody chose one: the first shell that the machine has.
            command=record.argv[0] if record.argv[1:2] != ("-c",) else "login shell",
            running=record.exit is None,
            started_at=datetime.fromtimestamp(record.started_at, UTC),
            attached_clients=record.attached,
        )
        for record in await services.sessions.terminals(live)
    ]


@router.post("/{session_id}/resize")
async def resize(
    live: Live,
    services: ServicesOf,
    session_id: str,
    body: Annotated[ResizeTerminal, Depends(json_body(ResizeTerminal))],
) -> Response:
    await services.sessions.resize_terminal(
        live, ProcessId(session_id), TerminalSize(body.columns, body.rows)
    )
    return Response()


@router.delete("/{session_id}", status_code=204)
async def end(live: Live, services: ServicesOf, session_id: str) -> Response:
    await services.sessions.kill(live, ProcessId(session_id), SIGKILL, ProcessKind.PTY)
    return Response(status_code=204)
