"""What browsers need of /v3: any page may call it, with a token that the page itself holds."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
_HEADERS = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-API-Key"
_EXPOSED = "Retry-After, X-Request-Id"
_PREFLIGHT_SECONDS = "600"


class CrossOrigin:
    """Plain ASGI around everything, so that failures carry these headers, too; else pages cannot read them.

    No cookies are in play, so any origin may be answered. Addresses of streams hold tokens: pages must not
    tell them to others.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")

        async def send_open(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer["Referrer-Policy"] = "no-referrer"
                answer.add_vary_header("Origin")
                if origin is not None:
                    answer["Access-Control-Allow-Origin"] = origin
                    answer["Access-Control-Expose-Headers"] = _EXPOSED
            await send(message)

        if scope["method"] == "OPTIONS" and origin is not None:
            await _preflight()(scope, receive, send_open)
            return
        await self._app(scope, receive, send_open)


def _preflight() -> Response:
    return Response(
        status_code=204,
        headers={
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": _HEADERS,
            "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
        },
    )
