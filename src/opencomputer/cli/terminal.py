"""The terminal that `oc` itself runs on."""

from __future__ import annotations

import os
import termios
import tty
from collections.abc import Generator
from contextlib import contextmanager, suppress

DEFAULT_SIZE = (80, 24)


@contextmanager
def raw_mode(descriptor: int) -> Generator[None]:
    """Pass every key on as it is typed; the terminal is as it was before when this is left, however."""
    before = termios.tcgetattr(descriptor)
    try:
        # What was typed ahead is kept.
        tty.setraw(descriptor, termios.TCSADRAIN)
        yield
    finally:
        # A terminal that was closed meanwhile has nothing to set right.
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def size(descriptor: int) -> tuple[int, int]:
    """Columns and rows; 80 and 24 where they are not known."""
    try:
        columns, rows = os.get_terminal_size(descriptor)
    except OSError:
        return DEFAULT_SIZE
    return (columns, rows) if columns and rows else DEFAULT_SIZE


class EscapeWatcher:
    """Looks for Enter `~` `.` among the keys, as other remote terminals do. `~~` types one `~`."""

    def __init__(self) -> None:
        self._line_begins = True
        self._tilde = False

    def feed(self, keys: bytes) -> tuple[bytes, bool]:
        """The keys to pass on, and whether the escape was typed; keys after it are dropped."""
        passed = bytearray()
        for key in keys:
            if self._tilde:
                self._tilde = False
                if key == ord("."):
                    return bytes(passed), True
                passed += b"~" if key == ord("~") else bytes((ord("~"), key))
                self._line_begins = key in b"\r\n"
            elif self._line_begins and key == ord("~"):
                self._tilde = True
            else:
                passed.append(key)
                self._line_begins = key in b"\r\n"
        return bytes(passed), False
