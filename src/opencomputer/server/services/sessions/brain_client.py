"""The server's side of the brain contract (agent-sessions.md section 5.4): HTTP over a dialled connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, cast

import h11

from opencomputer.server.contracts.machine import Connection
from opencomputer.server.contracts.runtimes import (
    BRAIN_PORT,
    CONTRACT_VERSION,
    DONE,
    BrainBusy,
    BrainDoneReason,
    BrainFault,
    BrainHealth,
    BrainLine,
    BrainRequest,
)
from opencomputer.server.domain.errors import GuestFault, NothingListens, ProgramFault

HEALTH_SECONDS = 2.0
ANSWER_SECONDS = 30.0
"""Within which a brain begins to answer a request; how long the answer takes is the turn's own business."""

MAX_LINE_BYTES = 64 << 20
"""As much as one message of an engine may take."""

_MAX_DOCUMENT_BYTES = 64 << 10
_HOST = ("host", f"127.0.0.1:{BRAIN_PORT}")
_REASONS = (BrainDoneReason.QUIESCENT, BrainDoneReason.AWAITING_INPUT, BrainDoneReason.ERROR)

Dial = Callable[[int], AbstractAsyncContextManager[Connection]]


class DialledBrain:
    """A brain reached by connections into its machine. See Brain.

    What it says comes from a machine: it is bounded, and anything that is not the contract is a BrainFault.
    MachineLost passes through.
    """

    def __init__(self, dial: Dial) -> None:
        self._dial = dial

    async def health(self) -> BrainHealth:
        """See Brain. One probe takes two seconds at most."""
        try:
            async with asyncio.timeout(HEALTH_SECONDS), _faults(), self._dial(BRAIN_PORT) as connection:
                exchange = _Exchange(connection)
                await exchange.send("GET", "/healthz", b"")
                status = await exchange.begin()
                answer = _document(await exchange.document())
        except TimeoutError as error:
            raise BrainFault("The agent's engine does not answer.") from error
        ready = answer.get("status") == "ready" and answer.get("contract_version") == CONTRACT_VERSION
        return BrainHealth(ready=status == 200 and ready, busy=answer.get("busy") is True)

    @asynccontextmanager
    async def turn(self, request: BrainRequest) -> AsyncGenerator[AsyncIterator[BrainLine]]:
        """See Brain."""
        async with _faults(), self._dial(BRAIN_PORT) as connection:
            exchange = _Exchange(connection)
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await exchange.send("POST", "/turn", _encoded(request))
                    status = await exchange.begin()
                    if status != 200:
                        _refuse(status, _document(await exchange.document()))
            except TimeoutError as error:
                raise BrainFault("The agent's engine did not take the request.") from error
            async with aclosing(_lines(exchange)) as lines:
                yield lines


class _Exchange:
    """One request and its answer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._http = h11.Connection(h11.CLIENT)

    async def send(self, method: str, target: str, body: bytes) -> None:
        headers = [_HOST, ("connection", "close")]
        if body:
            headers += [("content-type", "application/json"), ("content-length", str(len(body)))]
        head = self._http.send(h11.Request(method=method, target=target, headers=headers)) or b""
        data = (self._http.send(h11.Data(data=body)) or b"") if body else b""
        await self._connection.write(head + data + (self._http.send(h11.EndOfMessage()) or b""))

    async def begin(self) -> int:
        """The status of the answer."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                return event.status_code
            if not isinstance(event, h11.InformationalResponse):
                raise BrainFault("The agent's engine did not answer.")

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body of the answer, as it comes. Raises BrainFault when it breaks off."""
        while isinstance(event := await self._next(), h11.Data):
            yield bytes(event.data)
        if not isinstance(event, h11.EndOfMessage):
            raise BrainFault("The agent's engine broke its answer off.")

    async def document(self) -> bytes:
        body = b""
        async for piece in self.pieces():
            body += piece
            if len(body) > _MAX_DOCUMENT_BYTES:
                raise BrainFault("The answer of the agent's engine is too large.")
        return body

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._connection.read())
        return event


async def _lines(exchange: _Exchange) -> AsyncGenerator[BrainLine]:
    pending = bytearray()
    async for piece in exchange.pieces():
        first, *rest = piece.split(b"\n")
        pending += first
        for begun in rest:
            line = _line(bytes(pending))
            pending = bytearray(begun)
            if line is not None:
                yield line
                if line.kind == DONE:
                    return
        if len(pending) > MAX_LINE_BYTES:
            raise BrainFault("The agent's engine said too much at once.")
    raise BrainFault("The agent's engine ended before it was done.")


def _line(data: bytes) -> BrainLine | None:
    if not data.strip():
        return None
    value = _document(data)
    kind = value.get("kind")
    if kind == DONE:
        if value.get("reason") not in _REASONS:
            raise BrainFault("The agent's engine gave no known reason for being done.")
        return BrainLine(DONE, {name: value[name] for name in ("reason", "error") if name in value})
    message = value.get("msg")
    if not isinstance(kind, str) or not isinstance(message, dict):
        raise BrainFault("The agent's engine said something that is no message.")
    return BrainLine(kind, cast("Mapping[str, Any]", message))


def _document(data: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BrainFault("The agent's engine said something that is no JSON.") from error
    if not isinstance(value, dict):
        raise BrainFault("The agent's engine said something that is no object.")
    return cast("Mapping[str, Any]", value)


def _encoded(request: BrainRequest) -> bytes:
    config: dict[str, Any] = {
        "model": request.model,
        "system_prompt": request.system_prompt,
        "mcp_endpoint": request.mcp_endpoint,
        "state_dir": request.state_dir,
        "resume": request.resume,
        "max_turns": request.max_turns,
    }
    if request.endpoint_profile is not None:
        config["endpoint_profile"] = request.endpoint_profile
    body = {
        "contract_version": CONTRACT_VERSION,
        "turn_id": request.turn_id,
        "input": [{"role": "user", "content": text} for text in request.input],
        "config": config,
    }
    return json.dumps(body).encode()


def _refuse(status: int, answer: Mapping[str, Any]) -> None:
    if status == 409:
        raise BrainBusy
    error = answer.get("error")
    said = cast("Mapping[str, Any]", error).get("message") if isinstance(error, dict) else None
    detail = f": {str(said)[:500]}" if said else ""
    raise BrainFault(f"The agent's engine refused the request with status {status}{detail}")


@asynccontextmanager
async def _faults() -> AsyncGenerator[None]:
    """What can go wrong with a connection, as what it means about the brain."""
    try:
        yield
    except NothingListens as error:
        raise BrainFault("The agent's engine does not run.") from error
    except (GuestFault, ProgramFault, h11.RemoteProtocolError) as error:
        raise BrainFault("The connection to the agent's engine broke off.") from error
