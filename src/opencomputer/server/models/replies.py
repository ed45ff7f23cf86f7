"""Short answers in the shape of the Messages API, and what both providers ask of a request."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping

from opencomputer.server.contracts.driver import Json
from opencomputer.server.contracts.models import ModelRequest, ModelResponse

MAX_REQUEST_BYTES = 32 << 20
"""What the Messages API itself accepts at most."""

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}

_OPERATIONS = (
    ("POST", re.compile(r"/v1/messages")),
    ("POST", re.compile(r"/v1/messages/count_tokens")),
    ("GET", re.compile(r"/v1/models(/[A-Za-z0-9._:@-]+)?")),
)


class RequestTooLarge(Exception):
    """The body of a request is larger than the Messages API accepts."""


def is_offered(request: ModelRequest) -> bool:
    """Whether the gateway passes this kind of request on: messages, token counts and the list of models."""
    return any(
        request.method == method and pattern.fullmatch(request.path) for method, pattern in _OPERATIONS
    )


def json_reply(status: int, body: Mapping[str, Json]) -> ModelResponse:
    """A whole JSON document as an answer."""
    encoded = json.dumps(body).encode()
    headers = (("content-type", "application/json"), ("content-length", str(len(encoded))))
    return ModelResponse(status, headers, _once(encoded))


def error_reply(status: int, message: str, *, kind: str | None = None) -> ModelResponse:
    """An error as the Messages API would report it."""
    return json_reply(status, error_body(status, message, kind=kind))


def error_body(status: int, message: str, *, kind: str | None = None) -> dict[str, Json]:
    """The JSON document of an error."""
    error = {"type": kind or ERROR_TYPES.get(status, "api_error"), "message": message}
    return {"type": "error", "error": error}


def refuse_unknown(request: ModelRequest) -> ModelResponse:
    """The answer to what `is_offered` does not know."""
    return error_reply(404, f"The model gateway does not offer {request.method} {request.path}")


async def within_cap(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass a body on, and raise RequestTooLarge as soon as it is larger than allowed."""
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > MAX_REQUEST_BYTES:
            raise RequestTooLarge
        yield chunk


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
