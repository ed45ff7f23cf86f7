"""What is done about a turn that could not be finished (agent-sessions.md section 4.9)."""

from __future__ import annotations

from dataclasses import dataclass

from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sessions.endings import Ending
from opencomputer.server.domain.sessions.errors import Unprocessable
from opencomputer.server.domain.sessions.session import TurnError, YieldReason

MOST_ATTEMPTS = 3
"""Of one owner of a turn, before it gives up."""
MOST_CLAIMS = 12
"""Attempts of all owners together: a turn that takes its node with it each time comes to an end too."""
_PAUSES = (1.0, 5.0, 15.0)
_PERMANENT = frozenset({"brain_not_ready", "not_supported", "not_found", "secret_unreadable"})
"""Codes of what trying again at once would not change."""


@dataclass(frozen=True)
class TryAgain:
    """Make another attempt after a pause."""

    pause_seconds: float


def after_failure(error: Exception, attempts: int) -> TryAgain | Ending:
    """What follows when the last of so many attempts failed with this."""
    shown = _shown(error)
    if isinstance(error, Unprocessable) or shown.code in _PERMANENT:
        return Ending(YieldReason.ERROR, shown)
    if attempts >= MOST_ATTEMPTS:
        return Ending(YieldReason.ERROR, shown, failed=True)
    return TryAgain(_PAUSES[min(attempts, len(_PAUSES)) - 1])


def gone_astray() -> Ending:
    """For a turn that was begun too often, and never ended."""
    message = "The turn was begun again and again without coming to its end."
    return Ending(YieldReason.ERROR, TurnError("attempts_exhausted", message), failed=True)


def _shown(error: Exception) -> TurnError:
    """The error as anybody may see it."""
    if isinstance(error, OpenComputerError) and error.code != OpenComputerError.code:
        return TurnError(error.code, error.message, retriable=error.retryable)
    return TurnError("internal", "Something went wrong on the server.", retriable=True)
