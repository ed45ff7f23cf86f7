"""A program that runs in a sandbox, followed live."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from opencomputer.sdk.callbacks import StreamCallbacks, notify
from opencomputer.sdk.control_plane import Call
from opencomputer.wire import frames

if TYPE_CHECKING:
    from opencomputer.sdk.frame_stream import FrameStream
    from opencomputer.sdk.sandbox_link import SandboxLink
    from opencomputer.wire.frames import Frame


class ExecSession:
    """One attached session. Its output goes to the callbacks in the background, awaited or not.

    Detaching with `close` leaves the program running. Used as a context manager it detaches at the end.
    """

    def __init__(
        self, link: SandboxLink, session_id: str, stream: FrameStream, callbacks: StreamCallbacks
    ) -> None:
        self.session_id = session_id
        self._link = link
        self._stream = stream
        self._callbacks = callbacks
        self._closing = False
        self._ended = False
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(), name=f"exec session {session_id}")
        # Not in the reader itself: one that is cancelled before its first step never runs at all.
        self._reader.add_done_callback(self._settle)
        link.detach_at_close(self.close)

    @property
    def sandbox_id(self) -> str:
        """The sandbox the program runs in."""
        return self._link.sandbox_id

    @property
    def done(self) -> asyncio.Future[int]:
        """The program's exit code, to be awaited; 128 + n when signal n ended it.

        It is -1 when the link ended without one: lost, or closed by `close`. Cancelling it cancels nothing
        else.
        """
        return asyncio.shield(self._exit)

    @property
    def link_end(self) -> str:
        """Why the link ended, in the server's words; "" while it lasts or where no reason was given."""
        return self._stream.close_reason

    async def send_stdin(self, data: str | bytes) -> None:
        """Write to the program's standard input; nothing happens once it has ended."""
        if not self._exit.done():
            await self._stream.send(data.encode() if isinstance(data, str) else data)

    async def close_stdin(self) -> None:
        """Let the program find its standard input at its end, for all clients; what was sent comes first.

        Nothing happens once it has ended, and on servers that do not know of this.
        """
        if not self._exit.done():
            await self._stream.end_input()

    async def kill(self, signal: int = 9) -> None:
        """Send a signal to the program and the processes of its group; nothing happens once it has ended.

        That works without a link, too: after it was lost or closed.
        """
        if not ended(self._exit):
            await kill_session(self._link, "exec", self.session_id, signal)

    async def close(self) -> None:
        """Detach. The program goes on, for as long as `max_run_after_disconnect` allows; may be called again.

        `on_exit` is not called by this: the program has not ended.
        """
        self._closing = True
        inside_callback = asyncio.current_task() is self._reader
        if not inside_callback:
            self._reader.cancel()
        await self._stream.aclose()
        if not inside_callback:
            await asyncio.wait([self._reader])

    async def __aenter__(self) -> ExecSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _read(self) -> None:
        async for frame in self._stream.frames():
            await self._deliver(frame)
        await self._end(frames.UNKNOWN_EXIT_CODE)

    def _settle(self, _: asyncio.Task[None]) -> None:
        if not self._exit.done():
            self._exit.set_result(frames.UNKNOWN_EXIT_CODE)

    async def _deliver(self, frame: Frame) -> None:
        match frame.channel:
            case frames.STDOUT:
                await notify(self._callbacks.on_stdout, frame.payload)
            case frames.STDERR:
                await notify(self._callbacks.on_stderr, frame.payload)
            case frames.SCROLLBACK_END:
                await notify(self._callbacks.on_scrollback_end)
            case frames.EXIT:
                await self._end(frames.exit_code(frame.payload))
            case _:
                pass

    async def _end(self, code: int) -> None:
        if self._ended:
            return
        self._ended = True
        if not self._closing:
            await notify(self._callbacks.on_exit, code)
        self._exit.set_result(code)


def ended(exit: asyncio.Future[int]) -> bool:
    """Whether a program is known to have ended: not when only the link to it has."""
    return exit.done() and exit.result() != frames.UNKNOWN_EXIT_CODE


async def kill_session(link: SandboxLink, kind: str, session_id: str, signal: int) -> None:
    """Send a signal to a session of a kind, "exec" or "agent"; an ended one is no error."""
    await link.plane.send(Call("POST", link.path(kind, session_id, "kill"), json={"signal": signal}))
