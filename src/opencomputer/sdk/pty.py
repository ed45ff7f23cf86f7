"""Terminals in a sandbox: `sandbox.pty`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from websockets.exceptions import ConnectionClosed

from opencomputer.sdk import answers
from opencomputer.sdk.callbacks import BytesCallback, notify
from opencomputer.sdk.control_plane import Call
from opencomputer.sdk.errors import NotFoundError, SandboxStoppedError
from opencomputer.sdk.frame_stream import NORMAL_CLOSE

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

    from opencomputer.sdk.sandbox_link import SandboxLink


class LinkLostError(EOFError):
    """The link to a terminal broke; the terminal itself may go on."""


class PtySession:
    """An attached terminal. Used as a context manager it is ended at the end."""

    def __init__(
        self, link: SandboxLink, session_id: str, socket: ClientConnection, on_output: BytesCallback | None
    ) -> None:
        self.session_id = session_id
        self._link = link
        self._socket = socket
        self._reader: asyncio.Task[None] | None = None
        if on_output:
            self._reader = asyncio.create_task(self._read(on_output), name=f"terminal {session_id}")
        link.detach_at_close(self.detach)

    @property
    def sandbox_id(self) -> str:
        """The sandbox the terminal is in."""
        return self._link.sandbox_id

    async def send(self, data: str | bytes) -> None:
        """Type into the terminal. Raises EOFError once it has ended."""
        try:
            await self._socket.send(data.encode() if isinstance(data, str) else data)
        except ConnectionClosed as error:
            raise self._end() from error

    async def recv(self) -> bytes:
        """The next output. Raises EOFError when the terminal has ended, LinkLostError when the link broke.

        Not to be used together with `on_output`, which takes all output.
        """
        try:
            message = await self._socket.recv()
        except ConnectionClosed as error:
            raise self._end() from error
        return message.encode() if isinstance(message, str) else message

    async def resize(self, cols: int, rows: int) -> None:
        """Tell the terminal its new size."""
        call = Call(
            "POST",
            self._link.path("pty", self.session_id, "resize"),
            repeatable=True,
            json={"cols": cols, "rows": rows},
        )
        await self._link.plane.send(call)

    async def detach(self) -> None:
        """Let go of the terminal without ending it; `Pty.attach` takes it up again."""
        if self._reader and asyncio.current_task() is not self._reader:
            self._reader.cancel()
        await self._socket.close()

    async def close(self) -> None:
        """End the terminal and what runs in it; may be called again."""
        await self.detach()
        try:
            await self._link.plane.send(Call("DELETE", self._link.path("pty", self.session_id)))
        except (NotFoundError, SandboxStoppedError):
            pass

    async def __aenter__(self) -> PtySession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _read(self, on_output: BytesCallback) -> None:
        try:
            while True:
                await notify(on_output, await self.recv())
        except EOFError:
            pass

    def _end(self) -> EOFError:
        if self._socket.close_code in (NORMAL_CLOSE, None):
            return EOFError("the terminal has ended")
        return LinkLostError("the link to the terminal was lost")


class Pty:
    """Opens terminals in one sandbox."""

    def __init__(self, link: SandboxLink) -> None:
        self._link = link

    async def create(
        self,
        cols: int = 80,
        rows: int = 24,
        on_output: BytesCallback | None = None,
        *,
        shell: str | None = None,
    ) -> PtySession:
        """Start a login shell on a new terminal and attach to it.

        Output goes to `on_output` in the background, or is taken with `recv` when none is given.
        """
        body: answers.JsonObject = {"cols": cols, "rows": rows}
        if shell:
            body["shell"] = shell
        answer = await self._link.plane.json(Call("POST", self._link.path("pty"), json=body))
        session_id = answers.required_text(answers.json_object(answer), "sessionID")
        return await self.attach(session_id, on_output)

    async def attach(self, session_id: str, on_output: BytesCallback | None = None) -> PtySession:
        """Take up a terminal that exists already; only new output is seen."""
        socket = await self._link.open_socket("pty", session_id)
        return PtySession(self._link, session_id, socket, on_output)
