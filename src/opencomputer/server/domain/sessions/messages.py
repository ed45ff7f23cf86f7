"""What people say to a session, as an event of its log (agent-sessions.md section 3.15)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.sessions.errors import PayloadTooLarge
from opencomputer.server.domain.sessions.events import USER_MESSAGE, Actor, Json, Level, NewEvent

MAX_TEXT_BYTES = 256 << 10
MAX_METADATA_BYTES = 16 << 10
_SOURCE = "client"


class Absent(Enum):
    """In the place of a value that was not sent, where null is one."""

    ABSENT = "absent"


@dataclass(frozen=True)
class Message:
    """`refs` is what is said of where it comes from. `key`: its own id, the same each time it is sent."""

    text: str
    raw: Any = Absent.ABSENT
    key: str | None = None
    refs: Json = field(default_factory=dict[str, Any])


def user_message(message: Message, actor: Actor, field: str) -> NewEvent:
    """The event of a message. Raises InvalidInput, or PayloadTooLarge, naming `field`."""
    if not message.text.strip():
        raise InvalidInput(f"{field} must not be empty", field=field)
    if len(message.text) > MAX_TEXT_BYTES or len(message.text.encode()) > MAX_TEXT_BYTES:
        raise PayloadTooLarge(f"{field} must be at most {MAX_TEXT_BYTES} bytes", field=field)
    body: dict[str, Any] = {"text": message.text}
    if message.raw is not Absent.ABSENT:
        body["raw"] = message.raw
    return NewEvent(USER_MESSAGE, Level.USER, body, actor, refs=message.refs, source=_SOURCE, key=message.key)


def check_session_metadata(metadata: Mapping[str, Any] | None) -> None:
    """Raise PayloadTooLarge when it is more than a session keeps."""
    if metadata is None:
        return
    size = len(json.dumps(metadata, ensure_ascii=False, separators=(",", ":")).encode())
    if size > MAX_METADATA_BYTES:
        raise PayloadTooLarge(
            f"metadata must be at most {MAX_METADATA_BYTES} bytes of JSON", field="metadata"
        )
