"""What is kept of the turns of a session: the state of its brain, and checkpoints of its hands."""

from __future__ import annotations

from collections.abc import Sequence

from opencomputer.server.contracts.brain_states import BrainStates
from opencomputer.server.contracts.sessions import SessionStore
from opencomputer.server.contracts.stores import SnapshotStore
from opencomputer.server.domain.errors import InvalidInput, OpenComputerError
from opencomputer.server.domain.sessions.session import Session, Turn
from opencomputer.server.domain.snapshot import Retention, SnapshotKind, SnapshotState
from opencomputer.server.services.sandboxes.checkpoints import Checkpoints, NewCheckpoint
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.wire.ids import SessionId, SnapshotId, TurnId

_LATEST_STATES = 2
_PAGE = 100
_LOOKED_AT = 1000
"""Turns that are looked at for what is kept of them. What falls out of sight was let go long before."""
_WAITS = 4
_TURN_PREFIX = "trn_"
_UNLIMITED = Retention(maximum=1 << 30)
"""Of turns' checkpoints, which are counted here; those that people make are theirs."""


class KeptTurns:
    def __init__(
        self, store: SessionStore, states: BrainStates, checkpoints: Checkpoints, snapshots: SnapshotStore
    ) -> None:
        self._store = store
        self._states = states
        self._checkpoints = checkpoints
        self._snapshots = snapshots

    async def tidy_states(self, session: Session, latest: TurnId) -> None:
        """Forget states that neither recovery nor a kept checkpoint needs. `latest` has just been kept."""
        present = await self._states.turns(session.id)
        turns = await self._store.turns(session.id, limit=_PAGE)
        recent = [turn.id for turn in turns if turn.id in present and turn.id != latest]
        pinned = [turn.id for turn in turns if turn.checkpoint is not None]
        wanted = {latest, *recent[: _LATEST_STATES - 1], *pinned[: session.agent.checkpoints_kept]}
        current = await self._store.find(session.id)
        for each in (session, current):
            if each is not None and each.resume_from is not None:
                wanted.add(each.resume_from)
        superfluous = present - wanted
        if superfluous:
            await self._store.forget_kept(session.id, states=superfluous, checkpoints=frozenset())
            await self._states.remove(session.id, superfluous)

    async def checkpoint(self, session: Session, turn_id: TurnId, hands: LiveSandbox) -> SnapshotId:
        """Save the hands as they are, with their processes where that is possible. Durable on return.

        Raises what `Checkpoints` raises when not even their files could be saved.
        """
        for each in await self._snapshots.checkpoints(session.org_id, hands.id):
            if each.name == turn_id:
                # Of an attempt of this turn that did not come to its end.
                await self._snapshots.remove(each.id)
        try:
            made = await self._save(session, turn_id, hands, SnapshotKind.FULL)
        except OpenComputerError:
            made = await self._save(session, turn_id, hands, SnapshotKind.DISK_ONLY)
        await self._tidy_checkpoints(session, hands, made)
        return made

    async def _save(
        self, session: Session, turn_id: TurnId, hands: LiveSandbox, kind: SnapshotKind
    ) -> SnapshotId:
        request = NewCheckpoint(turn_id, kind, _UNLIMITED)
        snapshot = await self._checkpoints.create(session.org_id, hands.id, request)
        try:
            await self._ready(session, snapshot.id)
        except BaseException:
            await self._snapshots.remove(snapshot.id)
            raise
        return snapshot.id

    async def _ready(self, session: Session, snapshot_id: SnapshotId) -> None:
        for _ in range(_WAITS):
            try:
                await self._checkpoints.usable(session.org_id, snapshot_id)
                return
            except InvalidInput as error:
                if error.details.get("status") != SnapshotState.PROCESSING:
                    raise
        raise InvalidInput("the checkpoint took too long")

    async def _tidy_checkpoints(self, session: Session, hands: LiveSandbox, latest: SnapshotId) -> None:
        """Keep the last ones; of this machine, remove also what no turn knows of."""
        turns = await self._all_turns(session.id)
        known = {turn.checkpoint: turn.id for turn in turns if turn.checkpoint is not None}
        others = [each for each in known if each != latest]
        wanted = {latest, *others[: session.agent.checkpoints_kept - 1]}
        gone = frozenset(known[each] for each in others if each not in wanted)
        await self._store.forget_kept(session.id, states=frozenset(), checkpoints=gone)
        here = await self._snapshots.checkpoints(session.org_id, hands.id)
        ours = [each.id for each in here if each.name.startswith(_TURN_PREFIX)]
        for snapshot_id in {*others, *ours} - wanted:
            await self._snapshots.remove(snapshot_id)

    async def forget_all(self, session: Session) -> None:
        """Nothing is to be gone back to any more."""
        for turn in await self._all_turns(session.id):
            if turn.checkpoint is not None:
                await self._snapshots.remove(turn.checkpoint)
        await self._states.remove(session.id, await self._states.turns(session.id))

    async def _all_turns(self, session_id: SessionId) -> Sequence[Turn]:
        """Newest first."""
        turns: list[Turn] = []
        while len(turns) < _LOOKED_AT:
            page = await self._store.turns(session_id, limit=_PAGE, before=turns[-1] if turns else None)
            turns += page
            if len(page) < _PAGE:
                break
        return turns
