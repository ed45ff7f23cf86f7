"""The one table from errors to answers, in the contract's shape (sandbox-wire.md section 1.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from opencomputer.server.domain import errors
from opencomputer.server.domain.sessions.errors import PayloadTooLarge, Unprocessable, UnsupportedMediaType
from opencomputer.server.http.activity import used_by

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_log = structlog.get_logger(__name__)

STATUS: Mapping[type[errors.OpenComputerError], int] = {
    errors.OpenComputerError: 500,
    errors.InvalidInput: 400,
    errors.Unauthenticated: 401,
    errors.PlanLimit: 402,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.RangeNotSatisfiable: 416,
    errors.Gone: 410,
    errors.Conflict: 409,
    errors.ConcurrencyLimit: 429,
    errors.RateLimited: 429,
    errors.NoCapacity: 503,
    errors.NotReady: 503,
    errors.LogsOff: 503,
    errors.NotSupported: 501,
    errors.StartFailed: 500,
    errors.MachineLost: 410,
    errors.SnapshotRefused: 409,
    errors.GuestFault: 502,
    errors.NothingListens: 502,
    errors.ProgramFault: 502,
    errors.ProgramSilent: 504,
    errors.DiskFull: 507,
    errors.HostDiskFull: 507,
    # Waiting does not bring back what is missing or damaged.
    errors.ArtefactMissing: 500,
    errors.ArtefactDamaged: 500,
    errors.SecretUnreadable: 500,
    PayloadTooLarge: 413,
    UnsupportedMediaType: 415,
    Unprocessable: 422,
}


def status_of(error: errors.OpenComputerError) -> int:
    """The status of the nearest class in the table."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def render_error(error: errors.OpenComputerError) -> JSONResponse:
    body: dict[str, Any] = {"error": error.message, "code": error.code, **error.details}
    if error.retryable:
        body["retryable"] = True
    headers: dict[str, str] = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    return JSONResponse(body, status_of(error), headers)


async def _known(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.OpenComputerError)
    live = used_by(request)
    if live is not None:
        error = live.explain(error)
    status = status_of(error)
    if status >= 500 and status not in (501, 503, 507):
        _log.error("request failed", code=error.code, exc_info=error)
    return render_error(error)


def allowed_methods(request: Request) -> str:
    """Every method of a path, whichever routes have it: each knows only its own."""
    routes = request.app.router.routes
    scopes = {method: {**request.scope, "method": method} for method in _METHODS}
    return ", ".join(
        method
        for method, scope in scopes.items()
        if any(route.matches(scope)[0] is Match.FULL for route in routes)
    )


def headers_of(request: Request, error: HTTPException) -> dict[str, str]:
    """Those of an answer to what the framework refuses."""
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = allowed_methods(request)
    return headers


async def _from_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    texts = {404: "there is no such route", 405: "this method is not allowed here"}
    codes = {404: "not_found", 405: "method_not_allowed"}
    body = {
        "error": texts.get(error.status_code, str(error.detail)),
        "code": codes.get(error.status_code, "invalid_request"),
    }
    return JSONResponse(body, error.status_code, headers_of(request, error))


async def no_such_route(scope: Scope, receive: Receive, send: Send) -> None:
    """What answers where no route does; sockets are refused as plain HTTP, too."""
    error = errors.NotFound("there is no such route")
    if scope["type"] != "websocket":
        await render_error(error)(scope, receive, send)
        return
    await WebSocket(scope, receive, send).send_denial_response(render_error(error))


async def _gone_away(_request: Request, _error: Exception) -> Response:
    # Nobody reads this answer; 499 is what access logs know as "the client closed the request".
    return Response(status_code=499)


async def _unexpected(_request: Request, error: Exception) -> Response:
    _log.error("unexpected error", exc_info=error)
    return render_error(errors.OpenComputerError())


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(errors.OpenComputerError, _known)
    app.add_exception_handler(HTTPException, _from_framework)
    app.add_exception_handler(ClientDisconnect, _gone_away)
    app.add_exception_handler(Exception, _unexpected)
    app.router.default = no_such_route
