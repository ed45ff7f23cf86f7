"""Terminals in a sandbox: `sandbox.pty`."""

from __future__ import annotations

import asyncio
import builtins
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.callbacks import BytesCallback, notify
from opencomputer.sdk.control_plane import Call, get
from opencomputer.sdk.errors import NotFoundError, SandboxStoppedError
from opencomputer.sdk.frame_stream import NORMAL_CLOSE

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection
    from websockets.exceptions import ConnectionClosed

    from opencomputer.sdk.sandbox_link import SandboxLink


@dataclass(frozen=True)
class TerminalInfo:
    """One entry of `pty.list()`."""

    session_id: str
    sandbox_id: str
    command: str
    running: bool
    started_at: str
    attached_clients: int


class PtySession:
    """An attached terminal. Used as a context manager it is ended at the end."""

    def __init__(
        self,
        link: SandboxLink,
        session_id: str,
        socket: ClientConnection,
        on_output: BytesCallback | None,
        *,
        seen: int | None,
    ) -> None:
        self.session_id = session_id
        self._link = link
        self._socket = socket
        # How much of all its output; None where somebody else had read of it before.
        self._seen = seen
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
        from websockets.exceptions import ConnectionClosed

        try:
            await self._socket.send(data.encode() if isinstance(data, str) else data)
        except ConnectionClosed as error:
            raise self._end(error) from error

    async def recv(self) -> bytes:
        """The next output. Raises EOFError when the terminal has ended, LinkLostError when the link broke.

        Not to be used together with `on_output`, which takes all output.
        """
        from websockets.exceptions import ConnectionClosed

        try:
            message = await self._socket.recv()
        except ConnectionClosed as error:
            raise self._end(error) from error
        data = message.encode() if isinstance(message, str) else message
        if self._seen is not None:
            self._seen += len(data)
        return data

    async def resize(self, cols: int, rows: int) -> None:
        """Tell the terminal its new size."""
        call = Call(
            "POST",
            self._link.path("pty", self.session_id, "resize"),
            repeatable=True,
            json={"cols": cols, "rows": rows},
        )
        await self._link.plane.send(call)

    async def reconnect(self) -> None:
        """Open a link that was lost again. Output goes on where it was, as far as the server retained it.

        Raises what opening a socket raises, `NotFoundError` when the terminal is gone. Not for terminals with
        `on_output`.
        """
        await self._socket.close()
        self._socket = await _open(self._link, self.session_id, self._seen)

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

    def _end(self, closed: ConnectionClosed) -> EOFError:
        from opencomputer.sdk.terminal_ends import LinkLostError, TerminalEndedError

        ended = self._socket.close_code in (NORMAL_CLOSE, None)
        kind = TerminalEndedError if ended else LinkLostError
        return kind(closed.rcvd, closed.sent, closed.rcvd_then_sent)


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
        return await self._attached(session_id, on_output, None, seen=0)

    async def list(self) -> builtins.list[TerminalInfo]:
        """The sandbox's terminals, ended ones for five minutes more."""
        items = answers.json_objects(await self._link.plane.json(get(self._link.path("pty"))))
        return [_info(item) for item in items]

    async def attach(
        self, session_id: str, on_output: BytesCallback | None = None, *, replay: bool = False
    ) -> PtySession:
        """Take up a terminal that exists already, from whoever has it.

        Only output that nobody has seen comes; with `replay` first all that the server retained.
        """
        seen = 0 if replay else None
        return await self._attached(session_id, on_output, seen, seen=seen)

    async def _attached(
        self, session_id: str, on_output: BytesCallback | None, offset: int | None, *, seen: int | None
    ) -> PtySession:
        socket = await _open(self._link, session_id, offset)
        return PtySession(self._link, session_id, socket, on_output, seen=seen)


async def _open(link: SandboxLink, session_id: str, offset: int | None) -> ClientConnection:
    return await link.open_socket("pty", session_id, query="" if offset is None else f"offset={offset}")


def _info(item: answers.JsonObject) -> TerminalInfo:
    return TerminalInfo(
        session_id=answers.text(item, "sessionID"),
        sandbox_id=answers.text(item, "sandboxID"),
        command=answers.text(item, "command"),
        running=answers.flag(item, "running"),
        started_at=answers.text(item, "startedAt"),
        attached_clients=answers.whole(item, "attachedClients") or 0,
    )
