"""The engine's side of sessions in SQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from opencomputer.server.contracts.sessions import Fenced, SessionSignals, TurnFlags
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.events import Event, NewEvent
from opencomputer.server.domain.sessions.fold import changes_state
from opencomputer.server.domain.sessions.session import (
    Claim,
    Completion,
    Session,
    SessionStatus,
    Turn,
    TurnState,
)
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.appending import (
    OpenSession,
    open_session,
    with_last_turns,
)
from opencomputer.server.stores.sql.sessions.ending import NOBODY, end, start
from opencomputer.server.stores.sql.sessions.schema import events, sessions, turns
from opencomputer.server.stores.sql.sessions.telling import SessionWriter
from opencomputer.wire.ids import SessionId

_TO_RUN = [SessionStatus.QUEUED, SessionStatus.RUNNING]
_RESTING = [state for state in SessionStatus if state not in _TO_RUN]


@dataclass(frozen=True)
class _Held:
    session: OpenSession
    turn: Turn


class SqlTurnStore:
    """Implements TurnStore."""

    def __init__(self, database: Database, signals: SessionSignals) -> None:
        self._database = database
        self._writer = SessionWriter(database, signals)
        self._signals = signals

    async def claimable(self, now: datetime, *, limit: int) -> Sequence[SessionId]:
        query = (
            sa.select(sessions.c.id)
            .where(sessions.c.status.in_(_TO_RUN), _free(now))
            .order_by(sessions.c.active_at, sessions.c.id)
            .limit(limit)
        )
        return [SessionId(row.id) for row in await self._database.rows(query)]

    async def claim(self, session_id: SessionId, owner: str, now: datetime, until: datetime) -> Claim | None:
        try:
            async with self._writer.database.write() as connection:
                opened = await open_session(connection, session_id)
                return await _claim(opened, owner, now, until)
        except NotFound:
            return None

    async def renew(self, claim: Claim, until: datetime) -> TurnFlags:
        async with self._held(claim) as held:
            mine = sessions.c.id == claim.session_id
            await held.session.connection.execute(sessions.update().where(mine).values(lease_until=until))
            return TurnFlags(held.turn.deadline_at, held.turn.cancel_requested_at)

    async def begin(self, claim: Claim, now: datetime, deadline_at: datetime) -> Turn:
        async with self._held(claim) as held:
            turn = await start(held.session, held.turn, now)
            if turn.deadline_at is None:
                turn = held.session.touch(replace(turn, deadline_at=deadline_at))
            await held.session.save(now, active_at=now)
            return turn

    async def retry(self, claim: Claim) -> Claim:
        async with self._held(claim) as held:
            attempt, epoch = held.turn.attempt + 1, claim.epoch + 1
            held.session.touch(replace(held.turn, attempt=attempt))
            await held.session.save(held.session.row.updated_at, epoch=epoch)
            return replace(claim, attempt=attempt, epoch=epoch)

    async def append(self, claim: Claim, events: Sequence[NewEvent], at: datetime) -> Sequence[Event]:
        _check(events)
        async with self._held(claim) as held:
            added = await held.session.append(events, at, claim.turn_id)
            if held.session.appended:
                await held.session.save(at, active_at=at)
            return added

    async def keys(self, claim: Claim, prefix: str) -> Sequence[str]:
        starts = sa.func.substr(events.c.key, 1, len(prefix)) == prefix
        query = sa.select(events.c.key).where(
            events.c.session_id == claim.session_id, events.c.key.is_not(None), starts
        )
        async with self._held(claim) as held:
            rows = await held.session.connection.execute(query.order_by(events.c.seq))
            return [row.key for row in rows]

    async def count_run(self, claim: Claim) -> int:
        async with self._held(claim) as held:
            runs = held.session.row.auto_runs + 1
            mine = sessions.c.id == claim.session_id
            await held.session.connection.execute(sessions.update().where(mine).values(auto_runs=runs))
            return runs

    async def complete(
        self, claim: Claim, completion: Completion, events: Sequence[NewEvent] = ()
    ) -> Session:
        _check(events)
        async with self._held(claim) as held:
            turn = await start(held.session, held.turn, completion.at)
            await held.session.append(events, completion.at, turn.id)
            await end(held.session, turn, completion)
            resume = {"resume_from": turn.id} if completion.state_kept else {}
            await held.session.save(completion.at, active_at=completion.at, **NOBODY, **resume)
            return await held.session.session()

    async def release(self, claim: Claim) -> None:
        mine = (
            (sessions.c.id == claim.session_id)
            & (sessions.c.epoch == claim.epoch)
            & (sessions.c.lease_owner == claim.owner)
        )
        released = await self._database.run(sessions.update().where(mine).values(**NOBODY))
        if released:
            self._signals.queued(claim.session_id)

    async def disown(self, owner_prefix: str) -> None:
        theirs = sa.func.substr(sessions.c.lease_owner, 1, len(owner_prefix)) == owner_prefix
        await self._database.run(sessions.update().where(theirs).values(**NOBODY))

    async def overdue(self, now: datetime, *, limit: int) -> Sequence[SessionId]:
        late = sa.or_(turns.c.deadline_at <= now, turns.c.cancel_requested_at.is_not(None))
        query = (
            sa.select(sessions.c.id)
            .distinct()
            .join(turns, turns.c.session_id == sessions.c.id)
            .where(sessions.c.status.in_(_TO_RUN), _free(now))
            .where(turns.c.state.in_([TurnState.ACCEPTED, TurnState.RUNNING]), late)
            .order_by(sessions.c.id)
            .limit(limit)
        )
        return [SessionId(row.id) for row in await self._database.rows(query)]

    async def resting(self, before: datetime, *, limit: int) -> Sequence[Session]:
        query = (
            sa.select(sessions)
            .where(sessions.c.awake.is_(True), sessions.c.status.in_(_RESTING))
            .where(sessions.c.active_at <= before)
            .order_by(sessions.c.active_at, sessions.c.id)
            .limit(limit)
        )
        async with self._database.read() as connection:
            return await with_last_turns(connection, (await connection.execute(query)).all())

    async def rested(self, session_id: SessionId, seen: Session) -> None:
        same = (
            (sessions.c.id == session_id)
            & (sessions.c.status == seen.status)
            & (sessions.c.epoch == seen.epoch)
            & (sessions.c.turn_count == (0 if seen.last_turn is None else seen.last_turn.ordinal))
        )
        await self._database.run(sessions.update().where(same).values(awake=False))

    @asynccontextmanager
    async def _held(self, claim: Claim) -> AsyncGenerator[_Held]:
        """The claimed session and turn, locked. Raises Fenced."""
        try:
            async with self._writer.open(claim.session_id) as opened:
                yield _Held(opened, _fenced(opened, claim))
        except NotFound as error:
            raise Fenced from error


async def _claim(opened: OpenSession, owner: str, now: datetime, until: datetime) -> Claim | None:
    row = opened.row
    if not opened.fold.open_turns or (row.lease_until is not None and row.lease_until > now):
        return None
    turn = opened.fold.open_turns[0]
    claimed = opened.touch(
        replace(
            turn,
            state=TurnState.ACCEPTED if turn.state is TurnState.QUEUED else turn.state,
            attempt=turn.attempt + 1,
            claimed_at=turn.claimed_at or now,
        )
    )
    epoch = row.epoch + 1
    await opened.save(
        row.updated_at, epoch=epoch, lease_owner=owner, lease_until=until, awake=True, active_at=now
    )
    return Claim(opened.id, claimed.id, claimed.attempt, epoch, owner)


def _fenced(opened: OpenSession, claim: Claim) -> Turn:
    """The turn of a claim that is still good."""
    turn = opened.fold.open_turn(claim.turn_id)
    if turn is None or opened.row.epoch != claim.epoch or opened.row.lease_owner != claim.owner:
        raise Fenced
    return turn


def _free(now: datetime) -> sa.ColumnElement[bool]:
    return sa.or_(sessions.c.lease_until.is_(None), sessions.c.lease_until <= now)


def _check(added: Sequence[NewEvent]) -> None:
    if any(changes_state(each.type) for each in added):
        raise ValueError("what changes a session's state is not just appended")
