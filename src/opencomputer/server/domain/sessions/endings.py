"""How turns end: what a brain's end, a failure or an interruption makes of a turn (sections 4.7, 4.9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, cast

from opencomputer.server.domain.sessions import events
from opencomputer.server.domain.sessions.events import Level, NewEvent
from opencomputer.server.domain.sessions.session import TurnError, YieldReason

_BUDGET_CODES = frozenset({"budget_exceeded"})
_TEXT_LIMIT = 2000


@dataclass(frozen=True)
class Ending:
    """`said` is the last assistant text: the turn's result where nothing was said to the user.

    `failed`: the session itself broke, not just this turn.
    """

    reason: YieldReason
    error: TurnError | None = None
    error_type: str = events.ERROR_RUNTIME
    failed: bool = False
    said: str | None = None

    @property
    def events(self) -> tuple[NewEvent, ...]:
        """What tells readers why, before the turn is completed."""
        if self.error is None or self.reason is not YieldReason.ERROR:
            return ()
        body = {"code": self.error.code, "message": self.error.message, "retriable": self.error.retriable}
        return (NewEvent(self.error_type, Level.USER, body, actor=events.SYSTEM),)


class Interrupt(Enum):
    """What ends a turn from outside."""

    FENCED = auto()
    CANCELED = auto()
    DEADLINE = auto()


INTERRUPTED = {
    Interrupt.CANCELED: Ending(YieldReason.CANCELED),
    Interrupt.DEADLINE: Ending(YieldReason.DEADLINE_EXCEEDED),
}


@dataclass(frozen=True)
class RunEnd:
    """One request of a brain that came to its end.

    `model_error`: what its model failed with; `error`: what the brain itself says about why it ended.
    """

    reason: str
    asked: bool = False
    step_cap: bool = False
    text: str | None = None
    model_error: TurnError | None = None
    error: str | None = None


def ending_of(end: RunEnd) -> Ending | None:
    """What the end of a run makes of its turn; None: it goes on with another run."""
    if end.asked or end.reason == "awaiting_input":
        return Ending(YieldReason.NEEDS_INPUT)
    if end.model_error is not None:
        if end.model_error.code in _BUDGET_CODES:
            return Ending(YieldReason.BUDGET_EXCEEDED)
        return Ending(YieldReason.ERROR, end.model_error, events.ERROR_MODEL)
    if end.step_cap:
        return None
    if end.reason == "error":
        return Ending(YieldReason.ERROR, TurnError("brain_error", end.error or "The agent's engine failed."))
    return Ending(YieldReason.COMPLETED, said=end.text)


def reason_of_error(error: object) -> str | None:
    """What a brain says about why it ended, as text that can be shown."""
    if isinstance(error, Mapping):
        error = cast("Mapping[str, Any]", error).get("message")
    if not isinstance(error, str) or not error.strip():
        return None
    return error.strip()[:_TEXT_LIMIT]
