"""One log line and one id per request. What may be a credential is not logged: queries, tokens of hooks."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import MutableMapping
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = structlog.get_logger(__name__)
_HOOK_TOKEN = re.compile(r"(^/a/[^/]*/+hooks/+|ochk_)[^/]+")
_KEY = "opencomputer.request_id"


def request_id_of(scope: MutableMapping[str, Any]) -> str:
    """The id of this request, as the answer's header X-Request-Id has it."""
    return scope[_KEY]


class AccessLog:
    """Plain ASGI, so that bodies stream through untouched."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self._app = app
        self._seconds = Histogram(
            "opencomputer_request_seconds",
            "Time to the end of the answer",
            ["method", "route", "status"],
            registry=registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = scope[_KEY] = f"req_{uuid.uuid4().hex}"
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            self._record(scope, request_id, status, time.perf_counter() - began)

    def _record(self, scope: MutableMapping[str, Any], request_id: str, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        self._seconds.labels(scope["method"], route, str(status)).observe(seconds)
        _log.info(
            "request",
            method=scope["method"],
            path=_HOOK_TOKEN.sub(r"\1…", scope["path"]),
            status=status,
            milliseconds=round(seconds * 1000, 1),
            request_id=request_id,
        )
