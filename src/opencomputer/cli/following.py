"""Following a session live: its output here, our input there, and signals as a person expects them."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from opencomputer.cli import text
from opencomputer.sdk.exec import Exec
from opencomputer.sdk.http import httpx

if TYPE_CHECKING:
    from opencomputer.sdk.exec_session import ExecSession
    from opencomputer.sdk.sandbox_link import SandboxLink

_INPUT_BYTES = 4096
_INTERRUPT = 2
_BROKEN_PIPE = 13


async def follow_session(link: SandboxLink, session_id: str, *, own: bool = False) -> int:
    """Pass output and input on until the session ends. Returns its exit code, -1 when that is not known.

    Where our input ends, that of a session of our own does; another one may have more clients with input.
    The first Ctrl-C interrupts the program, the second leaves it running and returns.
    """
    with StreamWriter(sys.stdout.buffer) as out, StreamWriter(sys.stderr.buffer) as err:
        session = await Exec(link).attach(
            session_id, on_stdout=out.write, on_stderr=err.write, reconnect=True
        )
        person = _Interrupts(session)
        try:
            with interrupts(person.pressed):
                forward_input(session.send_stdin, session.close_stdin if own else None)
                code = await _end_of(session, out)
        finally:
            await session.close()
    if person.left:
        print(
            f"\nLeft it running. `oc exec attach {link.sandbox_id} {session_id}` follows it again.",
            file=sys.stderr,
        )
    elif code < 0:
        reason = f": {text.harmless(session.link_end)}" if session.link_end else ""
        print(
            f"The link to the session ended before the session did{reason}."
            f" `oc exec attach {link.sandbox_id} {session_id}` follows it again.",
            file=sys.stderr,
        )
    return code


async def _end_of(session: ExecSession, out: StreamWriter) -> int:
    done, broken = session.done, asyncio.ensure_future(out.broken.wait())
    await asyncio.wait([done, broken], return_when=asyncio.FIRST_COMPLETED)
    broken.cancel()
    if not done.done():
        # Nobody reads our output any more, which is what this signal tells a program.
        await session.kill(_BROKEN_PIPE)
        return 128 + _BROKEN_PIPE
    return done.result()


class _Interrupts:
    def __init__(self, session: ExecSession) -> None:
        self._session = session
        self._presses = 0

    @property
    def left(self) -> bool:
        """Whether the person has left the session running."""
        return self._presses > 1

    async def pressed(self) -> None:
        self._presses += 1
        if self.left:
            await self._session.close()
            return
        print("\nInterrupting; once more leaves it running.", file=sys.stderr, flush=True)
        with suppress(httpx.HTTPError):
            await self._session.kill(_INTERRUPT)


@contextmanager
def interrupts(pressed: Callable[[], Awaitable[None]]) -> Generator[None]:
    """Within this, SIGINT and SIGTERM call `pressed` instead of ending the process."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Future[None]] = set()

    def arrived() -> None:
        task = asyncio.ensure_future(pressed())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, arrived)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def forward_input(
    send: Callable[[bytes], Awaitable[None]], end: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Pass standard input on, piece by piece, until it ends. A process in the background has none."""
    try:
        descriptor = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return
    if os.isatty(descriptor) and os.tcgetpgrp(descriptor) != os.getpgrp():
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        with suppress(OSError, RuntimeError, asyncio.CancelledError):
            while data := os.read(descriptor, _INPUT_BYTES):
                asyncio.run_coroutine_threadsafe(_sent(send(data)), loop).result()
            if end:
                asyncio.run_coroutine_threadsafe(_sent(end()), loop).result()

    # A thread, because not every kind of input can be waited for by an event loop; and a daemon, because
    # nothing can wake a thread that waits for somebody to type.
    threading.Thread(target=read, name="standard input", daemon=True).start()


async def _sent(sending: Awaitable[None]) -> None:
    await sending


class StreamWriter:
    """Writes to a stream in a thread of its own, so that a reader who pauses does not stop the loop."""

    def __init__(self, stream: BinaryIO) -> None:
        self.broken = asyncio.Event()
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._pieces: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="output", daemon=True)

    async def write(self, data: bytes) -> None:
        """Return when the data is written, or the stream has no reader any more."""
        written = self._loop.create_future()
        self._pieces.put((data, written))
        await written

    def __enter__(self) -> StreamWriter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pieces.put(None)

    def _write_all(self) -> None:
        while piece := self._pieces.get():
            data, written = piece
            try:
                self._stream.write(data)
                self._stream.flush()
            except OSError:
                _discard_from_now_on(self._stream)
                self._loop.call_soon_threadsafe(self.broken.set)
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_settle, written)


def _discard_from_now_on(stream: BinaryIO) -> None:
    # What is still in the stream's buffer would fail once more when the process ends, and spoil its exit
    # code.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _settle(written: asyncio.Future[None]) -> None:
    if not written.done():
        written.set_result(None)
