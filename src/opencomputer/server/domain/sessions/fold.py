"""What a session's events add up to: its status, head, cursor, usage and turns (agent-sessions.md 1.3, 4.3).

The store applies `after` to every event in the transaction that appends it, and whoever has the events alone
comes to the same result.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from opencomputer.server.domain.sessions import events
from opencomputer.server.domain.sessions.bodies import error_of, usage_of
from opencomputer.server.domain.sessions.events import Event
from opencomputer.server.domain.sessions.session import (
    SessionStatus,
    SessionUsage,
    Turn,
    TurnState,
    Usage,
    YieldReason,
)
from opencomputer.wire.ids import TurnId

_GITHUB = "github."


def is_input(event_type: str) -> bool:
    """Whether events of this type are what turns consume."""
    return event_type in (events.USER_MESSAGE, events.HTTP_REQUEST) or event_type.startswith(_GITHUB)


def changes_state(event_type: str) -> bool:
    """Whether such an event changes more of the fold than its head."""
    return is_input(event_type) or event_type in (
        events.TURN_STARTED,
        events.TURN_COMPLETED,
        events.SESSION_ARCHIVED,
        events.SESSION_REWOUND,
    )


@dataclass(frozen=True)
class Fold:
    """`open_turns` have not ended, oldest first; `turn_count` turns there have ever been."""

    status: SessionStatus = SessionStatus.IDLE
    head: int = 0
    input_cursor: int = 0
    turn_count: int = 0
    usage: SessionUsage = field(default_factory=SessionUsage)
    open_turns: tuple[Turn, ...] = ()

    def open_turn(self, turn_id: object) -> Turn | None:
        return next((turn for turn in self.open_turns if turn.id == turn_id), None)

    @property
    def next_input_turn(self) -> Turn | None:
        """The turn that the next input joins: one that has not started."""
        return next((turn for turn in self.open_turns if turn.started_at is None), None)


def after(fold: Fold, event: Event) -> tuple[Fold, Turn | None]:
    """The fold with this event, which is the next one, and the turn that it changed."""
    if event.seq != fold.head + 1:
        raise ValueError(f"event {event.seq} cannot follow {fold.head}")
    fold = replace(fold, head=event.seq)
    if is_input(event.type):
        return _with_input(fold, event)
    match event.type:
        case events.TURN_STARTED:
            return _started(fold, event)
        case events.TURN_COMPLETED:
            return _completed(fold, event)
        case events.SESSION_ARCHIVED:
            return replace(fold, status=SessionStatus.ARCHIVED), None
        case events.SESSION_REWOUND:
            return replace(fold, status=SessionStatus.IDLE), None
        case _:
            return fold, None


def _with_input(fold: Fold, event: Event) -> tuple[Fold, Turn | None]:
    status = fold.status if fold.status is SessionStatus.RUNNING else SessionStatus.QUEUED
    joined = fold.open_turn(event.turn_id)
    if joined is not None:
        turn = replace(joined, input_to_seq=event.seq)
        return replace(_with_turn(fold, turn), status=status), turn
    if event.turn_id is None:
        raise ValueError("an input has a turn that takes it")
    turn = Turn(
        id=event.turn_id,
        session_id=event.session_id,
        ordinal=fold.turn_count + 1,
        state=TurnState.QUEUED,
        attempt=0,
        input_from_seq=event.seq,
        input_to_seq=event.seq,
        created_at=event.at,
    )
    turns = (*fold.open_turns, turn)
    return replace(fold, status=status, turn_count=turn.ordinal, open_turns=turns), turn


def _started(fold: Fold, event: Event) -> tuple[Fold, Turn | None]:
    turn = replace(
        _of(fold, event),
        state=TurnState.RUNNING,
        started_at=event.at,
        input_from_seq=event.body["input_from_seq"],
        input_to_seq=event.body["input_to_seq"],
    )
    return replace(_with_turn(fold, turn), status=SessionStatus.RUNNING), turn


def _completed(fold: Fold, event: Event) -> tuple[Fold, Turn | None]:
    body = event.body
    reason = YieldReason(body["yield_reason"])
    turn = replace(
        _of(fold, event),
        state=TurnState.ERROR if reason is YieldReason.ERROR else TurnState.OK,
        completed_at=event.at,
        yield_reason=reason,
        result_event_id=body.get("result_event_id"),
        active_ms=round(body["active_seconds"] * 1000),
        usage=usage_of(body.get("usage")),
        error=error_of(body.get("error")),
    )
    waiting = tuple(each for each in fold.open_turns if each.id != turn.id)
    ended = replace(
        fold,
        status=_status_after(reason, waiting=bool(waiting), failed=bool(body.get("failed"))),
        input_cursor=max(fold.input_cursor, turn.input_to_seq),
        usage=_used(fold.usage, turn),
        open_turns=waiting,
    )
    return ended, turn


def _status_after(reason: YieldReason, *, waiting: bool, failed: bool) -> SessionStatus:
    # What was accepted is worked on, also after a failure.
    if waiting:
        return SessionStatus.QUEUED
    if failed:
        return SessionStatus.FAILED
    return SessionStatus.AWAITING_INPUT if reason is YieldReason.NEEDS_INPUT else SessionStatus.IDLE


def _used(usage: SessionUsage, turn: Turn) -> SessionUsage:
    usage = replace(usage, active_ms=usage.active_ms + turn.active_ms)
    if turn.usage is not None:
        totals = turn.usage if usage.totals is None else added(usage.totals, turn.usage)
        return replace(usage, reported_turns=usage.reported_turns + 1, totals=totals)
    if turn.active_ms == 0:
        # Nobody ever worked on it: that nothing was used is known.
        return usage
    return replace(usage, unreported_turns=usage.unreported_turns + 1)


def added(one: Usage, other: Usage) -> Usage:
    """What both took together. A cost that is not known of one is not known of both."""
    known = one.cost_usd is not None and other.cost_usd is not None
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cache_creation_input_tokens=one.cache_creation_input_tokens + other.cache_creation_input_tokens,
        cache_read_input_tokens=one.cache_read_input_tokens + other.cache_read_input_tokens,
        cost_usd=(one.cost_usd or 0) + (other.cost_usd or 0) if known else None,
        complete=one.complete and other.complete,
    )


def _of(fold: Fold, event: Event) -> Turn:
    turn_id = TurnId(event.body["turn_id"])
    turn = fold.open_turn(turn_id)
    if turn is None:
        raise ValueError(f"there is no open turn {turn_id}")
    return turn


def _with_turn(fold: Fold, turn: Turn) -> Fold:
    turns = tuple(turn if each.id == turn.id else each for each in fold.open_turns)
    return replace(fold, open_turns=turns)
