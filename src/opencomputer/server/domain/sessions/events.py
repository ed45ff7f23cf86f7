"""What the log of a durable session consists of (agent-sessions.md section 3.13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from opencomputer.wire.ids import EventId, SessionId, TurnId

Json = Mapping[str, Any]

USER_MESSAGE = "user.message"
AGENT_MESSAGE = "agent.message"
AGENT_THINKING = "agent.thinking"
AGENT_RESULT = "agent.result"
TURN_STARTED = "turn.started"
TURN_COMPLETED = "turn.completed"
TOOL_CALL = "tool.call"
TOOL_RESULT = "tool.result"
EXEC_COMPLETED = "exec.completed"
ERROR_RUNTIME = "error.runtime"
ERROR_MODEL = "error.model"
ERROR_TASK = "error.task"
RUNTIME_RESTARTED = "runtime.restarted"
SANDBOX_CREATED = "sandbox.created"
SANDBOX_HIBERNATED = "sandbox.hibernated"
SANDBOX_WOKEN = "sandbox.woken"
SANDBOX_LOST = "sandbox.lost"
SANDBOX_RESTORED = "sandbox.restored"
SESSION_REWOUND = "session.rewound"
SESSION_FORKED = "session.forked"
SESSION_ARCHIVED = "session.archived"


class Level(StrEnum):
    """For whom an event is. Asking for a level gives it and all that are more public."""

    USER = "user"
    PROGRESS = "progress"
    INTERNAL = "internal"

    @property
    def included(self) -> tuple[Level, ...]:
        """The levels that somebody who asks for this one sees."""
        order = (Level.USER, Level.PROGRESS, Level.INTERNAL)
        return order[: order.index(self) + 1]


@dataclass(frozen=True)
class Actor:
    """Who caused an event. The server settles it; callers cannot choose it."""

    type: str
    id: str | None = None
    kind: str | None = None
    display: str | None = None


API = Actor("human", "api")
CLIENT = Actor("human", "client")
AGENT = Actor("agent", "agent")
SYSTEM = Actor("system", "system")


@dataclass(frozen=True)
class Content:
    """What was too large for the body of an event: bytes of this media type, served apart."""

    media_type: str
    data: bytes


@dataclass(frozen=True)
class NewEvent:
    """An event that is about to be appended.

    `key` makes appending idempotent within the session: a key that is there already gives the event it was
    appended with. `body` is small enough to be stored inline; `content` holds the rest where it was cut.
    """

    type: str
    level: Level
    body: Json
    actor: Actor = AGENT
    refs: Json = field(default_factory=dict[str, Any])
    source: str | None = None
    key: str | None = None
    content: Content | None = None


@dataclass(frozen=True)
class Event:
    """A committed event: it never changes and is never removed."""

    id: EventId
    session_id: SessionId
    seq: int
    at: datetime
    type: str
    level: Level
    body: Json
    actor: Actor
    turn_id: TurnId | None
    refs: Json
    source: str | None
    content_ref: str | None = None
    body_bytes: int | None = None
    """The size of the whole body, when `content_ref` names where it is."""


@dataclass(frozen=True)
class EventFilter:
    """Which events somebody wants. `type` is exact, `prefix.*` or `*.suffix`; None: all."""

    level: Level = Level.INTERNAL
    type: str | None = None
    turn_id: TurnId | None = None
