"""Typed access to the server's JSON. Unknown fields are ignored, missing ones get a default."""

from __future__ import annotations

from typing import Any, TypeGuard

from opencomputer.sdk.errors import UnexpectedAnswerError
from opencomputer.sdk.http import httpx

JsonObject = dict[str, object]
Described = dict[str, Any]
"""The same as users get it: what each value is, the description of the API says, and no type."""


def is_json_object(value: object) -> TypeGuard[JsonObject]:
    """Whether the value is a JSON object."""
    return isinstance(value, dict)


def is_json_array(value: object) -> TypeGuard[list[object]]:
    """Whether the value is a JSON array."""
    return isinstance(value, list)


def parsed(response: httpx.Response) -> object:
    """The JSON of a successful answer."""
    try:
        return response.json()
    except ValueError as error:
        raise UnexpectedAnswerError(f"{response.request.url.path} did not answer with JSON") from error


def check_events(response: httpx.Response) -> None:
    """Raise `UnexpectedAnswerError` for a successful answer that is no stream of events."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        raise UnexpectedAnswerError(f"{response.request.url.path} did not answer with events")


def json_object(value: object) -> JsonObject:
    """The value, which must be a JSON object."""
    if is_json_object(value):
        return value
    raise UnexpectedAnswerError(f"expected a JSON object, the server sent {type(value).__name__}")


def json_objects(value: object) -> list[JsonObject]:
    """The value, which must be an array of JSON objects; null counts as an empty one."""
    if value is None:
        return []
    if is_json_array(value):
        return [json_object(item) for item in value]
    raise UnexpectedAnswerError(f"expected a JSON array, the server sent {type(value).__name__}")


def required_text(fields: JsonObject, key: str) -> str:
    """A text field that every answer of this kind has."""
    value = fields.get(key)
    if isinstance(value, str) and value:
        return value
    raise UnexpectedAnswerError(f"the server's answer has no {key}")


def text(fields: JsonObject, key: str, default: str = "") -> str:
    """A text field, or the default when it is absent or null."""
    value = fields.get(key)
    return value if isinstance(value, str) else default


def texts(fields: JsonObject, key: str) -> list[str]:
    """A list of texts, empty when it is absent or null."""
    value = fields.get(key)
    return [item for item in value if isinstance(item, str)] if is_json_array(value) else []


def whole(fields: JsonObject, key: str) -> int | None:
    """A whole number, or None when it is absent or null."""
    value = fields.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(fields: JsonObject, key: str) -> float:
    """A number, 0 when it is absent or null."""
    value = fields.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def text_map(fields: JsonObject, key: str) -> dict[str, str]:
    """An object of texts, empty when it is absent or null."""
    value = fields.get(key)
    if not is_json_object(value):
        return {}
    return {name: item for name, item in value.items() if isinstance(item, str)}


def flag(fields: JsonObject, key: str) -> bool:
    """A boolean; absent and null are false."""
    return fields.get(key) is True


def yes_or_no(fields: JsonObject, key: str) -> bool | None:
    """A boolean, None when it is absent or null."""
    value = fields.get(key)
    return value if isinstance(value, bool) else None
