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
"""`user`. Somebody said something. Body: `text`, and `raw` where it was more than text."""
HTTP_REQUEST = "http.request"
"""`user`. A program sent something to the agent's URL or to one of its hooks. Body: `payload`."""
AGENT_MESSAGE = "agent.message"
"""`user` or `progress`. The agent said something: for people, or as narration. Body: `text`; with
`awaiting_input` it is a question that the session waits to have answered."""
AGENT_THINKING = "agent.thinking"
"""`internal`. What the model thought, from runtimes that tell it. Body: `text`."""
AGENT_RESULT = "agent.result"
"""`internal`. The engine's own summary of a turn, as the runtime gives it."""
TURN_STARTED = "turn.started"
"""`progress`. A turn begins. Body: `turn_id`, and the inputs it takes, `input_from_seq` to `input_to_seq`."""
TURN_COMPLETED = "turn.completed"
"""`user`. A turn ended; there is exactly one for each turn. Body: `yield_reason` (and `outcome`, the same),
`active_seconds`, `usage`, `result_event_id` of what the agent said in the end, `error`."""
TOOL_CALL = "tool.call"
"""`internal`. The agent is about to use a tool. Body: `tool`, `args_summary`, `input`."""
TOOL_RESULT = "tool.result"
"""`internal`. What became of it. Body: `tool`, `summary`, `duration_ms`, `is_error`; `unknown` where a crash
came between."""
EXEC_COMPLETED = "exec.completed"
"""`internal`. A command ended. Body: `command`, `exit_code`, `summary`, `duration_ms`, `output` where there
is room for it, `timed_out`."""
ERROR_RUNTIME = "error.runtime"
"""`user`. The runtime failed. Body: `code`, `message`, which is safe to show, and `retriable`."""
ERROR_MODEL = "error.model"
"""`user`. The model failed, or its provider refused the key. Body as above."""
ERROR_TASK = "error.task"
"""`user`. What was asked cannot be done. Body as above."""
RUNTIME_RESTARTED = "runtime.restarted"
"""`internal`. The turn begins anew, because its brain, its machine or the node died. Body: `code`, `attempt`,
`summary`."""
SANDBOX_CREATED = "sandbox.created"
"""`internal`. A box of the session was made. Body: `sandbox` (`brain` or `hands`), `sandbox_id`."""
SANDBOX_HIBERNATED = "sandbox.hibernated"
"""`internal`. A box fell asleep. Body: `sandbox` (`brain` or `hands`), `sandbox_id`."""
SANDBOX_WOKEN = "sandbox.woken"
"""`internal`. A box woke. Body: `sandbox` (`brain` or `hands`), `sandbox_id`."""
SANDBOX_LOST = "sandbox.lost"
"""`internal`. A box is gone, and what only it had. Body: `sandbox` (`brain` or `hands`), `sandbox_id`."""
SANDBOX_RESTORED = "sandbox.restored"
"""`internal`. Another box goes on from what was kept. Body: `sandbox` (`brain` or `hands`), `sandbox_id`."""
SESSION_REWOUND = "session.rewound"
"""`progress`. The session goes on from the end of an earlier turn. Body: `turn_id`, `summary`."""
SESSION_FORKED = "session.forked"
"""`progress`. The first event of a session that goes on from another. Body: `session_id`, `turn_id`,
`summary`."""
SESSION_ARCHIVED = "session.archived"
"""`internal`. Nothing more can be said to it. Body: `summary`."""


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
