"""Runs the turns that are due, as many at once as this node can (agent-sessions.md sections 4.4, 4.10)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from opencomputer.server.domain.sessions.session import Claim
from opencomputer.server.services.hints import Hint
from opencomputer.server.services.sessions.lease import Lease, lease_end
from opencomputer.server.services.sessions.session_tasks import SessionTasks
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.services.sessions.turn_parts import TurnParts
from opencomputer.server.services.sessions.turns import TurnRunner
from opencomputer.wire.ids import SessionId

_log = structlog.get_logger(__name__)

SWEEP_SECONDS = 30.0
_BATCH = 100


@dataclass(frozen=True)
class EngineSettings:
    """`node` names this node in every life of its process; no two nodes may have the same name."""

    node: str
    most_at_once: int = 32


class TurnEngine:
    """Claims queued turns and runs them. Truth is in the tables; nudges only make it look sooner."""

    def __init__(
        self, parts: TurnParts, tasks: SessionTasks, signals: ProcessSignals, settings: EngineSettings
    ) -> None:
        self._parts = parts
        self._tasks = tasks
        self._signals = signals
        self._settings = settings
        self._runner = TurnRunner(parts)
        self._owner = f"{settings.node}:{secrets.token_hex(8)}"

    async def keep(self) -> None:
        """Run turns until cancelled; then give back what runs, for the next who comes."""
        with self._signals.on_queued() as hint:
            try:
                await self._take_over()
                while True:
                    try:
                        await self.look(hint)
                    except Exception:
                        _log.exception("turns were not looked for; the next look comes soon")
                    await hint.wait(SWEEP_SECONDS)
            finally:
                await self._tasks.close()

    async def look(self, hint: Hint) -> None:
        """Begin with every turn that is due, as far as there is room. `hint` is told when there is more."""
        for session_id in await self._due():
            full = len(self._tasks) >= self._settings.most_at_once
            if full or not self._tasks.start(session_id, lambda of=session_id: self._run_turns(of)):
                self._tasks.tell_when_done(hint)

    async def _take_over(self) -> None:
        # The data folder is locked by one process: whoever held claims in this node's name is dead.
        try:
            await self._parts.turns.disown(f"{self._settings.node}:")
        except Exception:
            _log.exception("claims of this node's earlier life stay until they run out")

    async def _due(self) -> Sequence[SessionId]:
        now, limit = self._parts.clock.now(), _BATCH + len(self._tasks)
        claimable = await self._parts.turns.claimable(now, limit=limit)
        overdue = await self._parts.turns.overdue(now, limit=limit)
        return list(dict.fromkeys([*claimable, *overdue]))

    async def _run_turns(self, session_id: SessionId) -> None:
        """One turn after the other, for as long as there is one."""
        clock = self._parts.clock
        while True:
            claim = await self._parts.turns.claim(session_id, self._owner, clock.now(), lease_end(clock))
            if claim is None:
                return
            await self._run_turn(claim)

    async def _run_turn(self, claim: Claim) -> None:
        with self._signals.on_canceled(claim.session_id) as hint:
            lease = Lease(self._parts.turns, claim, self._parts.clock, hint)
            session = await self._parts.sessions.find(claim.session_id)
            turn = await self._parts.sessions.turn(claim.session_id, claim.turn_id)
            if session is None or turn is None:
                raise ValueError(f"the claimed turn {claim.turn_id} is not there")
            await self._runner.run(lease, session, turn)
