"""The two sandboxes of a session, whatever state they are in (agent-sessions.md section 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from opencomputer.server.contracts.agents import AgentDirectory
from opencomputer.server.contracts.brain_states import BrainStates
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.runtimes import (
    Brain,
    BrainFault,
    BrainNotReady,
    BrainProgram,
    Hands,
    Runtime,
    SkillFile,
)
from opencomputer.server.domain.errors import GuestFault, MachineLost, OpenComputerError
from opencomputer.server.domain.sessions.events import SANDBOX_RESTORED
from opencomputer.server.domain.sessions.session import Session
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.log_recorder import LogRecorder
from opencomputer.server.services.sandboxes.warm import WarmMachines
from opencomputer.server.services.sessions.boxes_brains import BrainProcesses, program_digest
from opencomputer.server.services.sessions.boxes_hands import SandboxHands
from opencomputer.server.services.sessions.boxes_sandboxes import (
    TEMPLATE,
    Role,
    SessionSandboxes,
    Supply,
)
from opencomputer.server.services.sessions.boxes_state import StateTooLarge, pack, unpack
from opencomputer.server.services.sessions.kept import KeptTurns
from opencomputer.wire.ids import SessionId, TurnId

_log = structlog.get_logger(__name__)

_ATTEMPTS = 3


@dataclass(frozen=True)
class BoxParts:
    """What the boxes are made with."""

    sandboxes: SessionSandboxes
    brains: BrainProcesses
    states: BrainStates
    kept: KeptTurns
    agents: AgentDirectory
    clock: Clock
    warm: WarmMachines | None = None
    recorder: LogRecorder | None = None


class SessionBoxes:
    """Implements BrainBoxes with sandboxes of this node."""

    def __init__(self, parts: BoxParts) -> None:
        self._sandboxes = parts.sandboxes
        self._brains = parts.brains
        self._states = parts.states
        self._kept = parts.kept
        self._agents = parts.agents
        self._warm = parts.warm
        self._clock = parts.clock
        self._recorder = parts.recorder
        self._untold: set[SessionId] = set()

    async def brain(self, session: Session, runtime: Runtime) -> Brain:
        """As BrainBoxes. A machine that is lost on the way is replaced."""
        program = await self._program(session, runtime)
        supply = None if session.agent.skill_bundle_digest else self._supply(program)
        for _ in range(_ATTEMPTS):
            place = await self._sandboxes.ready(session.id, Role.BRAIN, self._restore, supply)
            try:
                return await self._brains.ready(place.live, program)
            except (MachineLost, GuestFault) as error:
                _log.warning("a brain's machine was lost", session=session.id, reason=error.message)
        raise BrainNotReady("the machine of the agent's engine was lost again and again")

    def _supply(self, program: BrainProgram) -> Supply | None:
        """Machines where such a brain runs already. They have no state, and nobody's skills."""
        warm = self._warm
        if warm is None:
            return None
        key = program_digest(program)
        warm.expect(key, TEMPLATE, lambda machine: self._brains.warm_up(machine, program))
        return Supply(
            lambda session: warm.take(key) if session.resume_from is None else None,
            warm.discard,
        )

    async def _program(self, session: Session, runtime: Runtime) -> BrainProgram:
        skills: Sequence[SkillFile] = ()
        if runtime.takes_skills and session.agent.skill_bundle_digest is not None:
            skills = await self._agents.skills(session.org_id, session.agent)
        return runtime.program(session.agent, skills)

    async def _restore(self, session: Session, live: LiveSandbox) -> None:
        """Give a new machine the state that the next turn goes on from."""
        turn_id = session.resume_from
        if turn_id is None:
            return
        state = await self._states.get(session.id, turn_id)
        if state is None:
            raise BrainNotReady("the saved state of the agent's engine is gone")
        try:
            with live.activity.request():
                await unpack(live.machine, state)
        except BrainFault as error:
            raise BrainNotReady(error.message) from error
        await self._sandboxes.note(session.id, SANDBOX_RESTORED, Role.BRAIN, live.id, turn_id=turn_id)

    async def kill_brain(self, session: Session) -> None:
        """As BrainBoxes."""
        try:
            live = await self._sandboxes.running(session, Role.BRAIN)
            if live is not None:
                await self._brains.kill(live)
        except OpenComputerError as error:
            _log.warning("a brain could not be ended", session=session.id, reason=error.message)

    async def end_brain(self, session: Session) -> None:
        """End the machine of the brain: the next turn gets one with the state that it goes on from."""
        await self._sandboxes.end(session.id, Role.BRAIN)

    async def hands(self, session: Session) -> Hands:
        """As BrainBoxes. Raises also what making and waking sandboxes raises."""
        place = await self._sandboxes.ready(session.id, Role.HANDS, _nothing)
        if place.after_loss:
            self._untold.add(session.id)
        return SandboxHands(
            place.live,
            self._clock,
            self._recorder,
            lost_before=session.id in self._untold,
            told=lambda: self._untold.discard(session.id),
        )

    async def keep_state(self, session: Session, turn_id: str) -> bool:
        """As BrainBoxes. Raises BrainFault when the brain is gone, or its state cannot be read."""
        turn = TurnId(turn_id)
        live = await self._sandboxes.running(session, Role.BRAIN)
        if live is None:
            raise BrainFault("the machine of the agent's engine is gone")
        try:
            with live.activity.request():
                state = await pack(live.machine)
        except StateTooLarge as error:
            _log.error("a brain's state is too large to be kept", session=session.id, reason=error.message)
            return False
        except (MachineLost, GuestFault) as error:
            raise BrainFault(error.message) from error
        if state is None:
            return False
        await self._states.put(session.id, turn, state)
        await self._kept.tidy_states(session, turn)
        return True

    async def checkpoint(self, session: Session, turn_id: str) -> str | None:
        """As BrainBoxes. A checkpoint that cannot be made is no reason for a turn to fail: None."""
        if session.agent.checkpoints_kept == 0:
            return None
        try:
            place = await self._sandboxes.ready(session.id, Role.HANDS, _nothing)
            return await self._kept.checkpoint(session, TurnId(turn_id), place.live)
        except OpenComputerError as error:
            _log.warning("a turn's checkpoint failed", session=session.id, reason=error.message)
            return None

    async def rest(self, session: Session) -> None:
        """As BrainBoxes. Raises, once both were tried, what `hibernate` raises: that one stays awake."""
        failure: OpenComputerError | None = None
        for role in Role:
            try:
                await self._sandboxes.rest(session.id, role)
            except OpenComputerError as error:
                failure = error
        if failure is not None:
            raise failure

    async def destroy(self, session: Session) -> None:
        """As BrainBoxes. What is kept of an archived session's turns goes too."""
        for role in Role:
            await self._sandboxes.end(session.id, role)
        if (await self._sandboxes.session(session.id)).archived:
            await self._kept.forget_all(session)


async def _nothing(_session: Session, _live: LiveSandbox) -> None:
    return
