"""Serves a model provider on loopback, for programs that reach their model over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass, field
from typing import Any, cast

import uvicorn

from opencomputer.server.contracts.models import ModelProvider, ModelRequest


@dataclass
class ModelServer:
    """A served provider: where it listens, and the bodies of the requests it has got so far."""

    url: str
    requests: list[bytes] = field(default_factory=list[bytes])


@contextlib.contextmanager
def serve_model(provider: ModelProvider) -> Generator[ModelServer]:
    """Serve `provider` in a thread of its own until the context ends."""
    seen: list[bytes] = []
    config = uvicorn.Config(
        _application(provider, seen), port=0, log_level="error", lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the model server did not start")
            thread.join(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield ModelServer(f"http://127.0.0.1:{port}", seen)
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(10)


def _application(provider: ModelProvider, seen: list[bytes]) -> Any:
    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = await _read(receive)
        seen.append(body)
        request = ModelRequest(
            method=scope["method"],
            path=scope["path"],
            query=scope["query_string"].decode(),
            headers=[(name.decode(), value.decode()) for name, value in scope["headers"]],
            body=_pieces(body),
        )
        answering = asyncio.ensure_future(_answer(provider, request, send))
        leaving = asyncio.ensure_future(_disconnected(receive))
        await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
        for task in (answering, leaving):
            task.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)

    return application


async def _answer(provider: ModelProvider, request: ModelRequest, send: Any) -> None:
    async with provider.answer(request) as response:
        headers = [(name.encode(), value.encode()) for name, value in response.headers]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        async for chunk in response.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _read(receive: Any) -> bytes:
    body = b""
    while True:
        message = cast("dict[str, Any]", await receive())
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    yield body
