"""The frames of one attached session, over as many sockets as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from opencomputer.sdk.errors import OpenComputerError, UnavailableError
from opencomputer.sdk.http import httpx
from opencomputer.sdk.replay import OutputLost, ReplayFilter
from opencomputer.wire import frames
from opencomputer.wire.frames import Frame

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

    from opencomputer.sdk.sandbox_link import SandboxLink

NORMAL_CLOSE = 1000
ABNORMAL_CLOSE = 1006
_RETRIED_CLOSES = frozenset({1001, ABNORMAL_CLOSE, 1011, 1012})
_REASONS_OF_AN_END = frozenset({"", "exec completed"})
# Two minutes: a node that is busy takes long to start again.
_REDIAL_DELAYS_SECONDS = (0.25, 0.5, 1.0, 2.0, *[4.0] * 29)
_SERVER_RING_BYTES = 1024 * 1024


class FrameStream:
    """Reads the frames of a session and sends to it.

    With `reconnect` a lost link is opened again for up to two minutes; the replay that follows is reduced
    to what was not delivered before, so that the listener sees one stream without a gap. When the session
    wrote more meanwhile than the server keeps, the link counts as lost. Input that was under way when the
    link broke may be lost.
    """

    def __init__(
        self,
        link: SandboxLink,
        session_id: str,
        *,
        reconnect: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.close_code = ABNORMAL_CLOSE
        self.close_reason = ""
        self._link = link
        self._session_id = session_id
        self._filter = ReplayFilter(_SERVER_RING_BYTES) if reconnect else None
        self._sleep = sleep
        self._socket: ClientConnection | None = None
        self._input_ended = False
        self._connected = asyncio.Event()

    @property
    def session_over(self) -> bool:
        """Whether the server closed the link because the session has ended, and for no other reason."""
        return self.close_code == NORMAL_CLOSE and self.close_reason in _REASONS_OF_AN_END

    async def open(self) -> None:
        """Open the first socket; raises what opening a socket raises."""
        self._use(await self._dial())

    async def frames(self) -> AsyncGenerator[Frame]:
        """All frames until the link ends for good; then `close_code` and `close_reason` say how.

        Exactly one `SCROLLBACK_END` comes, after the first replay.
        """
        async for frame in self._of_one_socket():
            yield self._noted(frame)
        try:
            while self._filter and self.close_code in _RETRIED_CLOSES and await self._redial():
                async for frame in self._continued(self._filter):
                    yield self._noted(frame)
        except OutputLost as lost:
            await self.aclose()
            self.close_code, self.close_reason = ABNORMAL_CLOSE, str(lost)
        self._filter = None
        self._connected.set()

    async def send(self, data: bytes, *, in_background: bool = False) -> None:
        """Send standard input, waiting while the link is opened again; once it has ended, nothing happens.

        In the background it also waits until the loss of the link is noticed. A listener must not: it is who
        keeps that from being noticed.
        """
        from websockets.exceptions import ConnectionClosed

        for message in frames.encode_all(frames.STDIN, data):
            try:
                await self._connected.wait()
                if in_background:
                    await self._reopened()
                if self._socket:
                    await self._socket.send(message)
            except ConnectionClosed:
                return

    async def end_input(self) -> None:
        """Say that standard input is at its end, on later sockets of this link as well."""
        self._input_ended = True
        await self._connected.wait()
        await self._say_that_input_ended()

    async def aclose(self) -> None:
        """Close the socket; the session itself goes on."""
        self._filter = None
        self._connected.set()
        if self._socket:
            await self._socket.close()

    async def _reopened(self) -> None:
        while self._filter and self._socket and not _is_open(self._socket):
            self._connected.clear()
            await self._connected.wait()

    async def _dial(self) -> ClientConnection:
        return await self._link.open_socket("exec", self._session_id)

    async def _say_that_input_ended(self) -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            if self._socket:
                await self._socket.send(frames.encode(frames.STDIN_END))

    def _use(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._connected.set()

    async def _redial(self) -> bool:
        self._connected.clear()
        for delay in _REDIAL_DELAYS_SECONDS:
            await self._sleep(delay)
            try:
                self._use(await self._dial())
            except (httpx.TransportError, UnavailableError):
                continue
            except OpenComputerError:
                return False
            if self._input_ended:
                await self._say_that_input_ended()
            return True
        return False

    async def _of_one_socket(self) -> AsyncGenerator[Frame]:
        from websockets.exceptions import ConnectionClosed

        socket = self._socket
        if socket is None:
            return
        try:
            async for message in socket:
                frame = frames.decode(message) if isinstance(message, bytes) else None
                if frame:
                    yield frame
        except ConnectionClosed:
            pass
        finally:
            self.close_code = socket.close_code or ABNORMAL_CLOSE
            self.close_reason = socket.close_reason or ""

    async def _continued(self, known: ReplayFilter) -> AsyncGenerator[Frame]:
        replay: list[Frame] | None = []
        async for frame in self._of_one_socket():
            if replay is None:
                yield frame
            elif frame.channel == frames.SCROLLBACK_END:
                for fresh in known.fresh(replay):
                    yield fresh
                replay = None
            else:
                replay.append(frame)

    def _noted(self, frame: Frame) -> Frame:
        if self._filter and frame.channel in (frames.STDOUT, frames.STDERR):
            self._filter.delivered(frame)
        return frame


def _is_open(socket: ClientConnection) -> bool:
    from websockets.protocol import State

    return socket.state is State.OPEN
