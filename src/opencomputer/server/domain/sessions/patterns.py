"""Which events somebody wants: by level and by type (agent-sessions.md sections 3.13, 3.16)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from opencomputer.server.domain.sessions.destinations import Destination
from opencomputer.server.domain.sessions.events import Event, EventFilter


class Part(Enum):
    ALL = auto()
    WHOLE = auto()
    START = auto()
    END = auto()


@dataclass(frozen=True)
class TypePattern:
    """Types that are `text`, begin with it, or end with it."""

    part: Part
    text: str

    def matches(self, event_type: str) -> bool:
        match self.part:
            case Part.ALL:
                return True
            case Part.WHOLE:
                return event_type == self.text
            case Part.START:
                return event_type.startswith(self.text)
            case Part.END:
                return event_type.endswith(self.text)


def type_pattern(text: str) -> TypePattern:
    """`a.b` is that type alone, `a.*` all that begin with `a.`, `*.b` all that end with `.b`."""
    if text == "*":
        return TypePattern(Part.ALL, "")
    if text.endswith(".*"):
        return TypePattern(Part.START, text[:-1])
    if text.startswith("*."):
        return TypePattern(Part.END, text[1:])
    return TypePattern(Part.WHOLE, text)


def passes(wanted: EventFilter, event: Event) -> bool:
    """What the log answers when it is asked for these."""
    return (
        event.level in wanted.level.included
        and (wanted.turn_id is None or event.turn_id == wanted.turn_id)
        and (wanted.type is None or type_pattern(wanted.type).matches(event.type))
    )


def wants(destination: Destination, event: Event) -> bool:
    """Whether this event is to be sent there."""
    return (
        destination.enabled
        and destination.session_id == event.session_id
        and event.seq > destination.created_after_seq
        and event.level in destination.level.included
        and _any_matches(destination.types, event.type)
    )


def _any_matches(types: Iterable[str] | None, event_type: str) -> bool:
    chosen = list(types or ())
    return not chosen or any(type_pattern(each).matches(event_type) for each in chosen)
