"""A session with engines that do what the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from opencomputer.inside.agent_runner.commands import Configuration
from opencomputer.inside.agent_runner.engine import EngineFailed, Message
from opencomputer.inside.agent_runner.session import Session

PATIENCE_SECONDS = 5.0


class FakeEngine:
    """An engine whose messages the test writes."""

    def __init__(
        self, configuration: Configuration, resume: str | None, session_id: str, asked: asyncio.Event
    ) -> None:
        self.asked = asked
        self.configuration = configuration
        self.resume = resume
        self.session_id = session_id
        self.prompts: asyncio.Queue[str] = asyncio.Queue()
        self.interrupts = 0
        self.closed = False
        self.adapts = False
        self.stops_when_interrupted = True
        self._messages: asyncio.Queue[Message | EngineFailed | None] = asyncio.Queue()

    def say(self, kind: str, **fields: Any) -> None:
        self._messages.put_nowait({"type": kind, "session_id": self.session_id, **fields})

    def begin(self) -> None:
        self.say("system", subtype="init")

    def finish(self, **fields: Any) -> None:
        self.say("result", **{"subtype": "success", "is_error": False, **fields})

    def crash(self, message: str, log: Sequence[str] = ()) -> None:
        self._messages.put_nowait(EngineFailed(message, log))

    async def messages(self) -> AsyncIterator[Message]:
        while (message := await self._messages.get()) is not None:
            if isinstance(message, EngineFailed):
                raise message
            yield message

    async def prompt(self, text: str) -> None:
        if self.closed:
            raise EngineFailed("closed")
        self.prompts.put_nowait(text)
        self.asked.set()

    async def interrupt(self) -> None:
        self.interrupts += 1
        if self.stops_when_interrupted:
            self.finish(subtype="error_during_execution", is_error=True)

    async def adapt(self, old: Configuration, new: Configuration) -> bool:
        if self.adapts:
            self.configuration = new
        return self.adapts

    def drain_log(self) -> Sequence[str]:
        return []

    async def close(self) -> None:
        self.closed = True
        self._messages.put_nowait(None)


class FakeEngines:
    """Starts fake engines, one conversation each unless it resumes one it knows."""

    def __init__(self) -> None:
        self.started: list[FakeEngine] = []
        self.failures: list[EngineFailed] = []
        self.known: set[str] = set()
        self.may_start = asyncio.Event()
        self.may_start.set()
        self._changed = asyncio.Event()
        self._asked = asyncio.Event()

    async def prepare(self) -> None:
        pass

    async def start(self, configuration: Configuration, resume: str | None) -> FakeEngine:
        await self.may_start.wait()
        if self.failures:
            raise self.failures.pop(0)
        if resume is not None and resume not in self.known:
            raise EngineFailed(f"no conversation {resume}")
        session_id = resume or f"conversation-{len(self.started) + 1}"
        self.known.add(session_id)
        engine = FakeEngine(configuration, resume, session_id, self._asked)
        self.started.append(engine)
        self._changed.set()
        return engine

    async def number(self, count: int) -> FakeEngine:
        """The engine started as the `count`-th, once it has been."""
        while len(self.started) < count:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), PATIENCE_SECONDS)
        return self.started[count - 1]

    async def asked(self) -> FakeEngine:
        """The latest engine, once any of them has been given a prompt."""
        await asyncio.wait_for(self._asked.wait(), PATIENCE_SECONDS)
        return self.started[-1]


class Harness:
    """A running session: write commands, read events."""

    def __init__(self) -> None:
        self.engines = FakeEngines()
        self.complaints: list[str] = []
        self._events: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._end = object()
        session = Session(self.engines, self._events.put_nowait, self.complaints.append)
        self.running = asyncio.ensure_future(session.run(self._read()))

    async def __aenter__(self) -> Harness:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])

    def write(self, kind: str, **fields: Any) -> None:
        self.write_raw(json.dumps({"type": kind, **fields}).encode())

    def write_raw(self, line: bytes) -> None:
        self._lines.put_nowait(line)

    def end_input(self) -> None:
        self._lines.put_nowait(None)

    async def event(self) -> Mapping[str, Any]:
        """The next event."""
        return await asyncio.wait_for(self._events.get(), PATIENCE_SECONDS)

    async def event_of(self, *kinds: str) -> Mapping[str, Any]:
        """The next event of one of these kinds; others before it are skipped."""
        while (event := await self.event())["type"] not in kinds:
            pass
        return event

    async def turn_with(self, text: str, *, engine: int = 1) -> FakeEngine:
        """Write a prompt and wait until the engine has it."""
        self.write("prompt", text=text)
        asked = await self.engines.number(engine)
        assert await asyncio.wait_for(asked.prompts.get(), PATIENCE_SECONDS) == text
        asked.begin()
        await self.event_of("system")
        return asked

    @property
    def idle(self) -> bool:
        return self._events.empty()

    async def _read(self) -> AsyncIterator[bytes | None]:
        while (line := await self._lines.get()) is not None:
            yield line
