"""The metadata service at 169.254.169.254: what a machine may know of itself, and its way to a model.

The caller is recognised by its network address, which the firewall does not let it forge. There is no
credential, no host name, nothing about anybody else (behaviour section 25).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opencomputer.server.domain.errors import NotFound, NotReady, OpenComputerError, OperationInProgress
from opencomputer.server.http.body import parse_model, read_body
from opencomputer.server.http.errors import render_error
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sandboxes.gateway import ModelCall
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.scaling import Size
from opencomputer.server.services.sandboxes.usage import UsageReader
from opencomputer.server.services.sessions.tool_calls import OpenDesk
from opencomputer.wire.scaling import Scale, ScaledInsideView

_ENDPOINTS = ("/v1/status", "/v1/limits", "/v1/metadata", "/v1/scale")
_MAX_BODY_BYTES = 4096


def create_metadata_app(services: Services) -> ASGIApp:
    handlers = _Handlers(services)
    routes = [
        Route("/", handlers.index),
        Route("/v1/status", handlers.status),
        Route("/v1/limits", handlers.limits),
        Route("/v1/metadata", handlers.metadata),
        Route("/v1/scale", handlers.scale, methods=["POST"]),
        Route("/v1/model/{provider}/{path:path}", handlers.model, methods=["GET", "POST"]),
        Route("/v1/tools/{token}/mcp", _ToolServer(handlers)),
    ]
    return _OneAnswerEach(
        Starlette(routes=routes, exception_handlers={OpenComputerError: _error, HTTPException: _http_error})
    )


class _OneAnswerEach:
    """Ends a connection with its first answer, so that an idle agent has none.

    Copies of its machine have none to lose then, and on some builds saving it takes only half as long.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_last(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        await self._app(scope, receive, send_last)


async def _error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, OpenComputerError)
    return render_error(error)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail)}, error.status_code, dict(error.headers or {}))


class _Handlers:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._usage = UsageReader(services.clock)

    def _caller(self, request: Request) -> LiveSandbox:
        live = self._services.live.by_address(request.client.host) if request.client else None
        if live is None:
            raise NotFound("no sandbox has this address")
        return live

    async def index(self, request: Request) -> Response:
        self._caller(request)
        return JSONResponse({"endpoints": list(_ENDPOINTS)})

    async def status(self, request: Request) -> Response:
        live = self._caller(request)
        started = live.sandbox.started_at or live.sandbox.created_at
        uptime = (self._services.clock.now() - started).total_seconds()
        return JSONResponse({"sandboxId": live.id, "uptime": int(uptime)})

    async def metadata(self, request: Request) -> Response:
        live = self._caller(request)
        return JSONResponse({"region": self._services.presentation.region, "template": live.sandbox.template})

    async def limits(self, request: Request) -> Response:
        live = self._caller(request)
        reading = await self._usage.read(live)
        body: dict[str, Any] = {
            "cpuPercent": reading.cpu_percent,
            "cpuLimitPercent": 100 * live.sandbox.shape.cpu_count,
            "memUsage": reading.usage.memory_bytes,
            "memLimit": live.sandbox.shape.memory_mb << 20,
            "pids": reading.usage.pids,
            "netInput": reading.usage.network_in_bytes,
            "netOutput": reading.usage.network_out_bytes,
        }
        return JSONResponse(body)

    async def scale(self, request: Request) -> Response:
        live = self._caller(request)
        body = parse_model(Scale, await read_body(request, _MAX_BODY_BYTES))
        try:
            made = await self._services.scaling.scale_live(live, Size(body.memory_mb, body.cpu_percent))
        except OperationInProgress as error:
            raise NotReady(error.message) from error
        shape = made.sandbox.shape
        view = ScaledInsideView(memory_mb=shape.memory_mb, cpu_percent=100 * shape.cpu_count)
        return JSONResponse(view.model_dump())

    def tools(self, request: Request) -> OpenDesk:
        caller = self._caller(request).sandbox
        return self._services.durable.tools.find(caller, request.path_params["token"])

    async def model(self, request: Request) -> Response:
        live, provider = self._caller(request), request.path_params["provider"]
        call = ModelCall(
            method=request.method,
            path=f"/{request.path_params['path']}",
            query=request.url.query,
            headers=list(request.headers.items()),
            body=request.stream(),
        )
        async with AsyncExitStack() as stack:
            models = self._services.durable.models
            answer = await stack.enter_async_context(models.answer(live, provider, call))
            return _Relay(answer.status, list(answer.headers), answer.chunks, stack.pop_all())


class _ToolServer:
    """The tools of a turn, for the brain that works on it."""

    def __init__(self, handlers: _Handlers) -> None:
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        desk = self._handlers.tools(Request(scope))
        serve_tools = await asyncio.to_thread(_tool_endpoint)
        await serve_tools(desk, scope, receive, send)


def _tool_endpoint() -> Callable[[OpenDesk, Scope, Receive, Send], Awaitable[None]]:
    """Loaded when a brain first asks: the protocol's library takes a sixth of a server's start."""
    from opencomputer.server.http.tool_endpoint import serve_tools

    return serve_tools


class _Relay(StreamingResponse):
    """A provider's answer, piece by piece as it comes."""

    def __init__(
        self,
        status: int,
        headers: list[tuple[str, str]],
        chunks: AsyncIterator[bytes],
        resources: AsyncExitStack,
    ) -> None:
        super().__init__(chunks, status)
        self.raw_headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
        self._resources = resources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._resources:
            await super().__call__(scope, receive, send)
