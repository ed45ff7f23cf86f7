"""Keeps one engine connected across turns and replaces it when the configuration or a resume demands it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from .commands import Configuration
from .engine import Engine, EngineFailed, Engines, Message, begins_turn
from .events import Complain


class Listener(Protocol):
    """Hears what the kept engine says."""

    def heard(self, message: Message) -> None: ...

    def ended(self, reason: EngineFailed) -> None:
        """The engine ended by itself, for whatever reason."""
        ...


class EngineKeeper:
    """At most one engine at a time, started when needed and kept for the next turn."""

    def __init__(self, engines: Engines, listener: Listener, complain: Complain) -> None:
        self._engines = engines
        self._listener = listener
        self._complain = complain
        self._engine: Engine | None = None
        self._configuration = Configuration()
        self._session_id: str | None = None
        self._changing = asyncio.Lock()
        self._background: set[asyncio.Task[Any]] = set()

    @property
    def session_id(self) -> str | None:
        """The conversation so far: what the next engine will resume."""
        return self._session_id

    async def warm_up(self, wanted: Callable[[], tuple[Configuration, str | None] | None]) -> None:
        """Have an engine ready before it is needed. `wanted` is asked as late as possible; None is enough.

        Failures are not reported: the turn which needs the engine will run into them itself.
        """
        async with self._changing:
            try:
                await self._engines.prepare()
                if (now := wanted()) is not None:
                    await self._fit(*now)
            except EngineFailed:
                pass

    async def ready(self, configuration: Configuration, resume: str | None) -> Engine:
        """The engine for a turn with this configuration, in the conversation `resume` or the one so far.

        A conversation that cannot be resumed is given up with a complaint. Raises EngineFailed.
        """
        async with self._changing:
            await self._engines.prepare()
            try:
                return await self._fit(configuration, resume)
            except EngineFailed as error:
                lost = resume or self._session_id
                if lost is None:
                    raise
                engine = await self._start(configuration, None)
                self._complain(f"conversation {lost} could not be resumed, a new one begins: {error}")
                return engine

    async def give_up(self) -> None:
        """Get rid of an engine that does not react. The next one resumes its conversation."""
        async with self._changing:
            await self._close()

    async def close(self) -> None:
        """End the engine and whatever goes on in the background. Idempotent."""
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._close()

    def in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something that outlives its caller but not the keeper."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _fit(self, configuration: Configuration, resume: str | None) -> Engine:
        if self._engine is not None and resume in (None, self._session_id):
            if configuration == self._configuration:
                return self._engine
            if await self._engine.adapt(self._configuration, configuration):
                self._configuration = configuration
                return self._engine
        return await self._start(configuration, resume or self._session_id)

    async def _start(self, configuration: Configuration, resume: str | None) -> Engine:
        await self._close()
        engine = await self._engines.start(configuration, resume)
        self._engine, self._configuration, self._session_id = engine, configuration, resume
        self.in_background(self._listen(engine))
        return engine

    async def _close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await self._end(engine)

    async def _end(self, engine: Engine) -> None:
        try:
            await engine.close()
        except EngineFailed as error:
            self._complain(f"the agent engine did not end in an orderly way: {error}")

    async def _listen(self, engine: Engine) -> None:
        reason = EngineFailed("the agent engine ended")
        try:
            async for message in engine.messages():
                if engine is not self._engine:
                    continue
                self._remember(message)
                self._listener.heard(message)
        except EngineFailed as error:
            reason = error
        if engine is self._engine:
            self._engine = None
            self._listener.ended(reason)
            await self._end(engine)

    def _remember(self, message: Message) -> None:
        # Other messages name a conversation too, but before its first turn there is nothing to resume.
        session_id = message.get("session_id")
        if isinstance(session_id, str) and (begins_turn(message) or message.get("type") == "result"):
            self._session_id = session_id
