"""`oc` as a process of its own, with pipes or on a terminal."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from types import TracebackType

from tests.support.fake_node import FakeNode

DEADLINE_SECONDS = 60.0
PROGRAM = [sys.executable, "-m", "opencomputer.cli"]


def environment(node: FakeNode) -> Mapping[str, str]:
    """Just what `oc` needs, so that nothing of the person who runs the tests gets in."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "OPENCOMPUTER_API_URL": node.url,
        "OPENCOMPUTER_API_KEY": node.api_key,
        "PYTHONUNBUFFERED": "1",
        "TERM": "xterm-256color",
    }


def start(node: FakeNode, *arguments: str) -> subprocess.Popen[bytes]:
    """Start `oc` on pipes."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*PROGRAM, *arguments], env=environment(node), stdin=pipe, stdout=pipe, stderr=pipe
    )


def finish(process: subprocess.Popen[bytes], given: bytes | None = None) -> tuple[int, bytes, bytes]:
    """Give it its input, wait for its end, and return exit code and both outputs."""
    try:
        out, err = process.communicate(given, timeout=DEADLINE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, err


class OnTerminal:
    """`oc` on a terminal of its own; a context manager that ends it."""

    def __init__(self, node: FakeNode, *arguments: str) -> None:
        self._master, self.slave = os.openpty()
        self.resize(columns=80, rows=24)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self._process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *PROGRAM, *arguments],
            env=environment(node),
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
        )

    def type(self, keys: bytes) -> None:
        """Type keys."""
        os.write(self._master, keys)

    def send(self, signal: int) -> None:
        """Send `oc` a signal."""
        self._process.send_signal(signal)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size, as a window does."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, text: bytes) -> None:
        """Read what appears until the text does."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while text not in self.seen:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not appear in {self.seen!r}"
            self.seen += os.read(self._master, 65536)

    def forget(self) -> None:
        """Forget what was read."""
        self.seen = b""

    def is_raw(self) -> bool:
        """Whether keys are passed on one by one."""
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def wait_until_raw(self) -> None:
        """Wait until keys are passed on one by one."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self.is_raw():
            assert time.monotonic() < deadline, "keys are not passed on"
            time.sleep(0.01)

    def wait(self) -> int:
        """Read on until it ends, and return its exit code."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"did not end; it showed {self.seen!r}"
            if select.select([self._master], [], [], 0.02)[0]:
                self.seen += os.read(self._master, 65536)
        return self._process.returncode

    def __enter__(self) -> OnTerminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._master)
        os.close(self.slave)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(DEADLINE_SECONDS)
