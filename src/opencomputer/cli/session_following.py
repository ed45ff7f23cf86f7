"""Following a durable session live."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from opencomputer.cli.following import forward_input, interrupts
from opencomputer.cli.output import Output, json_text
from opencomputer.cli.session_view import SessionView, log_line
from opencomputer.sdk.agent_events import LineSplitter
from opencomputer.sdk.durable.client_session import ClientSession
from opencomputer.sdk.durable.events import SessionEvent, TurnCompleted
from opencomputer.sdk.durable.session import Session
from opencomputer.sdk.errors import OpenComputerError
from opencomputer.sdk.http import httpx

_FAILED = frozenset({"error", "budget_exceeded", "deadline_exceeded", "max_turns", "canceled"})


@dataclass(frozen=True)
class Wanted:
    """Which events, from where."""

    level: str = "internal"
    type: str | None = None
    after: int = 0


class EventPrinter:
    """Prints events as they come: as a person reads them, one a line, or one JSON object a line."""

    def __init__(self, output: Output, *, plain: bool = False) -> None:
        self._output = output
        self._plain = plain
        self._view = SessionView()

    def show(self, event: SessionEvent) -> None:
        """Print one event."""
        if self._output.json:
            self._output.line(json_text(event.raw), flush=True)
        elif self._plain:
            self._output.line(log_line(event), flush=True)
        else:
            for line in self._view.lines_of(event):
                self._output.line(self._output.styled(line.content, *line.styles), flush=True)


async def follow(
    session: ClientSession,
    wanted: Wanted,
    printer: EventPrinter,
    until: Callable[[SessionEvent], bool] = lambda event: False,
) -> SessionEvent | None:
    """Print events until one is the last that is wanted, or the person leaves. That event, or None."""
    leaving = asyncio.Event()

    async def pressed() -> None:
        leaving.set()

    async def printed() -> SessionEvent:
        events = session.events(level=wanted.level, type=wanted.type, after=wanted.after)
        try:
            async for event in events:
                printer.show(event)
                if until(event):
                    return event
        finally:
            await events.aclose()
        raise AssertionError("a followed log has no end")

    with interrupts(pressed):
        following, left = asyncio.ensure_future(printed()), asyncio.ensure_future(leaving.wait())
        await asyncio.wait([following, left], return_when=asyncio.FIRST_COMPLETED)
        for task in (following, left):
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
    return following.result() if not following.cancelled() else None


async def follow_first_turn(session: Session, output: Output) -> int:
    """Show what a new session does until its first turn has ended; the exit code says how."""
    ended = await follow(
        session, Wanted(), EventPrinter(output), lambda event: isinstance(event, TurnCompleted)
    )
    if ended is None:
        output.note(f"It goes on. `oc session attach {session.id}` follows it again.")
        return 0
    return 1 if isinstance(ended, TurnCompleted) and ended.yield_reason in _FAILED else 0


async def attach(session: Session, wanted: Wanted, output: Output) -> None:
    """Show a session's events, and on a terminal say what is typed to it, until the person leaves."""
    if sys.stdin.isatty():
        forward_input(_Said(session, output).typed)
    await follow(session, wanted, EventPrinter(output))
    output.note(f"Left it. `oc session attach {session.id}` follows it again.")


class _Said:
    """Turns lines that are typed into messages."""

    def __init__(self, session: Session, output: Output) -> None:
        self._session = session
        self._output = output
        self._lines = LineSplitter()

    async def typed(self, data: bytes) -> None:
        """Take what was typed."""
        for line in self._lines.feed(data):
            words = line.decode("utf-8", errors="replace").strip()
            if not words:
                continue
            try:
                await self._session.steer(words)
            except OpenComputerError as error:
                self._output.note(f"Not said: {error.message}")
            except httpx.TransportError as error:
                self._output.note(f"Not said: the server cannot be reached: {error}")
