"""Locks between processes of this host."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


class Held(Exception):
    """Somebody else holds the lock."""


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None] = lambda: None) -> Generator[int]:
    """Hold the lock file `path`; call `on_wait` once if somebody else holds it, then wait.

    Yields its descriptor: a child process that is given it keeps the lock until it ends, whatever becomes
    of us. Blocks the thread it is called in.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def exclusive_now(path: Path) -> Generator[int]:
    """As `exclusive`, without waiting. Raises Held."""

    def give_up() -> None:
        raise Held(str(path))

    with exclusive(path, give_up) as descriptor:
        yield descriptor
