"""Terminals of the fake: a real pseudo-terminal with a process of the test's own."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Sequence
from contextlib import suppress


class FakeTerminal:
    """One terminal. Output that nobody has read yet waits for the next reader."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.output: asyncio.Queue[bytes] = asyncio.Queue()
        self.history = b""
        self.deleted = False
        self.link_broken = False
        self.not_ready = False
        self._process: asyncio.subprocess.Process | None = None
        self._master = -1

    async def start(self, argv: Sequence[str], size: tuple[int, int]) -> None:
        """Open the terminal and start the process on it."""
        self._master, slave = os.openpty()
        self.resize(size)
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "PS1": "$ ", "HOME": "/"}
        self._process = await asyncio.create_subprocess_exec(
            "setsid", "--ctty", "--wait", *argv, stdin=slave, stdout=slave, stderr=slave, env=environment
        )
        os.close(slave)
        os.set_blocking(self._master, False)
        asyncio.get_running_loop().add_reader(self._master, self._readable)

    def resize(self, size: tuple[int, int]) -> None:
        """Set columns and rows."""
        columns, rows = size
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, data: bytes) -> None:
        """Type into the terminal."""
        with suppress(OSError):
            os.write(self._master, data)

    def break_link(self) -> None:
        """Break the reader's link without a word; what is on its way is lost."""
        self.link_broken = True
        self.output.put_nowait(b"")

    async def stop(self) -> None:
        """End the process and close the terminal."""
        self._close()
        if self._process:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _readable(self) -> None:
        try:
            data = os.read(self._master, 65536)
        except OSError:
            data = b""
        self.history += data
        self.output.put_nowait(data)
        if not data:
            self._close()

    def _close(self) -> None:
        if self._master >= 0:
            asyncio.get_running_loop().remove_reader(self._master)
            os.close(self._master)
            self._master = -1
