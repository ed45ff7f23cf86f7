"""The base of all JSON shapes: attributes in Python's words, keys in the contract's."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict
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
