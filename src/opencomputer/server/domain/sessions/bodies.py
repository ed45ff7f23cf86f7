"""The bodies of events from which a session's state follows, written and read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from opencomputer.server.domain.sessions.events import Json
from opencomputer.server.domain.sessions.session import Completion, Turn, TurnError, Usage
from opencomputer.wire.ids import EventId


def turn_started(turn: Turn) -> Json:
    return {
        "turn_id": turn.id,
        "input_from_seq": turn.input_from_seq,
        "input_to_seq": turn.input_to_seq,
    }


def turn_completed(
    turn: Turn, completion: Completion, result_event_id: EventId | None, active_ms: int
) -> Json:
    """`outcome` and `yield_reason` say the same. `failed` is there only when the session itself broke."""
    body: dict[str, Any] = {
        "turn_id": turn.id,
        "outcome": completion.reason,
        "yield_reason": completion.reason,
        "active_seconds": active_ms / 1000,
    }
    if result_event_id is not None:
        body["result_event_id"] = result_event_id
    if completion.usage is not None:
        body["usage"] = usage_body(completion.usage)
    if completion.error is not None:
        body["error"] = error_body(completion.error)
    if completion.failed:
        body["failed"] = True
    return body


def usage_body(usage: Usage) -> Json:
    """What a turn used, as clients see it."""
    body: dict[str, Any] = {
        "reported": True,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "tokens": usage.tokens,
    }
    if usage.cost_usd is not None:
        body["total_cost_usd"] = usage.cost_usd
    if not usage.complete:
        body["complete"] = False
    return body


def usage_of(body: object) -> Usage | None:
    if not isinstance(body, Mapping):
        return None
    members = cast(Mapping[str, Any], body)
    return Usage(
        input_tokens=members["input_tokens"],
        output_tokens=members["output_tokens"],
        cache_creation_input_tokens=members["cache_creation_input_tokens"],
        cache_read_input_tokens=members["cache_read_input_tokens"],
        cost_usd=members.get("total_cost_usd"),
        complete=members.get("complete", True),
    )


def error_body(error: TurnError) -> Json:
    return {"code": error.code, "message": error.message, "retriable": error.retriable}


def error_of(body: object) -> TurnError | None:
    if not isinstance(body, Mapping):
        return None
    members = cast(Mapping[str, Any], body)
    return TurnError(members["code"], members["message"], members["retriable"])
