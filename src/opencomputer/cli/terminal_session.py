"""A terminal in a sandbox, on the terminal that `oc` runs on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from opencomputer.cli import terminal
from opencomputer.cli.failures import LINK_LOST
from opencomputer.cli.following import StreamWriter
from opencomputer.cli.text import harmless
from opencomputer.sdk.errors import OpenComputerError, RateLimitError, UnavailableError
from opencomputer.sdk.http import httpx
from opencomputer.sdk.pty import Pty, PtySession
from opencomputer.sdk.sandbox_link import SandboxLink
from opencomputer.sdk.terminal_ends import LinkLostError

_READ_BYTES = 4096
_INTERRUPT_KEY = 3
_FIRST_DELAY_SECONDS = 0.25
_LONGEST_DELAY_SECONDS = 4.0
_REDIAL_SECONDS = 300.0
# A link that is back within a second is nothing to trouble a person with.
_SILENT_ATTEMPTS = 2


@dataclass(frozen=True)
class TerminalRequest:
    """What to start, or which terminal to take up."""

    shell: str | None = None
    session_id: str | None = None


def redial_delays() -> Iterator[float]:
    """How long to wait before each attempt to open a lost link again: soon at first, and for five minutes."""
    delay, waited = _FIRST_DELAY_SECONDS, 0.0
    while waited < _REDIAL_SECONDS:
        yield delay
        waited += delay
        delay = min(2 * delay, _LONGEST_DELAY_SECONDS)


async def run_terminal(link: SandboxLink, request: TerminalRequest) -> int:
    """Be the terminal until its shell ends (0), the link is lost (255) or the person leaves (0)."""
    descriptor = sys.stdin.fileno()
    session = await _open(link, request, terminal.size(descriptor))
    console = _Console(session, descriptor)
    with terminal.raw_mode(descriptor), StreamWriter(sys.stdout.buffer) as out:
        code = await console.run(out)
    again = f"`oc shell {link.sandbox_id} --attach {session.session_id}` takes it up."
    if console.left.is_set():
        await session.detach()
        print(f"\nLeft it running. {again}", file=sys.stderr)
    elif code == LINK_LOST:
        await session.detach()
        print(f"\nThe link to the sandbox was lost{console.refusal or f'. {again}'}", file=sys.stderr)
    else:
        with suppress(httpx.HTTPError):
            await session.close()
    return code


class _Console:
    """The local side: keys, size and the end."""

    def __init__(self, session: PtySession, descriptor: int) -> None:
        self.left = asyncio.Event()
        self.refusal = ""
        self._session = session
        self._descriptor = descriptor
        self._watcher = terminal.EscapeWatcher()
        self._resized = asyncio.Event()
        self._linked = True
        self._told_of_loss = False
        self._typed = b""
        self._to_send = asyncio.Event()

    async def run(self, out: StreamWriter) -> int:
        """Pass keys, sizes and output on until the end of any of them."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._descriptor, self._key_pressed)
        loop.add_signal_handler(signal.SIGWINCH, self._resized.set)
        # The terminal must be set right again before the process ends; leaving does both.
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.left.set)
        try:
            return await self._until_the_end(out)
        finally:
            loop.remove_reader(self._descriptor)
            for number in (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)

    async def _until_the_end(self, out: StreamWriter) -> int:
        showing = asyncio.create_task(self._show(out))
        leaving = asyncio.create_task(self.left.wait())
        others = [asyncio.create_task(self._type()), asyncio.create_task(self._resize())]
        await asyncio.wait([showing, leaving], return_when=asyncio.FIRST_COMPLETED)
        code = LINK_LOST if not self._linked else 0
        if showing.done():
            code = showing.result()
        for task in (showing, leaving, *others):
            task.cancel()
        await asyncio.wait([showing, leaving, *others])
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
        """Whether the link could be opened again within some minutes."""
        self._linked = False
        for failed, delay in enumerate(redial_delays()):
            if failed == _SILENT_ATTEMPTS:
                self._tell(
                    "The link to the sandbox is lost; trying again. Ctrl-C, or Enter ~ . leaves it running."
                )
                self._told_of_loss = True
            await asyncio.sleep(delay)
            try:
                await self._session.reconnect()
                await self._session.resize(*terminal.size(self._descriptor))
            except (httpx.TransportError, UnavailableError, RateLimitError):
                continue
            except OpenComputerError as error:
                self.refusal = f", and there is none again: {harmless(error.message)}"
                return False
            except EOFError:
                return False
            if self._told_of_loss:
                self._tell("Linked again. Ctrl-L draws the screen anew.")
            self._linked, self._told_of_loss = True, False
            self._to_send.set()
            return True
        return False

    async def _type(self) -> None:
        while True:
            await self._to_send.wait()
            self._to_send.clear()
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
        """Whatever else waits, the keys that leave are looked for at once."""
        try:
            keys = os.read(self._descriptor, _READ_BYTES)
        except OSError:
            keys = b""
        passed, left = self._watcher.feed(keys)
        if left or not keys or (self._told_of_loss and _INTERRUPT_KEY in keys):
            self.left.set()
        self._typed += passed
        self._to_send.set()

    def _tell(self, message: str) -> None:
        # In this mode of the terminal a new line goes down only.
        print(f"\r\n{message}\r", file=sys.stderr, flush=True)


async def _open(link: SandboxLink, request: TerminalRequest, size: tuple[int, int]) -> PtySession:
    if request.session_id is None:
        return await Pty(link).create(*size, shell=request.shell)
    session = await Pty(link).attach(request.session_id, replay=True)
    await session.resize(*size)
    return session
