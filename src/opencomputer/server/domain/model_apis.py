"""The APIs of model providers as far as the gateway knows them: what is offered, and how errors look."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ANTHROPIC = "anthropic"
OPENAI = "openai"

CREDENTIAL_MISSING = "credential_missing"
"""Stands in the message of a refusal for want of a key, so that whoever reads it can tell."""

_ANTHROPIC_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class ModelApi:
    """One provider's API. `operations` are all that passes: method and path.

    Of headers passes what is listed, or begins with one of the prefixes: one nobody thought of stays on its
    side.
    """

    provider: str
    operations: tuple[tuple[str, re.Pattern[str]], ...]
    request_headers: frozenset[str]
    request_prefixes: tuple[str, ...]
    response_headers: frozenset[str]
    response_prefixes: tuple[str, ...]

    def offers(self, method: str, path: str) -> bool:
        return any(method == known and pattern.fullmatch(path) for known, pattern in self.operations)

    def authorization(self, key: str) -> tuple[str, str]:
        """The header in which a key is sent."""
        return ("x-api-key", key) if self.provider == ANTHROPIC else ("authorization", f"Bearer {key}")

    def error(self, status: int, message: str, *, kind: str | None = None) -> bytes:
        """An error as this provider would report it. `kind` is the provider's own word for it."""
        return json.dumps(self._error(status, message, kind)).encode()

    def _error(self, status: int, message: str, kind: str | None) -> Mapping[str, Any]:
        if self.provider == ANTHROPIC:
            kind = kind or _ANTHROPIC_ERRORS.get(status, "api_error")
            return {"type": "error", "error": {"type": kind, "message": message}}
        kind = kind or ("invalid_request_error" if status < 500 else "server_error")
        code = message.partition(":")[0] if message.startswith(CREDENTIAL_MISSING) else None
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}


_MODELS = ("GET", re.compile(r"/v1/models(/[A-Za-z0-9._:@-]+)?"))
_REQUEST_HEADERS = frozenset({"accept", "content-type", "content-length", "user-agent"})
_RESPONSE_HEADERS = frozenset(
    {
        "cache-control",
        "content-encoding",
        "content-length",
        "content-type",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
    }
)

MODEL_APIS: Mapping[str, ModelApi] = {
    ANTHROPIC: ModelApi(
        ANTHROPIC,
        (
            ("POST", re.compile(r"/v1/messages")),
            ("POST", re.compile(r"/v1/messages/count_tokens")),
            _MODELS,
        ),
        _REQUEST_HEADERS | {"x-app"},
        ("anthropic-", "x-stainless-", "x-claude-code-"),
        _RESPONSE_HEADERS,
        ("anthropic-ratelimit-",),
    ),
    OPENAI: ModelApi(
        OPENAI,
        (("POST", re.compile(r"/v1/responses(/compact)?")), _MODELS),
        _REQUEST_HEADERS
        | {"content-encoding", "originator", "version", "session_id", "conversation_id", "session-id"},
        ("openai-beta", "x-stainless-", "x-codex-", "x-openai-"),
        _RESPONSE_HEADERS | {"x-request-id", "openai-model", "openai-processing-ms"},
        ("x-ratelimit-", "x-codex-"),
    ),
}
