"""How turns end, in the transaction of whoever ends them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from opencomputer.server.domain.sessions import events as types
from opencomputer.server.domain.sessions.bodies import turn_completed, turn_started
from opencomputer.server.domain.sessions.events import SYSTEM, Level, NewEvent
from opencomputer.server.domain.sessions.session import Completion, Turn, TurnState, YieldReason
from opencomputer.server.stores.sql.sessions.appending import OpenSession
from opencomputer.server.stores.sql.sessions.schema import events
from opencomputer.wire.ids import EventId

NOBODY = {"lease_owner": None, "lease_until": None}


async def start(opened: OpenSession, turn: Turn, at: datetime) -> Turn:
    """`turn.started` is in the log, and what the turn takes is settled."""
    if turn.started_at is None:
        new = NewEvent(types.TURN_STARTED, Level.PROGRESS, turn_started(turn), SYSTEM)
        await opened.append([new], at, turn.id)
        return opened.turn(turn.id)
    return turn


async def end(opened: OpenSession, turn: Turn, completion: Completion) -> Turn:
    """`turn.completed` is in the log, and the turn has ended. It has started."""
    at = completion.at
    active_ms = 0
    if turn.claimed_at is not None:
        active_ms = max(0, round((at - turn.claimed_at).total_seconds() * 1000))
    result = completion.result_event_id or await _result(opened, turn)
    body = turn_completed(turn, completion, result, active_ms)
    await opened.append([NewEvent(types.TURN_COMPLETED, Level.USER, body, SYSTEM)], at, turn.id)
    ended = opened.turn(turn.id)
    return opened.touch(replace(ended, checkpoint=completion.checkpoint, state_kept=completion.state_kept))


async def cancel(opened: OpenSession, at: datetime) -> None:
    """End a turn at once that nobody works on yet; ask whoever works on it."""
    if not opened.fold.open_turns:
        return
    turn = opened.fold.open_turns[0]
    if turn.state is TurnState.RUNNING or _held(opened, at):
        if turn.cancel_requested_at is None:
            opened.touch(replace(turn, cancel_requested_at=at))
            await opened.save(at)
        return
    await _end_canceled(opened, turn, at)
    await opened.save(at, active_at=at, epoch=opened.row.epoch + 1, **NOBODY)


async def archive(opened: OpenSession, at: datetime) -> None:
    if opened.row.status == "archived":
        return
    for turn in opened.fold.open_turns:
        await _end_canceled(opened, turn, at)
    body = {"summary": "the session was archived"}
    await opened.append([NewEvent(types.SESSION_ARCHIVED, Level.INTERNAL, body, SYSTEM)], at)
    await opened.save(at, active_at=at, epoch=opened.row.epoch + 1, **NOBODY)


async def _end_canceled(opened: OpenSession, turn: Turn, at: datetime) -> None:
    turn = opened.touch(replace(turn, cancel_requested_at=turn.cancel_requested_at or at))
    turn = await start(opened, turn, at)
    await end(opened, turn, Completion(YieldReason.CANCELED, at))


def _held(opened: OpenSession, at: datetime) -> bool:
    return opened.row.lease_owner is not None and opened.row.lease_until > at


async def _result(opened: OpenSession, turn: Turn) -> EventId | None:
    """The last thing the turn said to the user."""
    query = (
        sa.select(events.c.id)
        .where(
            events.c.session_id == opened.id,
            events.c.turn_id == turn.id,
            events.c.type == types.AGENT_MESSAGE,
            events.c.level == Level.USER,
        )
        .order_by(events.c.seq.desc())
        .limit(1)
    )
    row = (await opened.connection.execute(query)).first()
    return None if row is None else EventId(row.id)
