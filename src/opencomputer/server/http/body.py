"""JSON bodies: parsed whatever the content type says, an empty one as `{}`, faults named by field."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from opencomputer.server.domain.errors import InvalidInput

Model = TypeVar("Model", bound=BaseModel)

MAX_BODY_BYTES = 16 << 20
MAX_IMAGE_BODY_BYTES = 48 << 20
"""Of requests with an image in them: as much as its files may have, in base64, and something around it."""
_LARGE_BYTES = 1 << 20


async def read_body(request: Request, most: int = MAX_BODY_BYTES) -> bytes:
    """The whole body, as far as one may be."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise InvalidInput(f"the body must be at most {most} bytes")
    return bytes(body)


def json_body(model: type[Model], most: int = MAX_BODY_BYTES) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that gives the body as `model`. Raises InvalidInput naming what is wrong and where."""

    async def parse(request: Request) -> Model:
        body = await read_body(request, most)
        if len(body) > _LARGE_BYTES:
            return await asyncio.to_thread(parse_model, model, body)
        return parse_model(model, body)

    parse.__annotations__["return"] = model
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
