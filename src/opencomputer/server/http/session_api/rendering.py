"""Durable sessions as the contract shows them. One small function each."""

from __future__ import annotations

from opencomputer.server.domain.sessions.session import (
    PinnedAgent,
    Session,
    SessionLimits,
    SessionUsage,
    Turn,
    TurnError,
    Usage,
)
from opencomputer.wire.sessions import (
    AgentSnapshotView,
    BriefSessionView,
    ErrorView,
    LastTurnView,
    LimitsView,
    OriginView,
    SandboxesView,
    SessionUsageView,
    SessionView,
    TurnUsageView,
    TurnView,
)

_EXACT = "exact"


def session(shown: Session) -> SessionView:
    boxes, origin, turn = shown.boxes, shown.origin, shown.last_turn
    return SessionView(
        id=shown.id,
        status=shown.status,
        head=shown.head,
        input_cursor=shown.input_cursor,
        agent_id=shown.agent.agent_id,
        credential_id=shown.agent.credential,
        agent_snapshot=_snapshot(shown.agent),
        last_turn=None if turn is None else last_turn(turn),
        usage=_session_usage(shown.usage),
        limits=_limits(shown.limits, shown.agent.limits),
        metadata=None if shown.metadata is None else dict(shown.metadata),
        key=shown.key,
        sandboxes=SandboxesView(brain=boxes.brain, hands=boxes.hands) if boxes.brain or boxes.hands else None,
        origin=None if origin is None else OriginView(session_id=origin.session_id, turn_id=origin.turn_id),
        created_at=shown.created_at,
        updated_at=shown.updated_at,
    )


def brief(shown: Session) -> BriefSessionView:
    return BriefSessionView(id=shown.id, status=shown.status, head=shown.head)


def last_turn(shown: Turn) -> LastTurnView:
    return LastTurnView(
        id=shown.id,
        state=shown.state,
        yield_reason=shown.yield_reason,
        result_event_id=shown.result_event_id,
        started_at=shown.started_at,
        completed_at=shown.completed_at,
        error=_error(shown.error),
    )


def turn(shown: Turn) -> TurnView:
    return TurnView(
        id=shown.id,
        state=shown.state,
        yield_reason=shown.yield_reason,
        result_event_id=shown.result_event_id,
        started_at=shown.started_at,
        completed_at=shown.completed_at,
        error=_error(shown.error),
        active_seconds=shown.active_ms / 1000,
        usage=_turn_usage(shown.usage),
        attempt=shown.attempt,
        input_from_seq=shown.input_from_seq,
        input_to_seq=shown.input_to_seq,
    )


def _snapshot(agent: PinnedAgent) -> AgentSnapshotView:
    return AgentSnapshotView(
        prompt_hash=agent.prompt_hash,
        model=agent.model,
        runtime=agent.runtime,
        revision=agent.revision,
        revision_id=agent.revision_id,
        version=agent.version,
        digest=agent.digest,
        skill_bundle_digest=agent.skill_bundle_digest,
    )


def _error(shown: TurnError | None) -> ErrorView | None:
    if shown is None:
        return None
    return ErrorView(code=shown.code, message=shown.message, retriable=shown.retriable)


def _turn_usage(shown: Usage | None) -> TurnUsageView:
    if shown is None:
        return TurnUsageView(reported=False)
    return TurnUsageView(
        reported=True,
        input_tokens=shown.input_tokens,
        output_tokens=shown.output_tokens,
        cache_creation_input_tokens=shown.cache_creation_input_tokens,
        cache_read_input_tokens=shown.cache_read_input_tokens,
        tokens=shown.tokens,
        total_cost_usd=shown.cost_usd,
        attribution=_EXACT,
        complete=None if shown.complete else False,
    )


def _session_usage(shown: SessionUsage) -> SessionUsageView:
    totals = shown.totals
    view = SessionUsageView(
        active_seconds=shown.active_ms / 1000,
        reported_turns=shown.reported_turns,
        unreported_turns=shown.unreported_turns,
        complete=shown.unreported_turns == 0 and (totals is None or totals.complete),
    )
    if totals is None:
        return view
    return view.model_copy(
        update={
            "input_tokens": totals.input_tokens,
            "output_tokens": totals.output_tokens,
            "cache_creation_input_tokens": totals.cache_creation_input_tokens,
            "cache_read_input_tokens": totals.cache_read_input_tokens,
            "tokens": totals.tokens,
            "total_cost_usd": totals.cost_usd,
            "attribution": _EXACT,
        }
    )


def _limits(own: SessionLimits, agents: SessionLimits) -> LimitsView | None:
    """Those that hold: the session's own where it has them, its agent's elsewhere."""
    held = LimitsView(
        tokens=own.tokens or agents.tokens,
        turn_seconds=own.turn_seconds or agents.turn_seconds,
        turns=own.turns or agents.turns,
    )
    return None if held == LimitsView() else held
