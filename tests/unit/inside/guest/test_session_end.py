"""A process has ended: its session says so, and only once all it wrote has been read."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator
from typing import Any, cast

import pytest

from opencomputer.inside.guest.loop import Loop
from opencomputer.inside.guest.session import QUIET_SECONDS, Session, SessionRequest, Surroundings
from opencomputer.inside.guest.spawning import Started

RUN: dict[str, Any] = {
    "id": "0123abcd",
    "kind": "run",
    "argv": ["program"],
    "environment": {},
    "user": "sandbox",
    "stdin": False,
    "scrollback_bytes": 1 << 20,
    "labels": {},
}


class OnePipe:
    """Stands in for everything around a session: its process is whoever writes into the pipe."""

    def __init__(self) -> None:
        self.loop = Loop()
        reading, self.writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._reading = reading
        self.end: Callable[[int], None] = lambda _status: None

    def start_piped(self, _program: object, *, stdin: bool) -> Started:
        return Started(4711, None, {1: self._reading})

    def register(self, _pid: int, on_end: Callable[[int], None]) -> None:
        self.end = on_end

    def new(self, _session: str) -> OnePipe:
        return self

    def joining(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def rooted_at(self, _pid: int) -> None:
        pass

    def dispose(self) -> None:
        self.loop.stop()

    def session(self) -> Session:
        around = Surroundings(self.loop, cast("Any", self), cast("Any", self), cast("Any", self))
        session = Session(around, SessionRequest(dict(RUN)), lambda _session: None)
        session.start(cast("Any", None))
        return session


@pytest.fixture
def pipe() -> Generator[OnePipe]:
    pipe = OnePipe()
    yield pipe
    pipe.loop.close()


@pytest.fixture
def be_late(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets a moment pass in which the loop did something else."""
    real, lost = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: real() + lost[0])

    def late() -> None:
        lost[0] += 2 * QUIET_SECONDS

    return late


def _output(session: Session) -> bytes:
    piece = session.scrollback.read(0, 1 << 20)
    return b"" if piece is None else piece[2]


def test_output_is_not_lost_when_the_loop_comes_to_it_late(
    pipe: OnePipe, be_late: Callable[[], None]
) -> None:
    """On a busy machine it does other things between the end of a process and reading its pipes."""
    session = pipe.session()
    os.write(pipe.writing, b"all of it")
    pipe.end(0)
    be_late()
    pipe.loop.run()
    assert _output(session) == b"all of it"
    assert session.exit is not None
    assert session.exit.code == 0
    os.close(pipe.writing)


def test_what_a_late_loop_finds_at_the_end_of_the_pipe_is_the_end(
    pipe: OnePipe, be_late: Callable[[], None]
) -> None:
    session = pipe.session()
    os.write(pipe.writing, b"x" * 60_000)
    os.close(pipe.writing)
    pipe.end(256 * 3)
    be_late()
    pipe.loop.run()
    assert session.scrollback.end == 60_000
    assert session.exit is not None
    assert session.exit.code == 3
