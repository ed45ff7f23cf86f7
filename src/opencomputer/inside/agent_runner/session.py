"""The session: takes commands, runs one turn after the other, and reports how each one ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from . import events
from .commands import BadCommand, Command, Configuration, Configure, Prompt, parse_command
from .engine import Engine, EngineFailed, Engines, Message, begins_turn
from .events import Complain, Emit, Event
from .keeper import EngineKeeper

INTERRUPT_SECONDS = 10.0
"""How long an engine may take to stop a turn before it is replaced."""

QUIET_SECONDS = 60.0
"""How long a prompt waits for a turn that the engine began by itself."""

Result = TypeVar("Result")


def _unheeded_future() -> asyncio.Future[Message]:
    """A future whose failure may stay unread without a warning on standard error."""
    future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    future.add_done_callback(_ignore_failure)
    return future


def _ignore_failure(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


@dataclass(frozen=True)
class Turn:
    """One prompt on its way. The configuration is the one in force when the turn's time came."""

    text: str
    configuration: Configuration
    resume: str | None
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: asyncio.Future[Message] = field(default_factory=_unheeded_future)

    def anew(self) -> Turn:
        """The same prompt, to be asked another engine."""
        return replace(self, outcome=_unheeded_future())


class Session:
    """One conversation with an agent, from the first command to the end of input.

    Every prompt is answered by exactly one of turn_complete, interrupted and error, after all messages of
    its turn. Those events carry `pending_prompts` while further prompts wait.
    """

    def __init__(self, engines: Engines, emit: Emit, complain: Complain) -> None:
        self._emit = emit
        self._complain = complain
        self._keeper = EngineKeeper(engines, self, complain)
        self._configuration = Configuration()
        self._resume: str | None = None
        self._waiting: deque[Prompt] = deque()
        self._turn: Turn | None = None
        self._asked = False
        """The engine has been given the running turn's prompt."""
        self._worked = False
        """The engine has done something about it, which may have had effects."""
        self._quiet = asyncio.Event()
        """Clear while the engine works without having been asked, on news of a background task."""
        self._quiet.set()
        self._work = asyncio.Event()
        self._input_ended = False

    async def run(self, lines: AsyncIterator[bytes | None]) -> None:
        """Obey commands until the input ends and the prompts it brought are answered."""
        reader = asyncio.ensure_future(self._read(lines))
        worker = asyncio.ensure_future(self._run_turns())
        try:
            self._warm_up()
            await asyncio.wait([reader, worker], return_when=asyncio.FIRST_EXCEPTION)
            reader.result()
            worker.result()
        finally:
            reader.cancel()
            worker.cancel()
            await self._keeper.close()

    def heard(self, message: Message) -> None:
        """The engine said something: pass it on, and notice when a turn is over."""
        self._emit(message)
        turn = self._turn if self._asked else None
        self._worked = self._worked or message.get("type") != "system"
        if message.get("type") == "result":
            self._quiet.set()
            if turn is not None and not turn.outcome.done():
                turn.outcome.set_result(message)
        elif turn is None and begins_turn(message):
            self._quiet.clear()

    def ended(self, reason: EngineFailed) -> None:
        """The engine is gone: a turn it was working on has failed."""
        self._quiet.set()
        if self._turn is not None and self._asked and not self._turn.outcome.done():
            self._turn.outcome.set_exception(reason)

    async def _read(self, lines: AsyncIterator[bytes | None]) -> None:
        async for line in lines:
            self._take(line)
        self._input_ended = True
        self._work.set()

    def _take(self, line: bytes | None) -> None:
        try:
            if line is None:
                raise BadCommand("the line is too long")
            if line.strip():
                self._obey(parse_command(line))
        except BadCommand as error:
            outstanding = len(self._waiting) + (self._turn is not None)
            self._emit(events.error(str(error), outstanding))

    def _obey(self, command: Command) -> None:
        if isinstance(command, Configure):
            self._configuration = command.applied_to(self._configuration)
            self._resume = command.resume or self._resume
            self._emit(events.CONFIGURED)
            self._warm_up()
        elif isinstance(command, Prompt):
            self._waiting.append(command)
            if self._turn is None:
                self._begin_next()
        elif self._turn is not None:
            self._turn.interrupted.set()
        else:
            self._emit(events.interrupted(0))

    def _warm_up(self) -> None:
        if self._turn is None:
            self._keeper.in_background(self._keeper.warm_up(self._wanted))

    def _wanted(self) -> tuple[Configuration, str | None] | None:
        return None if self._turn is not None else (self._configuration, self._resume)

    def _begin_next(self) -> None:
        self._asked = False
        self._turn = None
        if self._waiting:
            prompt = self._waiting.popleft()
            resume, self._resume = prompt.resume or self._resume, None
            self._turn = Turn(prompt.text, self._configuration, resume)
            self._work.set()

    async def _run_turns(self) -> None:
        while True:
            while self._turn is not None:
                self._emit(await self._run(self._turn))
                self._begin_next()
            if self._input_ended:
                return
            self._work.clear()
            await self._work.wait()

    async def _run(self, turn: Turn) -> Event:
        """Run one turn to its end; the event says which.

        An engine that ends before it has done anything is replaced once: nothing is done twice by that.
        """
        try:
            return await self._attempt(turn)
        except EngineFailed as error:
            if not self._asked or self._worked:
                return self._failed(error)
            self._tell(error, "the agent engine is started again")
        await self._keeper.give_up()
        self._asked = False
        self._turn = turn.anew()
        try:
            return await self._attempt(self._turn)
        except EngineFailed as error:
            return self._failed(error)

    async def _attempt(self, turn: Turn) -> Event:
        engine = await self._unless_interrupted(turn, self._keeper.ready(turn.configuration, turn.resume))
        if engine is None or await self._unless_interrupted(turn, self._become_quiet()) is None:
            return events.interrupted(len(self._waiting))
        self._asked, self._worked = True, False
        result = await self._unless_interrupted(turn, _answered(turn, engine))
        if result is None:
            await self._stop(turn, engine)
            return events.interrupted(len(self._waiting))
        if result.get("is_error") is True:
            raise EngineFailed(_failure(result), engine.drain_log())
        engine.drain_log()
        return events.turn_complete(self._keeper.session_id, len(self._waiting))

    def _failed(self, error: EngineFailed) -> Event:
        self._tell(error, "the turn failed")
        return events.error(str(error), len(self._waiting))

    def _tell(self, error: EngineFailed, consequence: str) -> None:
        for line in (*error.log, f"{consequence}: {error}"):
            self._complain(line)

    async def _become_quiet(self) -> bool:
        waiting = asyncio.ensure_future(self._quiet.wait())
        await asyncio.wait([waiting], timeout=QUIET_SECONDS)
        waiting.cancel()
        return True

    async def _unless_interrupted(self, turn: Turn, work: Coroutine[Any, Any, Result]) -> Result | None:
        """The result of `work`, or None once the turn is interrupted; then the work goes on unheeded."""
        doing = self._keeper.in_background(work)
        interruption = asyncio.ensure_future(turn.interrupted.wait())
        try:
            await asyncio.wait([doing, interruption], return_when=asyncio.FIRST_COMPLETED)
        finally:
            interruption.cancel()
        if turn.interrupted.is_set():
            doing.add_done_callback(_ignore_failure)
            return None
        return doing.result()

    async def _stop(self, turn: Turn, engine: Engine) -> None:
        """Have the engine stop the turn, or get rid of the engine."""
        stopping = self._keeper.in_background(_stopped(turn, engine))
        await asyncio.wait([stopping], timeout=INTERRUPT_SECONDS)
        if not stopping.done():
            self._complain("the agent engine did not stop when interrupted and is restarted")
            stopping.cancel()
            await self._keeper.give_up()
        elif stopping.exception() is not None:
            await self._keeper.give_up()
        turn.outcome.cancel()


async def _answered(turn: Turn, engine: Engine) -> Message:
    await engine.prompt(turn.text)
    return await turn.outcome


async def _stopped(turn: Turn, engine: Engine) -> None:
    await engine.interrupt()
    await asyncio.wait([turn.outcome])


def _failure(result: Message) -> str:
    """Why a turn failed, from its result: the engine has several places for it."""
    errors = result.get("errors")
    if isinstance(errors, list) and errors:
        return "; ".join(str(error) for error in errors)
    for name in ("result", "subtype"):
        text = result.get(name)
        if isinstance(text, str) and text.strip() and text != "success":
            return text.strip()
    return "the turn failed"
