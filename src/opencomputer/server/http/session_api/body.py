"""Bodies of /v3: what is refused before anybody looks inside, and the shape that is looked for inside."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.sessions.errors import PayloadTooLarge, UnsupportedMediaType
from opencomputer.server.domain.sessions.idempotency import request_hash

Model = TypeVar("Model", bound=BaseModel)

MAX_BODY_BYTES = 4 << 20
_LARGE_BYTES = 256 << 10
_JSON = re.compile(r"application/([\w.+-]+\+)?json", re.IGNORECASE)
_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^";\s]+)', re.IGNORECASE)


@dataclass(frozen=True)
class Sent(Generic[Model]):
    """A body: what we understand of it, and all that was sent."""

    value: Model
    whole: Any

    @property
    def hash(self) -> str:
        """Stands for the whole request, with what we do not understand."""
        return request_hash(self.whole)


async def read_body(request: Request, most: int) -> bytes:
    """The whole body. Raises PayloadTooLarge as soon as it is known, UnsupportedMediaType when packed."""
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise UnsupportedMediaType("a body with a content encoding is not accepted")
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and (len(announced) > 18 or int(announced) > most):
        raise _too_large(most)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise _too_large(most)
    return bytes(body)


def json_body(model: type[Model], most: int = MAX_BODY_BYTES) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that gives the body as `model`; an empty one is `{}`.

    `model_fields_set` tells a field that is null from one that is not there.
    """
    sent = sent_body(model, most)

    async def parse(request: Request) -> Model:
        return (await sent(request)).value

    parse.__annotations__["return"] = model
    return parse


def sent_body(model: type[Model], most: int = MAX_BODY_BYTES) -> Callable[[Request], Awaitable[Sent[Model]]]:
    """The same, with the whole of what was sent. Raises InvalidInput naming what is wrong, and where."""

    async def parse(request: Request) -> Sent[Model]:
        check_media_type(request)
        body = (await read_body(request, most)).strip() or b"{}"
        if len(body) > _LARGE_BYTES:
            return await asyncio.to_thread(_parse, model, body)
        return _parse(model, body)

    # What it gives is `model` with the rest; what is to be sent is `model`.
    parse.__annotations__["return"] = model
    return parse


def check_media_type(request: Request, *, required: bool = False) -> None:
    """Raises UnsupportedMediaType for another one than that of JSON, and where one is `required` for none."""
    media_type = request.headers.get("content-type", "").strip()
    # `fetch` names the type of a text by itself, and whoever sends nothing names none.
    if not required and (not media_type or request.headers.get("content-length") == "0"):
        return
    charset = _CHARSET.search(media_type)
    if not _JSON.fullmatch(media_type.partition(";")[0].strip()):
        raise UnsupportedMediaType("the body must be application/json")
    if charset and charset[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        raise UnsupportedMediaType("the body must be in UTF-8")


def json_value(body: bytes) -> Any:
    """What stands in a body. Raises InvalidInput unless that is one JSON value."""
    try:
        value: Any = from_json(body, allow_inf_nan=False)
        # A number may be too large for what numbers are here: that must not come back as `Infinity`.
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise InvalidInput(f"the body is not valid JSON: {error}") from error
    return value


def _parse(model: type[Model], body: bytes) -> Sent[Model]:
    whole = json_value(body)
    if not isinstance(whole, dict):
        raise InvalidInput("the body must be a JSON object")
    try:
        return Sent(model.model_validate_json(body), whole)
    except ValidationError as error:
        raise _first_fault(error) from error


def _first_fault(error: ValidationError) -> InvalidInput:
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part) for part in fault["loc"])
    message = fault["msg"].removeprefix("Value error, ")
    return InvalidInput(f"{field}: {message}", field=field) if field else InvalidInput(message)


def _too_large(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body must be at most {most} bytes")
