"""JSON bodies: parsed whatever the content type says, an empty one as `{}`, faults named by field."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from opencomputer.server.domain.errors import InvalidInput

Model = TypeVar("Model", bound=BaseModel)

MAX_BODY_BYTES = 16 << 20


async def read_body(request: Request) -> bytes:
    """The whole body, as far as one may be."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise InvalidInput(f"the body must be at most {MAX_BODY_BYTES} bytes")
    return bytes(body)


def json_body(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that gives the body as `model`. Raises InvalidInput naming what is wrong and where."""

    async def parse(request: Request) -> Model:
        return parse_model(model, await read_body(request))

    return parse


def parse_model(model: type[Model], body: bytes) -> Model:
    try:
        return model.model_validate_json(body.strip() or b"{}")
    except ValidationError as error:
        raise InvalidInput(**_first_fault(error)) from error


def _first_fault(error: ValidationError) -> dict[str, Any]:
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part) for part in fault["loc"])
    message = fault["msg"]
    if not field:
        return {"message": f"the body is not a valid JSON object: {message}"}
    return {"message": f"{field}: {message}", "field": field}
