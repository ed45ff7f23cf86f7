"""From errors to answers of `/v3`, all in one envelope (agent-sessions.md section 2.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from opencomputer.server.domain import errors
from opencomputer.server.http.access_log import request_id_of
from opencomputer.server.http.errors import headers_of, status_of

_log = structlog.get_logger(__name__)

# Where /v3 has another word than the rest of the server; errors that are none of these have their own.
_CODES: Mapping[type[errors.OpenComputerError], str] = {
    errors.InvalidInput: "invalid",
    errors.Unauthenticated: "unauthorized",
    errors.IdempotencyMismatch: "idempotency_conflict",
    errors.NotSupported: "not_implemented",
    errors.ConcurrencyLimit: "rate_limited",
    errors.NoCapacity: "unavailable",
    errors.NotReady: "unavailable",
    errors.HostDiskFull: "unavailable",
}
_FRAMEWORK = {404: "not_found", 405: "method_not_allowed", 413: "payload_too_large"}
_EXPECTED = (501, 503, 507)
"""Failures that say nothing about our own code."""


def code_of(error: errors.OpenComputerError) -> str:
    """The word that clients of /v3 know an error by."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return "internal" if status_of(error) >= 500 else error.code


def render_error(connection: HTTPConnection, error: errors.OpenComputerError) -> JSONResponse:
    """The answer for an error. Its details stand beside the message; `field` is `param` here."""
    details = dict(error.details)
    parameter = details.pop("field", None)
    code = code_of(error)
    content: dict[str, Any] = {"type": code, "code": code, "message": error.message}
    if parameter is not None:
        content["param"] = parameter
    content["request_id"] = request_id_of(connection.scope)
    if error.retryable:
        content["retryable"] = True
    headers: dict[str, str] = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    return JSONResponse({"error": {**details, **content}}, status_of(error), headers)


async def _known(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.OpenComputerError)
    status = status_of(error)
    if status >= 500 and status not in _EXPECTED:
        _log.error("request failed", code=error.code, exc_info=error)
    return render_error(request, error)


async def _from_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    texts = {404: "there is no such route", 405: "this method is not allowed here"}
    code = _FRAMEWORK.get(error.status_code, "invalid")
    message = texts.get(error.status_code, str(error.detail))
    content = {"type": code, "code": code, "message": message, "request_id": request_id_of(request.scope)}
    return JSONResponse({"error": content}, error.status_code, headers_of(request, error))


async def _from_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    fault: Mapping[str, Any] = error.errors()[0]
    # The first part says where it stood: query, path or header.
    field = ".".join(str(part) for part in fault["loc"][1:])
    return render_error(request, errors.InvalidInput(f"{field}: {fault['msg']}", field=field))


async def _no_such_route(scope: Scope, receive: Receive, send: Send) -> None:
    error = errors.NotFound("there is no such route")
    if scope["type"] != "websocket":
        await render_error(HTTPConnection(scope), error)(scope, receive, send)
        return
    socket = WebSocket(scope, receive, send)
    await socket.send_denial_response(render_error(socket, error))


async def _gone_away(_request: Request, _error: Exception) -> Response:
    # Nobody reads this answer; 499 is what access logs know as "the client closed the request".
    return Response(status_code=499)


async def _unexpected(request: Request, error: Exception) -> Response:
    _log.error("unexpected error", exc_info=error)
    return render_error(request, errors.OpenComputerError())


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(errors.OpenComputerError, _known)
    app.add_exception_handler(HTTPException, _from_framework)
    app.add_exception_handler(RequestValidationError, _from_validation)
    app.add_exception_handler(ClientDisconnect, _gone_away)
    app.add_exception_handler(Exception, _unexpected)
    app.router.default = _no_such_route
