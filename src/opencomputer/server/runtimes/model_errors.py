"""Why a model failed, in one vocabulary for all engines."""

from __future__ import annotations

from opencomputer.server.domain.sessions.session import TurnError
from opencomputer.server.runtimes.reading import words

MAX_MESSAGE_CHARACTERS = 2000
REJECTED_KEY = TurnError("model_key_rejected", "The model provider rejected the key.")

# The gateway's own refusals begin with their code, since engines pass on nothing but the message.
_GATEWAY_CODES = ("credential_missing", "budget_exceeded")


def model_error(status: int | None, message: object) -> TurnError:
    """The error for an answer of the provider with this HTTP status; None: there was none."""
    text = words(message).strip()[:MAX_MESSAGE_CHARACTERS] or "The model failed."
    for code in _GATEWAY_CODES:
        if code in text:
            return TurnError(code, text)
    if status in (401, 403):
        return TurnError(REJECTED_KEY.code, text)
    if status == 404:
        return TurnError("model_not_found", text)
    if status == 429:
        return TurnError("model_rate_limited", text, retriable=True)
    if status is not None and status >= 500:
        return TurnError("model_unavailable", text, retriable=True)
    return TurnError("model_error", text)
