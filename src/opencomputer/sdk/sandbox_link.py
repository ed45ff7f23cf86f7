"""The way to one sandbox: its paths on the control plane and its sockets, shared by all of a `Sandbox`."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING

from opencomputer.sdk.answers import JsonObject, text
from opencomputer.sdk.errors import AuthError
from opencomputer.sdk.paths import path_of
from opencomputer.sdk.sockets import SocketAddress, api_key, open_socket, sandbox_token

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from websockets.asyncio.client import ClientConnection

    from opencomputer.sdk.control_plane import ControlPlane

    Detach = Callable[[], Awaitable[None]]


class SandboxLink:
    """HTTP goes to the control plane; sockets go where the server said, with the sandbox's token."""

    def __init__(self, plane: ControlPlane, sandbox_id: str) -> None:
        self.plane = plane
        self.sandbox_id = sandbox_id
        self._socket_base = ""
        self._token = ""
        self._attached: list[weakref.WeakMethod[Detach]] = []

    def learn(self, answer: JsonObject) -> None:
        """Take the socket address and token from an answer that describes the sandbox."""
        self._socket_base = text(answer, "connectURL").rstrip("/")
        self._token = text(answer, "token")

    def path(self, *segments: str) -> str:
        """A path below the sandbox, each segment encoded."""
        return path_below_sandboxes(self.sandbox_id, *segments)

    async def open_socket(self, *segments: str, query: str = "") -> ClientConnection:
        """Open a socket below the sandbox, perhaps with a query.

        A sandbox's token ends sooner than a key does: where it is refused, the key is tried.
        """
        path = self.path(*segments) + (f"?{query}" if query else "")
        by_key = SocketAddress(self.plane.endpoint.base + path, api_key(self.plane.endpoint.api_key))
        if not (self._socket_base and self._token):
            return await open_socket(by_key)
        try:
            return await open_socket(SocketAddress(self._socket_base + path, sandbox_token(self._token)))
        except AuthError:
            if by_key.credential is None:
                raise
            return await open_socket(by_key)

    def detach_at_close(self, detach: Detach) -> None:
        """Have this method of a session called when the link is closed, if the session still exists then."""
        self._attached = [known for known in self._attached if known() is not None]
        self._attached.append(weakref.WeakMethod(detach))

    async def aclose(self) -> None:
        """Detach all sessions and close the connections. Nothing in the sandbox is ended by that."""
        try:
            await asyncio.gather(*(detach() for known in self._attached if (detach := known()) is not None))
        finally:
            await self.plane.aclose()


def path_below_sandboxes(*segments: str) -> str:
    """A path below the root of all that concerns sandboxes, each segment encoded."""
    return path_of("sandboxes", *segments)
