"""Previews: requests whose host name says which port of which sandbox they are for (behaviour section 26)."""

from __future__ import annotations

import time

import structlog
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketState

from opencomputer.server.domain.errors import (
    Gone,
    GuestFault,
    Interrupted,
    MachineLost,
    NotReady,
    OpenComputerError,
    PreviewLocked,
)
from opencomputer.server.domain.previews import PreviewAddress, parse_host
from opencomputer.server.http import preview_headers as heads
from opencomputer.server.http.activity import ActivityTracker, begin_use, used_by
from opencomputer.server.http.preview_answers import refusal, remember
from opencomputer.server.http.preview_http import HttpRelay, request_of
from opencomputer.server.http.preview_sockets import HANDSHAKE, SocketRelay
from opencomputer.server.http.streams import (
    COME_BACK,
    POLICY,
    CloseSocket,
    ended_reason,
    refusing_upgrade,
    run_until_one_ends,
)
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sandboxes.live import Ending, LiveSandbox
from opencomputer.server.services.sandboxes.preview_visits import Visit

_log = structlog.get_logger(__name__)
_ADDRESS = "opencomputer.preview"
_TAKEN_BACK = "what let you in has expired, or was taken back"


class PreviewHosts:
    """Stands before everything else: no route of the API is ever reached under a preview's name, and no
    preview under any other."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._previews = ActivityTracker(_Previews(services))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = _address(scope)
        if address is None:
            await self._app(scope, receive, send)
            return
        scope[_ADDRESS] = address
        began, seen = time.perf_counter(), _Seen(send)
        try:
            await self._previews(scope, receive, seen)
        finally:
            _log.info(
                "preview",
                sandbox=address.sandbox_id,
                port=address.port,
                method=scope.get("method", "WEBSOCKET"),
                path=scope["path"],
                status=seen.status,
                milliseconds=round((time.perf_counter() - began) * 1000, 1),
            )


def _address(scope: Scope) -> PreviewAddress | None:
    if scope["type"] not in ("http", "websocket"):
        return None
    host = heads.first(scope["headers"], b"host") or b""
    return parse_host(host.decode("latin-1"))


class _Seen:
    """Sends, and remembers with which status an answer began."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "websocket.accept":
            self.status = 101
        elif message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
        await self._send(message)


class _Previews:
    """An ASGI application that is the program of the sandbox, as long as the visitor may see it."""

    def __init__(self, services: Services) -> None:
        self._door = services.previews.door
        self._clock = services.clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._serve_socket(WebSocket(scope, receive, send))
        else:
            await self._serve_http(scope, receive, send)

    async def _serve_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        relay = HttpRelay()
        try:
            with self._door.visit(scope[_ADDRESS]) as visit:
                await self._relay_http(relay, visit, scope, receive, send)
        except OpenComputerError as error:
            if relay.begun:
                return  # the visitor finds the answer cut off
            error = await self._explained(scope, error)
            await refusal(scope, error)(scope, receive, send)

    async def _relay_http(
        self, relay: HttpRelay, visit: Visit, scope: Scope, receive: Receive, send: Send
    ) -> None:
        address: PreviewAddress = scope[_ADDRESS]
        shown = heads.presented(scope["headers"], scope["query_string"])
        admission = await self._door.admit(visit, address, shown)
        if admission.grant is not None and shown.link is not None and scope["method"] in ("GET", "HEAD"):
            await remember(scope, admission.grant, shown.link, self._clock.now())(scope, receive, send)
            return
        request = request_of(scope, bearer_was_token=admission.bearer_was_token)
        live = await self._door.reach(admission.sandbox)
        begin_use(HTTPConnection(scope), live)
        async with self._door.dial(live, address.port) as stream:
            self._door.check(visit)
            await run_until_one_ends(relay.run(stream, request, receive, send), self._until_over(visit, live))

    async def _until_over(self, visit: Visit, live: LiveSandbox) -> None:
        """Raise when a request must not go on: its permission or its machine has ended."""
        over = self._door.until_over(visit)
        await run_until_one_ends(over, _until_ended(live))
        raise _ended_error(live) if live.ended.is_set() else PreviewLocked(_TAKEN_BACK)

    # WebSockets

    async def _serve_socket(self, websocket: WebSocket) -> None:
        async with refusing_upgrade(websocket):
            try:
                with self._door.visit(websocket.scope[_ADDRESS]) as visit:
                    await self._relay_socket(visit, websocket)
            except OpenComputerError as error:
                if websocket.application_state is not WebSocketState.CONNECTING:
                    raise await self._closing(websocket, error) from error
                error = await self._explained(websocket.scope, error)
                await websocket.send_denial_response(refusal(websocket.scope, error))

    async def _relay_socket(self, visit: Visit, websocket: WebSocket) -> None:
        scope = websocket.scope
        address: PreviewAddress = scope[_ADDRESS]
        shown = heads.presented(scope["headers"], scope["query_string"])
        admission = await self._door.admit(visit, address, shown)
        live = await self._door.reach(admission.sandbox)
        begin_use(websocket, live)
        headers = heads.request_headers(scope, bearer_was_token=admission.bearer_was_token, drop=HANDSHAKE)
        async with self._door.dial(live, address.port) as stream:
            self._door.check(visit)
            relay = SocketRelay(websocket, stream)
            await run_until_one_ends(relay.run(heads.target(scope), headers), self._until_closed(visit, live))

    async def _until_closed(self, visit: Visit, live: LiveSandbox) -> None:
        await run_until_one_ends(self._door.until_over(visit), _until_ended(live))
        if live.ended.is_set():
            raise ended_reason(live)
        raise CloseSocket(POLICY, _TAKEN_BACK)

    # What becomes of an interrupted one

    async def _closing(self, websocket: WebSocket, error: OpenComputerError) -> CloseSocket:
        """How to close a socket whose connection to the program was lost: it may come back at once, unless
        the sandbox has gone to sleep or has ended."""
        live = used_by(websocket)
        assert live is not None, "there was a connection to its machine"
        await self._door.settled(live)
        return ended_reason(live) if live.ended.is_set() else CloseSocket(COME_BACK, error.message)

    async def _explained(self, scope: Scope, error: OpenComputerError) -> OpenComputerError:
        live = used_by(HTTPConnection(scope))
        if live is None or not isinstance(error, GuestFault | MachineLost):
            return error
        await self._door.settled(live)
        if live.ended.is_set():
            return _ended_error(live)
        return (
            Interrupted("the sandbox was being saved; try again") if isinstance(error, GuestFault) else error
        )


async def _until_ended(live: LiveSandbox) -> None:
    await live.ended.wait()


def _ended_error(live: LiveSandbox) -> OpenComputerError:
    if live.ending is Ending.HANDED_ON:
        return NotReady("the server restarts; try again shortly")
    return Gone() if live.ending is Ending.STOPPED else live.explain(MachineLost())
