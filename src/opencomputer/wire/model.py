"""The base of all JSON shapes: attributes in Python's words, keys in the contract's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

_IRREGULAR: Mapping[str, str] = {
    "claude_session_id": "claudeSessionID",
    "columns": "cols",
    "connect_url": "connectURL",
    "disk_mb": "diskMB",
    "is_directory": "isDir",
    "max_memory_mb": "maxMemoryMB",
    "memory_mb": "memoryMB",
    "min_memory_mb": "minMemoryMB",
    "sandbox_id": "sandboxID",
    "session_id": "sessionID",
    "template_id": "templateID",
}


def wire_name(attribute: str) -> str:
    """The key on the wire: camel case, but for the contract's own spellings (sandbox-wire.md section 1.6)."""
    return _IRREGULAR.get(attribute) or to_camel(attribute)


class WireModel(BaseModel):
    """Unknown fields are ignored, as the contract demands."""

    model_config = ConfigDict(
        alias_generator=wire_name, populate_by_name=True, extra="ignore", serialize_by_alias=True
    )


class PlainModel(BaseModel):
    """The base of the shapes of /v3: keys are the attributes' own names. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class PlainRequest(PlainModel):
    """What clients send to /v3: types are as they have to be, a number in quotes is none.

    `model_fields_set` tells a field that is null from one that is not there.
    """

    model_config = ConfigDict(extra="ignore", strict=True)


def _milliseconds(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_none(value: object) -> bool:
    return value is None


Moment = Annotated[datetime, PlainSerializer(_milliseconds, return_type=str, when_used="json")]
"""A point in time as /v3 shows it: RFC 3339 in UTC, with milliseconds."""


def optional() -> Any:
    """A field that is not there at all where it is None; without it, None is shown as null."""
    return Field(default=None, exclude_if=_is_none)
