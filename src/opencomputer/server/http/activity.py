"""Being used keeps a sandbox awake: requests as long as they last, sockets with each message."""

from __future__ import annotations

from contextlib import ExitStack

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opencomputer.server.services.sandboxes.live import LiveSandbox

_KEY = "opencomputer.use"
_MESSAGES = ("websocket.receive", "websocket.send")


class _Use:
    """What one connection has to do with a sandbox. `live` is None before it has got to one."""

    def __init__(self) -> None:
        self.live: LiveSandbox | None = None
        self.lasting = ExitStack()


def begin_use(connection: HTTPConnection, live: LiveSandbox) -> None:
    """The connection uses the sandbox from now on. Without a turn of others in between: a sandbox that has
    just been found running cannot fall asleep before."""
    use: _Use = connection.scope[_KEY]
    use.live = live
    if connection.scope["type"] == "http":
        use.lasting.enter_context(live.activity.request())
    else:
        live.activity.touch()


def used_by(connection: HTTPConnection) -> LiveSandbox | None:
    """The sandbox that a connection has got to."""
    use: _Use = connection.scope[_KEY]
    return use.live


class ActivityTracker:
    """Plain ASGI, because a request lasts until its streamed answer has been sent, and dependencies do not.

    Pings are not seen here: the server answers them by itself.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        use = scope[_KEY] = _Use()

        def note(message: Message) -> None:
            if use.live is not None and message["type"] in _MESSAGES:
                use.live.activity.touch()

        async def receive_noting() -> Message:
            message = await receive()
            note(message)
            return message

        async def send_noting(message: Message) -> None:
            note(message)
            await send(message)

        with use.lasting:
            if scope["type"] == "http":
                await self._app(scope, receive, send)
            else:
                await self._app(scope, receive_noting, send_noting)
