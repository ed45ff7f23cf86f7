"""The tools of a turn as an MCP server: what a brain says is translated, and nothing of it is decided here.

Streamable HTTP without sessions: each request is answered by itself, in JSON. A connection that waits long
for an answer gets blanks meanwhile, which JSON lets stand in front, because clients give up on silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opencomputer.server.services.sessions.tool_calls import OpenDesk, ToolRequest
from opencomputer.server.services.sessions.tool_kinds import TOOLS

_SERVER_NAME = "opencomputer"
_MAX_REQUEST_BYTES = 16 << 20
_READING_SECONDS = 30.0
_SILENCE_SECONDS = 15.0

_Context = ServerRequestContext[Any, Any]


async def serve_tools(desk: OpenDesk, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one HTTP request of a brain to its tools."""
    if scope["method"] != "POST":
        # There is nothing to listen for, and no session to end.
        await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
        return
    server = Server(_SERVER_NAME, version="1", on_list_tools=_list_tools, on_call_tool=_calling(desk))
    manager = StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=_MAX_REQUEST_BYTES
    )
    async with manager.run():
        await _Patient(manager.handle_request, _SILENCE_SECONDS)(scope, receive, send)


async def _list_tools(_context: _Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
    tools = [
        Tool(name=kind.name, description=kind.description, input_schema=dict(kind.schema))
        for kind in TOOLS.values()
    ]
    return ListToolsResult(tools=tools)


def _calling(desk: OpenDesk) -> Any:
    async def call(context: _Context, params: CallToolRequestParams) -> CallToolResult:
        meta: Mapping[str, Any] = context.meta or {}
        request = ToolRequest(context.request_id, params.name, params.arguments or {}, dict(meta))
        answer = await desk.call(request)
        return CallToolResult(content=[TextContent(type="text", text=answer.text)], is_error=answer.is_error)

    return call


class _Patient:
    """Waits for a request only so long, and lets its answer take as long as it takes."""

    def __init__(self, app: ASGIApp, silence_seconds: float) -> None:
        self._app = app
        self._silence_seconds = silence_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send)
        body_read = asyncio.Event()

        async def receive_in_time() -> Message:
            if body_read.is_set():
                return await receive()
            try:
                async with asyncio.timeout(_READING_SECONDS):
                    message = await receive()
            except TimeoutError:
                message = {"type": "http.disconnect"}
            if not message.get("more_body", False):
                body_read.set()
            return message

        async def fill() -> None:
            await body_read.wait()
            while True:
                await asyncio.sleep(self._silence_seconds)
                await answer.fill()

        filling = asyncio.create_task(fill())
        try:
            await self._app(scope, receive_in_time, answer.send)
        finally:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)


class _Answer:
    """What goes out: the answer of the application, after blanks where those had to come first."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._sending = asyncio.Lock()
        self._begun = False
        self._filled = False

    async def send(self, message: Message) -> None:
        async with self._sending:
            self._begun = True
            if not (self._filled and message["type"] == "http.response.start"):
                await self._send(message)

    async def fill(self) -> None:
        async with self._sending:
            if self._begun:
                return
            if not self._filled:
                headers = [(b"content-type", b"application/json")]
                await self._send({"type": "http.response.start", "status": 200, "headers": headers})
                self._filled = True
            await self._send({"type": "http.response.body", "body": b" ", "more_body": True})
