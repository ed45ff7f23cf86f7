"""Short answers in the shape of the Messages API, and what both providers ask of a request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping

from opencomputer.server.contracts.driver import Json
from opencomputer.server.contracts.models import ModelRequest, ModelResponse
from opencomputer.server.domain.model_apis import ANTHROPIC, MODEL_APIS, ModelApi

MAX_REQUEST_BYTES = 32 << 20
"""What the Messages API itself accepts at most."""


class RequestTooLarge(Exception):
    """The body of a request is larger than the Messages API accepts."""


def is_offered(request: ModelRequest) -> bool:
    """Whether the gateway passes this kind of request on: messages, token counts and the list of models."""
    return MODEL_APIS[ANTHROPIC].offers(request.method, request.path)


def json_reply(status: int, body: Mapping[str, Json]) -> ModelResponse:
    """A whole JSON document as an answer."""
    return encoded_reply(status, json.dumps(body).encode())


def encoded_reply(status: int, encoded: bytes) -> ModelResponse:
    """As `json_reply`, for a document that is encoded already."""
    headers = (("content-type", "application/json"), ("content-length", str(len(encoded))))
    return ModelResponse(status, headers, _once(encoded))


def error_reply(status: int, message: str, *, kind: str | None = None) -> ModelResponse:
    """An error as the Messages API would report it."""
    return api_error(MODEL_APIS[ANTHROPIC], status, message, kind=kind)


def api_error(api: ModelApi, status: int, message: str, *, kind: str | None = None) -> ModelResponse:
    """An error as this API would report it."""
    return encoded_reply(status, api.error(status, message, kind=kind))


def error_body(status: int, message: str, *, kind: str | None = None) -> dict[str, Json]:
    """The JSON document of an error."""
    return json.loads(MODEL_APIS[ANTHROPIC].error(status, message, kind=kind))


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
