"""A fixed address for tools whose endpoint changes with every request.

Engines connect to their tool servers once, when they start. So they are given this one, which passes every
call on to the endpoint of the request that runs, and refuses calls while none does. Answers go out as a
stream of events that is kept alive: the engines' HTTP clients give up on a call that says nothing for five
minutes, and a command may take ten.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import cast

from .messages import MAX_HEAD_BYTES, Refused, Request, chunk, document, head, read_request
from .posting import Unreachable, post
from .requests import Json

ASK = "ask"
PATH = "/mcp"
ALIVE_SECONDS = 15.0
_PASSED = ("mcp-protocol-version", "accept")
_FAILED = -32000


class ToolRelay:
    """Serves MCP over HTTP on loopback, without sessions."""

    def __init__(self) -> None:
        self._endpoint: str | None = None
        self._asked = False
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{PATH}"

    @property
    def asked(self) -> bool:
        """Whether a question was put to the user since the endpoint was set."""
        return self._asked

    async def open(self) -> None:
        """Listen on a free port. Idempotent."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=2 * MAX_HEAD_BYTES)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._cut()

    @contextmanager
    def to(self, endpoint: str) -> Generator[None]:
        """Pass calls on to `endpoint` until left; calls that are then still in flight are broken off."""
        self._endpoint, self._asked = endpoint, False
        try:
            yield
        finally:
            self._endpoint = None
            for task in self._connections:
                task.cancel()

    async def _cut(self) -> None:
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await read_request(reader)
            if request is None:
                return
            if request.method != "POST":
                raise Refused(405, "there are no sessions and no streams of the server's own")
            message = _message(request.body)
        except Refused as error:
            writer.write(document(error.status, {"error": {"message": str(error)}}))
            await writer.drain()
            return
        if "id" not in message:
            writer.write(head(202, {"content-length": "0"}))
            await writer.drain()
            return
        answering = asyncio.ensure_future(self._answer(request, message, writer))
        leaving = asyncio.ensure_future(_gone(reader))
        try:
            await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)

    async def _answer(
        self, request: Request, message: Mapping[str, Json], writer: asyncio.StreamWriter
    ) -> None:
        headers = {"content-type": "text/event-stream", "cache-control": "no-cache"}
        writer.write(head(200, {**headers, "transfer-encoding": "chunked"}))
        asking = asyncio.ensure_future(self._pass_on(request, message))
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=ALIVE_SECONDS)
                if not asking.done():
                    writer.write(chunk(b": still at it\n\n"))
                    await writer.drain()
        finally:
            asking.cancel()
        data = json.dumps(asking.result()).encode()
        writer.write(chunk(b"event: message\ndata: " + data + b"\n\n") + chunk(b""))
        await writer.drain()

    async def _pass_on(self, request: Request, message: Mapping[str, Json]) -> Mapping[str, Json]:
        endpoint = self._endpoint
        if endpoint is None:
            return _failure(message, "no request is running: tools can only be used within one")
        headers = {name: request.headers[name] for name in _PASSED if name in request.headers}
        try:
            status, body = await post(endpoint, request.body, headers)
            answer = cast("Json", json.loads(body)) if status == 200 else None
        except Unreachable as error:
            return _failure(message, f"the tools cannot be reached: {error}")
        except (ValueError, RecursionError):
            return _failure(message, "the answer of the tools is not valid JSON")
        if not isinstance(answer, dict):
            return _failure(message, f"the tools answered with status {status}")
        self._asked = self._asked or _is_question(message, answer)
        return answer


def _is_question(message: Mapping[str, Json], answer: Mapping[str, Json]) -> bool:
    parameters, result = message.get("params"), answer.get("result")
    return (
        message.get("method") == "tools/call"
        and isinstance(parameters, dict)
        and parameters.get("name") == ASK
        and isinstance(result, dict)
        and result.get("isError") is not True
    )


def _message(body: bytes) -> Mapping[str, Json]:
    try:
        value = cast("Json", json.loads(body))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Refused(400, "the body must be a JSON object")
    return value


def _failure(message: Mapping[str, Json], text: str) -> Mapping[str, Json]:
    return {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": _FAILED, "message": text}}


async def _gone(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(4096):
            pass
