"""A terminal in a sandbox, on the terminal that `oc` runs on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass

from opencomputer.cli import terminal
from opencomputer.cli.failures import LINK_LOST
from opencomputer.cli.following import StreamWriter
from opencomputer.sdk.errors import OpenComputerError, UnavailableError
from opencomputer.sdk.http import httpx
from opencomputer.sdk.pty import Pty, PtySession
from opencomputer.sdk.sandbox_link import SandboxLink
from opencomputer.sdk.terminal_ends import LinkLostError

_READ_BYTES = 4096
REDIAL_DELAYS_SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0)


@dataclass(frozen=True)
class TerminalRequest:
    """What to start, or which terminal to take up."""

    shell: str | None = None
    session_id: str | None = None


async def run_terminal(link: SandboxLink, request: TerminalRequest) -> int:
    """Be the terminal until its shell ends (0), the link is lost (255) or the person leaves (0)."""
    descriptor = sys.stdin.fileno()
    session = await _open(link, request, terminal.size(descriptor))
    console = _Console(session, descriptor)
    with terminal.raw_mode(descriptor), StreamWriter(sys.stdout.buffer) as out:
        code = await console.run(out)
    if console.left:
        await session.detach()
        print(
            f"\nLeft it running. `oc shell {link.sandbox_id} --attach {session.session_id}` takes it up.",
            file=sys.stderr,
        )
    elif code == LINK_LOST:
        await session.detach()
        print("\nThe link to the sandbox was lost.", file=sys.stderr)
    else:
        with suppress(httpx.HTTPError):
            await session.close()
    return code


class _Console:
    """The local side: keys, size and the end."""

    def __init__(self, session: PtySession, descriptor: int) -> None:
        self.left = False
        self._session = session
        self._descriptor = descriptor
        self._watcher = terminal.EscapeWatcher()
        self._keys: asyncio.Queue[bytes] = asyncio.Queue()
        self._resized = asyncio.Event()
        self._linked = True
        self._typed = b""

    async def run(self, out: StreamWriter) -> int:
        """Pass keys, sizes and output on until the end of any of them."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._descriptor, self._key_pressed)
        loop.add_signal_handler(signal.SIGWINCH, self._resized.set)
        # The terminal must be set right again before the process ends; leaving does both.
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._leave)
        try:
            return await self._until_the_end(out)
        finally:
            loop.remove_reader(self._descriptor)
            for number in (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)

    async def _until_the_end(self, out: StreamWriter) -> int:
        showing = asyncio.create_task(self._show(out))
        typing = asyncio.create_task(self._type())
        resizing = asyncio.create_task(self._resize())
        await asyncio.wait([showing, typing], return_when=asyncio.FIRST_COMPLETED)
        code = showing.result() if showing.done() else typing.result() or 0
        for task in (showing, typing, resizing):
            task.cancel()
        await asyncio.wait([showing, typing, resizing])
        return code

    async def _show(self, out: StreamWriter) -> int:
        while True:
            try:
                await out.write(await self._session.recv())
            except LinkLostError:
                if not await self._linked_again():
                    return LINK_LOST
            except EOFError:
                return 0

    async def _linked_again(self) -> bool:
        """Whether the link could be opened again within half a minute."""
        self._linked = False
        for delay in REDIAL_DELAYS_SECONDS:
            await asyncio.sleep(delay)
            try:
                await self._session.reconnect()
                await self._session.resize(*terminal.size(self._descriptor))
            except (httpx.TransportError, UnavailableError):
                continue
            except (OpenComputerError, EOFError):
                return False
            self._linked = True
            await self._send_typed()
            return True
        return False

    async def _type(self) -> None:
        while not self.left:
            keys, left = self._watcher.feed(await self._keys.get())
            self.left = self.left or left
            self._typed += keys
            if self._linked:
                await self._send_typed()

    async def _send_typed(self) -> None:
        """Keys that were typed while there was no link are not lost."""
        keys, self._typed = self._typed, b""
        try:
            await self._session.send(keys)
        except LinkLostError:
            self._typed = keys + self._typed
        except EOFError:
            pass

    async def _resize(self) -> None:
        while True:
            await self._resized.wait()
            self._resized.clear()
            with suppress(httpx.HTTPError):
                await self._session.resize(*terminal.size(self._descriptor))

    def _key_pressed(self) -> None:
        try:
            keys = os.read(self._descriptor, _READ_BYTES)
        except OSError:
            keys = b""
        if keys:
            self._keys.put_nowait(keys)
        else:
            self._leave()

    def _leave(self) -> None:
        self.left = True
        self._keys.put_nowait(b"")


async def _open(link: SandboxLink, request: TerminalRequest, size: tuple[int, int]) -> PtySession:
    if request.session_id is None:
        return await Pty(link).create(*size, shell=request.shell)
    session = await Pty(link).attach(request.session_id, replay=True)
    await session.resize(*size)
    return session
