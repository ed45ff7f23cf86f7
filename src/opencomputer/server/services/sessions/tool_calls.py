"""The tools of one request of a brain, while they are served.

Everything that comes in here was said by a brain: it counts for no more than a wish of its session.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog
from pydantic import BaseModel, ValidationError

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.runtimes import Hands
from opencomputer.server.contracts.sessions import Fenced
from opencomputer.server.contracts.tools import ToolScope
from opencomputer.server.domain.errors import Interrupted, MachineLost, OpenComputerError
from opencomputer.server.domain.sessions.events import Level
from opencomputer.server.domain.sessions.tool_events import ToolCall, answered, called, message, unknown
from opencomputer.server.services.sessions.tool_kinds import (
    LONGEST_COMMAND,
    TOOLS,
    Outcome,
    ToolAnswer,
    file_outcome,
    run_bash,
    use_file,
)
from opencomputer.wire.ids import EventId
from opencomputer.wire.tools import AskArguments, BashArguments, SayArguments

_log = structlog.get_logger(__name__)

_T = TypeVar("_T")

_FILE_SECONDS = 60.0
_GRACE_SECONDS = 30.0
"""What the hands may take longer for a command than it has itself, before nobody waits any more."""
_CLOSING_SECONDS = 10.0
_AT_ONCE = 8
_MOST_CALLS = 1000
_KEPT_CHARACTERS = 4 << 20

OVER = ToolAnswer("this turn is over; tools cannot be used any more", is_error=True)
_TOO_MANY = ToolAnswer("too many tools were used in this turn; bring it to an end", is_error=True)
_ASKED = ToolAnswer(
    "you have asked the user a question: stop now, the answer comes with their next message", is_error=True
)
_FORGOTTEN = ToolAnswer("this call was answered before, and the answer is not kept any more", is_error=True)
_FAILED = ToolAnswer("the tool failed; whether it took effect is unknown", is_error=True)
_HANDS_NEW = (
    "[The work machine was lost and there is a new one. Files that were not saved elsewhere are gone, and "
    "nothing that you started runs any more.]\n"
)
_HANDS_LOST = (
    "the work machine was lost while this ran, and whether it took effect is unknown; the next call gets a "
    "new machine, without the files of this one"
)
_GIVEN_UP = "the turn ended while this ran; its outcome is unknown"
_TOOK_TOO_LONG = "the work machine did not answer in time; whether this took effect is unknown"


@dataclass(frozen=True)
class ToolRequest:
    """A call as it came in. `id` and `meta` are the request's own: the same again is the same request."""

    id: str | int | None
    tool: str
    arguments: dict[str, Any]
    meta: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def digest(self) -> bytes:
        whole = json.dumps([self.id, self.tool, self.arguments, self.meta], sort_keys=True)
        return hashlib.sha256(whole.encode()).digest()


class _Unknown(Exception):
    """Nobody can tell whether the call took effect. Its message is for the model."""


@dataclass
class _Use:
    """One request and its answer: kept, because a client may send a request twice."""

    task: asyncio.Task[ToolAnswer]
    forgotten: bool = False


class OpenDesk:
    """Implements OpenTools."""

    def __init__(self, scope: ToolScope, url: str, said: Counter[str], level: Level, clock: Clock) -> None:
        self._scope = scope
        self._url = url
        self._said = said
        self._level = level
        self._clock = clock
        self._nonce = hashlib.sha256(url.encode()).hexdigest()[:12]
        self._uses: dict[bytes, _Use] = {}
        self._kept = 0
        self._calls = 0
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._closing = asyncio.Event()
        self._hands: Hands | None = None
        self._hands_told: Hands | None = None
        self._reaching = asyncio.Lock()
        self._asked = False
        self._result: EventId | None = None

    @property
    def url(self) -> str:
        return self._url

    @property
    def asked(self) -> bool:
        return self._asked

    @property
    def result_event_id(self) -> EventId | None:
        return self._result

    async def call(self, request: ToolRequest) -> ToolAnswer:
        """Use a tool. Never raises; a caller that gives up waiting does not end the call."""
        if self._closing.is_set():
            return OVER
        use = self._uses.get(request.digest)
        if use is None:
            if len(self._uses) >= _MOST_CALLS:
                return _TOO_MANY
            task = asyncio.create_task(self._answer(request), name="tool call")
            use = self._uses[request.digest] = _Use(task)
        if use.forgotten:
            return _FORGOTTEN
        return await asyncio.shield(use.task)

    def _keep(self, answer: ToolAnswer) -> ToolAnswer:
        """Keep not too much of what may never be asked for again."""
        self._kept += len(answer.text)
        for use in self._uses.values():
            if self._kept <= _KEPT_CHARACTERS:
                break
            if use.task.done() and not use.forgotten:
                self._kept -= len(use.task.result().text)
                use.forgotten = True
        return answer

    async def close(self) -> None:
        """Take no call any more, and give up those in flight. Idempotent."""
        self._closing.set()
        tasks = [use.task for use in self._uses.values() if not use.task.done()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=_CLOSING_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _answer(self, request: ToolRequest) -> ToolAnswer:
        try:
            async with self._room:
                return self._keep(await self._use(request))
        except Fenced:
            # Somebody else has the turn: this one says nothing any more.
            self._closing.set()
            return OVER
        except OpenComputerError as error:
            _log.warning("tool call failed", tool=request.tool, reason=error.message)
            return _FAILED
        except Exception:
            _log.exception("tool call failed", tool=request.tool)
            return _FAILED

    async def _use(self, request: ToolRequest) -> ToolAnswer:
        kind = TOOLS.get(request.tool)
        if kind is None:
            return ToolAnswer(f"there is no tool of this name; there are {', '.join(TOOLS)}", is_error=True)
        try:
            wanted = kind.arguments.model_validate(request.arguments)
        except ValidationError as error:
            return ToolAnswer(_faults(error), is_error=True)
        if self._closing.is_set():
            return OVER
        if isinstance(wanted, SayArguments | AskArguments):
            return await self._tell(wanted.text, asking=isinstance(wanted, AskArguments))
        if self._asked:
            return _ASKED
        self._calls += 1
        call = ToolCall(
            id=f"{self._nonce}.{self._calls}",
            turn_id=self._scope.turn.id,
            tool=kind.name,
            arguments=wanted.model_dump(exclude_none=True),
            level=self._level,
        )
        return await self._perform(call, wanted)

    async def _tell(self, text: str, *, asking: bool) -> ToolAnswer:
        if self._asked:
            return _ASKED
        self._asked = asking
        kind = f"{'ask' if asking else 'say'}:{hashlib.sha256(text.encode()).hexdigest()}"
        self._said[kind] += 1
        event = message(self._scope.turn.id, text, self._said[kind], awaiting_input=asking)
        try:
            [event_id] = await self._scope.writer.write(event)
        except BaseException:
            self._said[kind] -= 1
            self._asked = False
            raise
        self._result = EventId(event_id)
        return ToolAnswer("asked; stop now, the answer comes with the next message" if asking else "sent")

    async def _perform(self, call: ToolCall, wanted: BaseModel) -> ToolAnswer:
        await self._scope.writer.write(called(call))
        began = self._clock.monotonic()
        try:
            outcome = await self._unless_closed(self._work(call, wanted, began))
        except _Unknown as error:
            outcome = Outcome(unknown(call, str(error)), ToolAnswer(str(error), is_error=True))
        except OpenComputerError as error:
            event = answered(call, error.message, self._milliseconds(began), is_error=True)
            outcome = Outcome(event, ToolAnswer(error.message, is_error=True))
        await self._scope.writer.write(outcome.event)
        return self._with_notice(outcome.answer)

    async def _unless_closed(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do work until the tools are closed. Raises _Unknown then, and for whatever was not foreseen."""
        task = asyncio.create_task(work)
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait([task, closing], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise _Unknown(_GIVEN_UP)
            return task.result()
        except (OpenComputerError, _Unknown):
            raise
        except Exception as error:
            _log.exception("tool call failed")
            raise _Unknown(_FAILED.text) from error
        finally:
            for each in (task, closing):
                each.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(task, closing, return_exceptions=True)

    async def _work(self, call: ToolCall, wanted: BaseModel, began: float) -> Outcome:
        hands = await self._reach()
        left = (self._scope.deadline_at - self._clock.now()).total_seconds()
        if left <= 0:
            raise OpenComputerError("the turn has no time left")
        try:
            if isinstance(wanted, BashArguments):
                most = min(LONGEST_COMMAND.total_seconds(), left)
                async with asyncio.timeout(most + _GRACE_SECONDS):
                    return await run_bash(call, wanted, hands, most)
            async with asyncio.timeout(_FILE_SECONDS):
                answer = await use_file(wanted, hands)
                return file_outcome(call, wanted, answer, self._milliseconds(began))
        except TimeoutError as error:
            raise _Unknown(_TOOK_TOO_LONG) from error
        except (MachineLost, Interrupted) as error:
            self._hands = None
            raise _Unknown(_HANDS_LOST if isinstance(error, MachineLost) else error.message) from error

    async def _reach(self) -> Hands:
        async with self._reaching:
            if self._hands is None:
                self._hands = await self._scope.hands()
            return self._hands

    def _with_notice(self, answer: ToolAnswer) -> ToolAnswer:
        """Tell once of hands that are new."""
        hands = self._hands
        if hands is None or hands is self._hands_told or not hands.lost_before:
            return answer
        self._hands_told = hands
        return ToolAnswer(_HANDS_NEW + answer.text, answer.is_error)

    def _milliseconds(self, began: float) -> int:
        return round(1000 * (self._clock.monotonic() - began))


def _faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in faults)
