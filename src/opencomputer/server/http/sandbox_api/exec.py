"""`…/exec`: one-shot commands and exec sessions over HTTP. The socket is in `exec_socket.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import JSONResponse, Response, StreamingResponse

from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.http import render
from opencomputer.server.http.auth import Live, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.server.http.sandbox_api.sandboxes import idempotency_key
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sandboxes.commands import INLINE_SECONDS, CommandRequest, Progress
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.wire.ids import ProcessId
from opencomputer.wire.processes import (
    CommandAccepted,
    CommandProgress,
    CommandResult,
    RunCommand,
    SessionView,
    Signal,
    StartSession,
)

router = APIRouter(prefix="/sandboxes/{sandbox_id}")

# Clients and proxies give up on a silent connection after 20 to 100 seconds.
_HEARTBEAT_SECONDS = 15.0

RunBody = Annotated[RunCommand, Depends(json_body(RunCommand))]
IdempotencyKey = Annotated[str | None, Depends(idempotency_key)]


def _command(body: RunCommand, key: str | None) -> CommandRequest:
    return CommandRequest(
        command=body.cmd,
        arguments=body.args,
        environment=body.envs,
        cwd=body.cwd,
        timeout_seconds=body.timeout,
        idempotency_key=key,
    )


@router.post("/exec/run", response_model=CommandResult)
@router.post("/commands", response_model=CommandResult, include_in_schema=False)
async def run(live: Live, services: ServicesOf, body: RunBody, key: IdempotencyKey) -> Response:
    """Answers when the command has ended. A long command is answered at once with white space, which JSON
    allows before a document, so that no intermediary takes the silence for a dead connection."""
    progress = await services.commands.start(live, _command(body, key))
    progress = await services.commands.wait(live, progress, _HEARTBEAT_SECONDS)
    if progress.exit is not None:
        return _result(progress, body.timeout)
    return StreamingResponse(
        _patiently(live, services, progress, body.timeout), media_type="application/json"
    )


def _result(progress: Progress, timeout_seconds: int | None) -> Response:
    result = render.command_result(progress, timeout_seconds)
    return JSONResponse(result.model_dump(by_alias=True, exclude_none=True))


async def _patiently(
    live: LiveSandbox, services: Services, progress: Progress, timeout_seconds: int | None
) -> AsyncIterator[bytes]:
    try:
        while progress.exit is None:
            yield b" "
            progress = await services.commands.wait(live, progress, _HEARTBEAT_SECONDS)
        result = render.command_result(progress, timeout_seconds)
    except OpenComputerError as error:
        # The status is out already: what is left to say goes into a complete result.
        result = render.command_failure(error.message)
    yield result.model_dump_json(by_alias=True, exclude_none=True).encode()


@router.post("/exec/run-async", response_model=CommandResult, responses={202: {"model": CommandAccepted}})
async def run_async(live: Live, services: ServicesOf, body: RunBody, key: IdempotencyKey) -> Response:
    progress = await services.commands.start(live, _command(body, key))
    progress = await services.commands.wait(live, progress, INLINE_SECONDS)
    if progress.exit is not None:
        return _result(progress, body.timeout)
    accepted = CommandAccepted(exec_id=progress.id, started_at=progress.started_at)
    return JSONResponse(accepted.model_dump(mode="json", by_alias=True), 202)


@router.get("/exec/{exec_id}/result", response_model_exclude_none=True)
async def result(live: Live, services: ServicesOf, exec_id: str) -> CommandProgress:
    return render.command_progress(await services.commands.result(live, ProcessId(exec_id)))


@router.post("/exec", status_code=201, response_model_exclude_none=True)
async def start(
    live: Live,
    services: ServicesOf,
    body: Annotated[StartSession, Depends(json_body(StartSession))],
    key: IdempotencyKey,
) -> SessionView:
    request = CommandRequest(
        command=body.cmd,
        arguments=body.args,
        environment=body.envs,
        cwd=body.cwd,
        timeout_seconds=body.timeout,
        linger_seconds=body.max_run_after_disconnect,
        idempotency_key=key,
    )
    return render.session(live.id, await services.sessions.start(live, request))


@router.get("/exec", response_model_exclude_none=True)
async def list_sessions(live: Live, services: ServicesOf) -> list[SessionView]:
    return [render.session(live.id, record) for record in await services.sessions.list(live)]


@router.post("/exec/{session_id}/kill", status_code=204)
async def kill(
    live: Live,
    services: ServicesOf,
    session_id: str,
    body: Annotated[Signal, Depends(json_body(Signal))],
) -> Response:
    await services.sessions.kill(live, ProcessId(session_id), body.signal)
    return Response(status_code=204)
