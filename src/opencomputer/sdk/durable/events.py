"""The events of a durable session, each kind with a class of its own.

Told apart by class or by `type`; what this version does not know is a plain `SessionEvent`, with everything
that the server sent. Kinds of the future thus never break a reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opencomputer.sdk import answers
from opencomputer.sdk.answers import Described
from opencomputer.sdk.durable.records import Record, number, part
from opencomputer.sdk.errors import UnexpectedAnswerError


@dataclass(frozen=True, kw_only=True)
class Actor(Record):
    """Who caused an event; `type` is `human`, `agent`, `system` or `trigger`."""

    id: str | None = None
    type: str | None = None
    kind: str | None = None
    display: str | None = None


@dataclass(frozen=True, kw_only=True)
class SessionEvent(Record):
    """One entry of a session's log. It never changes; `seq` counts them from 1 without gaps."""

    id: str
    seq: int
    type: str
    ts: str = ""
    session: str = ""
    level: str = "internal"
    actor: Actor | None = part(Actor)
    body: Described = field(default_factory=dict[str, object])
    turn_id: str | None = None
    refs: Described = field(default_factory=dict[str, object])
    source: str | None = None
    content_ref: str | None = None
    body_truncated: bool = False
    body_bytes: int | None = None

    @property
    def text(self) -> str:
        """What there is to read in it, whatever its kind; "" when there is nothing."""
        found = (self.body.get(name) for name in ("text", "message", "summary"))
        return next((words for words in found if isinstance(words, str)), "")

    def _whole(self, name: str) -> int | None:
        value = number(name, self.body.get(name))
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def _words(self, name: str) -> str:
        return answers.text(self.body, name)


class UserMessage(SessionEvent):
    """Somebody said something to the agent. `source_raw` is what a channel sent along, untouched."""

    @property
    def source_raw(self) -> object:
        return self.body.get("raw")


class AgentMessage(SessionEvent):
    """The agent says something: deliberately (level `user`), or on the way (`progress`)."""

    @property
    def awaiting_input(self) -> bool:
        """It is a question, and the session waits for the answer."""
        return self.body.get("awaiting_input") is True


class AgentThinking(SessionEvent):
    """What a model thinks, where the operator lets that be logged."""


class HttpRequest(SessionEvent):
    """An input that came as JSON."""

    @property
    def payload(self) -> object:
        return self.body.get("payload")


class TurnStarted(SessionEvent):
    """A turn begins with the inputs `input_from_seq..input_to_seq`."""

    @property
    def input_from_seq(self) -> int | None:
        return self._whole("input_from_seq")

    @property
    def input_to_seq(self) -> int | None:
        return self._whole("input_to_seq")


class TurnCompleted(SessionEvent):
    """A turn ended. There is exactly one for each turn."""

    @property
    def yield_reason(self) -> str:
        """`completed`, `needs_input`, `error`, `budget_exceeded`, `deadline_exceeded`, `max_turns` or
        `canceled`."""
        return self._words("yield_reason") or self._words("outcome")

    @property
    def result_event_id(self) -> str | None:
        """The event with what the agent had to say in the end."""
        return self._words("result_event_id") or None

    @property
    def error(self) -> Described | None:
        found = self.body.get("error")
        return found if answers.is_json_object(found) else None


class ToolCall(SessionEvent):
    """The agent uses a tool."""

    @property
    def tool(self) -> str:
        return self._words("tool")

    @property
    def args_summary(self) -> str:
        return self._words("args_summary")


class ToolResult(SessionEvent):
    """What became of the use of a tool other than the shell."""

    @property
    def tool(self) -> str:
        return self._words("tool")

    @property
    def is_error(self) -> bool:
        return self.body.get("is_error") is True


class ExecCompleted(SessionEvent):
    """A command has ended. `summary` is the beginning of its output; `content_ref` leads to all of it."""

    @property
    def command(self) -> str:
        return self._words("command")

    @property
    def exit_code(self) -> int | None:
        return self._whole("exit_code")

    @property
    def summary(self) -> str:
        return self._words("summary")


class PreviewUrl(SessionEvent):
    """Something can be looked at in a browser."""

    @property
    def url(self) -> str:
        return self._words("url")

    @property
    def port(self) -> int | None:
        return self._whole("port")


class ErrorEvent(SessionEvent):
    """Something went wrong (`error.model`, `error.runtime`, `error.task`); `message` is safe to show."""

    @property
    def code(self) -> str:
        return self._words("code")

    @property
    def message(self) -> str:
        return self._words("message")

    @property
    def retriable(self) -> bool:
        return self.body.get("retriable") is True


_KINDS: Mapping[str, type[SessionEvent]] = {
    "user.message": UserMessage,
    "agent.message": AgentMessage,
    "agent.thinking": AgentThinking,
    "http.request": HttpRequest,
    "turn.started": TurnStarted,
    "turn.completed": TurnCompleted,
    "tool.call": ToolCall,
    "tool.result": ToolResult,
    "exec.completed": ExecCompleted,
    "preview.url": PreviewUrl,
}


def read_event(value: object) -> SessionEvent:
    """The event that a JSON object describes."""
    sent = answers.json_object(value)
    type = answers.text(sent, "type")
    kind = _KINDS.get(type) or (ErrorEvent if type.startswith("error.") else SessionEvent)
    event = kind.read(sent)
    if not isinstance(event.seq, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UnexpectedAnswerError("the server's event has a seq that is no number")
    return event


def matches(event: SessionEvent, wanted: str | None) -> bool:
    """Whether an event is of a type: exactly, or by `prefix.*`, or by `*.suffix`."""
    if wanted is None or wanted == event.type:
        return True
    if wanted.endswith(".*"):
        return event.type.startswith(wanted[:-1])
    return wanted.startswith("*.") and event.type.endswith(wanted[1:])
