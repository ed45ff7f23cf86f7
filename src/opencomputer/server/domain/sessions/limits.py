"""How much a session may do by itself (agent-sessions.md sections 4.6, 4.7)."""

from __future__ import annotations

from datetime import datetime, timedelta

from opencomputer.server.domain.sessions.session import Session, SessionLimits, YieldReason

MOST_TURN_SECONDS = 1800
DEFAULT_RUNS = 24


def effective(session: Session) -> SessionLimits:
    """The session's own limits where it has them, its agent's elsewhere."""
    own, agents = session.limits, session.agent.limits
    return SessionLimits(
        tokens=agents.tokens if own.tokens is None else own.tokens,
        turn_seconds=agents.turn_seconds if own.turn_seconds is None else own.turn_seconds,
        turns=agents.turns if own.turns is None else own.turns,
    )


def turn_deadline(session: Session, now: datetime) -> datetime:
    """When a turn that begins now has to be over."""
    seconds = effective(session).turn_seconds
    return now + timedelta(seconds=min(seconds or MOST_TURN_SECONDS, MOST_TURN_SECONDS))


def tripped(session: Session) -> YieldReason | None:
    """Why this session's next turn may not run; None: it may."""
    tokens = effective(session).tokens
    used = session.usage.totals
    if tokens is not None and used is not None and used.tokens >= tokens:
        return YieldReason.BUDGET_EXCEEDED
    if runs_used_up(session, session.auto_runs):
        return YieldReason.MAX_TURNS
    return None


def runs_used_up(session: Session, runs: int) -> bool:
    """The brain may not run again before a person says something."""
    most = effective(session).turns
    return runs >= (DEFAULT_RUNS if most is None else most)
