"""What is too large for the body of an event is kept beside it (agent-sessions.md section 3.13, Offload)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from opencomputer.server.domain.sessions.events import Content, Json, NewEvent

MAX_BODY_BYTES = 32 * 1024
_WHOLE_BODY = "application/json"
OUTPUT = "text/plain; charset=utf-8"
_SHORTEST_TEXT = 256
"""A text is never cut below this; what is still too large then is left out."""


def content_ref(content: Content) -> str:
    """How an event names its content. Clients ask for it by the event's id."""
    return f"sha256:{hashlib.sha256(content.data).hexdigest()}"


def offloaded(event: NewEvent) -> NewEvent:
    """The event with a body that is stored inline, and the whole one as its content where that was cut."""
    size = body_bytes(event.body)
    if size <= MAX_BODY_BYTES:
        return event
    content = event.content or Content(_WHOLE_BODY, _serialized(event.body))
    return replace(event, body=_cut(event.body), content=content)


def with_output(event: NewEvent, output: bytes) -> NewEvent:
    """A command's event with the whole of what it printed, which its body only summarises."""
    content = Content(OUTPUT, output)
    body = {**event.body, "content_ref": content_ref(content), "bytes": len(output)}
    return replace(event, body=body, content=content)


def body_bytes(body: Json) -> int:
    return len(_serialized(body))


def _serialized(body: Json) -> bytes:
    # Half a surrogate pair has no UTF-8; escaped it can be kept as it is.
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":")).encode()


def _cut(body: Json) -> Json:
    longest = MAX_BODY_BYTES // 4
    while longest >= _SHORTEST_TEXT:
        cut = {name: _shortened(value, longest) for name, value in body.items()}
        if body_bytes(cut) <= MAX_BODY_BYTES:
            return cut
        longest //= 2
    return _smallest(body)


def _shortened(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else value[: longest - 1] + "…"
    if isinstance(value, Mapping):
        members = cast(Mapping[str, Any], value)
        return {name: _shortened(each, longest) for name, each in members.items()}
    if isinstance(value, list | tuple):
        return [_shortened(each, longest) for each in cast(list[Any], value)]
    return value


def _smallest(body: Json) -> Json:
    """Whatever fits, the small members first."""
    kept: dict[str, Any] = {}
    room = MAX_BODY_BYTES - 2
    short = {name: _shortened(value, _SHORTEST_TEXT) for name, value in body.items()}
    for name, value in sorted(short.items(), key=lambda member: body_bytes({member[0]: member[1]})):
        size = body_bytes({name: value})
        if size > room:
            break
        kept[name] = value
        room -= size
    return kept
