"""One request of a brain, from opening its tools to its last line (agent-sessions.md section 4.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from opencomputer.server.contracts.runtimes import (
    DONE,
    Brain,
    BrainBusy,
    BrainDoneReason,
    BrainFault,
    BrainLine,
    BrainNotReady,
    BrainRequest,
    Hands,
    Runtime,
    Translated,
    Translator,
)
from opencomputer.server.contracts.tools import OpenTools, ToolScope
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.endings import RunEnd, reason_of_error
from opencomputer.server.domain.sessions.fold import added
from opencomputer.server.domain.sessions.session import Session, Turn, Usage
from opencomputer.server.services.sessions.health import falls_silent, while_healthy
from opencomputer.server.services.sessions.lease import Lease
from opencomputer.server.services.sessions.turn_parts import TurnParts
from opencomputer.server.services.sessions.writer import TurnLog

PROVISION_SECONDS = 300.0
_MOST_LINES = 100_000


@dataclass(frozen=True)
class RunInput:
    texts: Sequence[str]
    resume: bool


class BrainRuns:
    """Requests of the brain of one turn, one after the other. `usage` is what all of them took so far."""

    def __init__(self, parts: TurnParts, runtime: Runtime, lease: Lease) -> None:
        self._parts = parts
        self._runtime = runtime
        self._lease = lease
        self.brain: Brain | None = None
        self.usage: Usage | None = None
        self.asked = False

    async def prepare(self, session: Session) -> Brain:
        """Have a brain that is ready. Raises BrainNotReady, and what making a sandbox raises."""
        try:
            async with asyncio.timeout(PROVISION_SECONDS):
                self.brain = await self._parts.boxes.brain(await self._now(session), self._runtime)
        except TimeoutError:
            raise BrainNotReady("The agent's sandbox was not ready within five minutes.") from None
        return self.brain

    async def run(self, session: Session, turn: Turn, input: RunInput) -> RunEnd:
        """Have the brain work. Returns when everything it did is committed.

        Raises BrainFault, BrainBusy, Fenced, and what making a sandbox raises.
        """
        async with TurnLog(self._parts.turns, self._lease, self._parts.clock) as log:
            async with self._parts.desk.open(self._scope(session, turn, log)) as tools:
                try:
                    end = await self._answer(session, self._request(turn, session, input, tools), log)
                finally:
                    self.asked = self.asked or tools.asked
            await log.flush()
            return replace(end, asked=self.asked)

    async def _answer(self, session: Session, request: BrainRequest, log: TurnLog) -> RunEnd:
        brain = self.brain or await self.prepare(session)
        try:
            return await while_healthy(brain, self._read(brain, request, log))
        except BrainBusy:
            if not await falls_silent(brain, self._parts.clock):
                await self._parts.boxes.kill_brain(session)
                brain = await self.prepare(session)
        return await while_healthy(brain, self._read(brain, request, log))

    async def _read(self, brain: Brain, request: BrainRequest, log: TurnLog) -> RunEnd:
        translator = self._runtime.translator()
        end = RunEnd(BrainDoneReason.QUIESCENT)
        count = 0
        async with brain.turn(request) as lines:
            async for line in lines:
                count += 1
                if count > _MOST_LINES:
                    raise BrainFault("The agent's engine says too much.")
                meaning = _translated(translator, line)
                self.usage = added_to(self.usage, meaning.usage)
                await log.put(*meaning.events)
                end = _with(end, meaning)
                if line.kind == DONE:
                    return _done(end, line)
        raise BrainFault("The agent's engine broke off.")

    def _request(self, turn: Turn, session: Session, input: RunInput, tools: OpenTools) -> BrainRequest:
        return BrainRequest(
            turn_id=turn.id,
            input=input.texts,
            model=session.agent.model,
            system_prompt=self._runtime.system_prompt(session.agent),
            mcp_endpoint=tools.url,
            resume=input.resume,
            endpoint_profile=self._runtime.endpoint(self._parts.gateway_url),
        )

    def _scope(self, session: Session, turn: Turn, log: TurnLog) -> ToolScope:
        async def hands() -> Hands:
            return await self._parts.boxes.hands(await self._now(session))

        deadline_at = turn.deadline_at
        if deadline_at is None:
            raise ValueError("a turn that runs has a deadline")
        return ToolScope(session, turn, log, hands, deadline_at)

    async def _now(self, session: Session) -> Session:
        found = await self._parts.sessions.find(session.id)
        if found is None:
            raise NotFound
        return found


def added_to(total: Usage | None, more: Usage | None) -> Usage | None:
    """Both together. None: nothing was reported."""
    if total is None or more is None:
        return more if total is None else total
    return added(total, more)


def _translated(translator: Translator, line: BrainLine) -> Translated:
    try:
        return translator.translate(line)
    except Exception as error:
        # Whatever a brain sends: it must not be able to do more than end its request.
        raise BrainFault("What the agent's engine says cannot be read.") from error


def _with(end: RunEnd, meaning: Translated) -> RunEnd:
    return replace(
        end,
        text=meaning.text or end.text,
        step_cap=end.step_cap or meaning.step_cap,
        model_error=meaning.error or end.model_error,
    )


def _done(end: RunEnd, line: BrainLine) -> RunEnd:
    reason = line.message.get("reason")
    known = (BrainDoneReason.QUIESCENT, BrainDoneReason.AWAITING_INPUT, BrainDoneReason.ERROR)
    if reason not in known:
        raise BrainFault("What the agent's engine says of its end cannot be read.")
    return replace(end, reason=reason, error=reason_of_error(line.message.get("error")))
