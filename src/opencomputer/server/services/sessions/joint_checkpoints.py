"""Going back to the end of a turn, with files, processes and transcript: in the session, or in a fork."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from opencomputer.server.contracts.brain_states import BrainStates
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.sessions import Admission, Admitted, SessionStore
from opencomputer.server.domain.errors import Conflict, InvalidInput, NotFound, OpenComputerError
from opencomputer.server.domain.sessions.errors import SessionArchived, TurnNotKept
from opencomputer.server.domain.sessions.events import SESSION_FORKED, SYSTEM, Level, NewEvent
from opencomputer.server.domain.sessions.naming import new_session_id, new_turn_id
from opencomputer.server.domain.sessions.session import Boxes, Origin, Session, SessionStatus, Turn
from opencomputer.server.services.sandboxes.forks import ForkRequest, Forks
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.server.services.sessions.boxes import SessionBoxes
from opencomputer.server.services.sessions.boxes_sandboxes import Role, box_metadata
from opencomputer.wire.ids import OrgId, SandboxId, SessionId, SnapshotId, TurnId

_log = structlog.get_logger(__name__)

_IDLE_SECONDS = 3600


@dataclass(frozen=True)
class KeptTurn:
    """A turn that there is everything of to go back to."""

    turn: Turn
    hands: SnapshotId
    state: bytes


@dataclass(frozen=True)
class NewFork:
    """`turn_id` None: the newest turn that is kept. `request_hash` stands for the whole request."""

    turn_id: TurnId | None
    request_hash: str
    idempotency_key: str | None = None


@dataclass(frozen=True)
class CheckpointParts:
    """What going back needs."""

    sessions: SessionStore
    states: BrainStates
    boxes: SessionBoxes
    forks: Forks
    lifecycle: Lifecycle
    clock: Clock


class JointCheckpoints:
    """Another organisation's session is NotFound; a turn that is not kept any more is TurnNotKept."""

    def __init__(self, parts: CheckpointParts) -> None:
        self._sessions = parts.sessions
        self._states = parts.states
        self._boxes = parts.boxes
        self._forks = parts.forks
        self._lifecycle = parts.lifecycle
        self._clock = parts.clock

    async def rewind(self, org_id: OrgId, session_id: SessionId, turn_id: TurnId) -> Session:
        """Let the session go on from the end of a turn. The log keeps what came after, and says so.

        Raises SessionArchived, and Conflict while a turn is queued or runs.
        """
        session = await self._session(org_id, session_id)
        if session.archived:
            raise SessionArchived
        if session.status in (SessionStatus.QUEUED, SessionStatus.RUNNING):
            raise Conflict("a session cannot be rewound while a turn is queued or runs")
        kept = await self._kept(session, turn_id)
        hands = await self._restored(org_id, kept.hands, session_id)
        try:
            # It knows too much. If nothing comes of this, it comes back as it was.
            await self._boxes.end_brain(session)
            rewound = await self._sessions.rewind(session_id, turn_id, self._clock.now(), hands=hands)
        except BaseException:
            await self._end(org_id, hands)
            raise
        if rewound.boxes.brain != session.boxes.brain:
            # A turn came and went in between.
            await self._boxes.end_brain(rewound)
        if session.boxes.hands is not None:
            await self._end(org_id, session.boxes.hands)
        return rewound

    async def fork(self, org_id: OrgId, session_id: SessionId, wanted: NewFork) -> Admitted:
        """A new session that goes on from the end of a turn and waits for what it is told.

        The other one is not touched; an archived one has nothing kept.
        """
        earlier = await self._sessions.replay(
            org_id, wanted.request_hash, key=None, idempotency_key=wanted.idempotency_key
        )
        if earlier is not None:
            return Admitted(earlier, replayed=True)
        origin = await self._session(org_id, session_id)
        kept = await self._kept(origin, wanted.turn_id or await self._newest_kept(origin))
        fork_id = new_session_id()
        hands = await self._restored(org_id, kept.hands, fork_id)
        try:
            await self._states.put(fork_id, kept.turn.id, kept.state)
            admitted = await self._sessions.admit(self._admission(origin, kept.turn, fork_id, hands, wanted))
        except BaseException:
            await self._undo(org_id, fork_id, kept.turn.id, hands)
            raise
        if admitted.replayed:
            await self._undo(org_id, fork_id, kept.turn.id, hands)
        return admitted

    def _admission(
        self, origin: Session, turn: Turn, fork_id: SessionId, hands: SandboxId, wanted: NewFork
    ) -> Admission:
        now = self._clock.now()
        session = Session(
            id=fork_id,
            org_id=origin.org_id,
            agent=origin.agent,
            status=SessionStatus.IDLE,
            head=0,
            input_cursor=0,
            epoch=0,
            created_at=now,
            updated_at=now,
            limits=origin.limits,
            metadata=origin.metadata,
            boxes=Boxes(hands=hands),
            origin=Origin(origin.id, turn.id),
            resume_from=turn.id,
        )
        body = {
            "session_id": origin.id,
            "turn_id": turn.id,
            "summary": f"forked from {origin.id} at the end of {turn.id}",
        }
        said = NewEvent(SESSION_FORKED, Level.PROGRESS, body, SYSTEM)
        return Admission(session, said, new_turn_id(), wanted.request_hash, wanted.idempotency_key)

    async def _session(self, org_id: OrgId, session_id: SessionId) -> Session:
        session = await self._sessions.get(org_id, session_id)
        if session is None:
            raise NotFound("there is no such session")
        return session

    async def _newest_kept(self, session: Session) -> TurnId:
        for turn in await self._sessions.turns(session.id, limit=100):
            if turn.checkpoint is not None and turn.state_kept:
                return turn.id
        raise TurnNotKept("no turn of this session is kept")

    async def _kept(self, session: Session, turn_id: TurnId) -> KeptTurn:
        turn = await self._sessions.turn(session.id, turn_id)
        if turn is None:
            raise NotFound("there is no such turn", field="turn")
        if turn.checkpoint is None or not turn.state_kept:
            raise TurnNotKept(field="turn")
        state = await self._states.get(session.id, turn_id)
        if state is None:
            raise TurnNotKept(field="turn")
        return KeptTurn(turn, turn.checkpoint, state)

    async def _restored(self, org_id: OrgId, checkpoint: SnapshotId, session_id: SessionId) -> SandboxId:
        request = ForkRequest(timeout_seconds=_IDLE_SECONDS, metadata=box_metadata(session_id, Role.HANDS))
        try:
            return (await self._forks.from_checkpoint(org_id, checkpoint, request)).sandbox.id
        except (NotFound, InvalidInput) as error:
            raise TurnNotKept(field="turn") from error

    async def _undo(self, org_id: OrgId, fork_id: SessionId, turn_id: TurnId, hands: SandboxId) -> None:
        await self._end(org_id, hands)
        await self._states.remove(fork_id, {turn_id})

    async def _end(self, org_id: OrgId, sandbox_id: SandboxId) -> None:
        try:
            await self._lifecycle.kill(org_id, sandbox_id)
        except OpenComputerError as error:
            _log.warning("hands could not be ended", sandbox=sandbox_id, reason=error.message)
