"""What the log says of tool calls, and what it tells of those that an interrupted turn left behind.

Each call is noted before it does anything, and its outcome after. What has no outcome may have happened or
not: that is told, and never guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from opencomputer.server.domain.sessions.events import (
    AGENT_MESSAGE,
    EXEC_COMPLETED,
    TOOL_CALL,
    TOOL_RESULT,
    Event,
    Json,
    Level,
    NewEvent,
)
from opencomputer.server.domain.sessions.excerpts import beginning, ending, one_line
from opencomputer.server.domain.sessions.offload import MAX_BODY_BYTES, body_bytes, offloaded, with_output
from opencomputer.wire.ids import TurnId

ARGUMENTS_CHARACTERS = 200
SUMMARY_CHARACTERS = 400

_SHOWN_ARGUMENT_CHARACTERS = 4000
_CALL = "call"
_TELLING = {"bash": "command", "read": "path", "write": "path", "ls": "path"}
_READING = frozenset({"read", "ls"})
_LISTED_CALLS = 40


@dataclass(frozen=True)
class ToolCall:
    """One use of a tool. `id` is its own within the session; `level` is that of its events."""

    id: str
    turn_id: TurnId
    tool: str
    arguments: Json
    level: Level = Level.INTERNAL

    def event(self, type: str, body: Json, suffix: str) -> NewEvent:
        key = f"{self.turn_id}:tool:{self.id}:{suffix}"
        return NewEvent(type=type, level=self.level, body=body, refs={_CALL: self.id}, key=key)


@dataclass(frozen=True)
class Execution:
    """What came of a command."""

    exit_code: int
    output: bytes
    duration_ms: int
    timed_out: bool = False


def called(call: ToolCall) -> NewEvent:
    shown = {
        name: beginning(value, _SHOWN_ARGUMENT_CHARACTERS) if isinstance(value, str) else value
        for name, value in call.arguments.items()
    }
    body = {"tool": call.tool, "args_summary": arguments_summary(call.tool, call.arguments), "input": shown}
    return offloaded(call.event(TOOL_CALL, body, "call"))


def arguments_summary(tool: str, arguments: Json) -> str:
    return one_line(str(arguments.get(_TELLING.get(tool, ""), "")), ARGUMENTS_CHARACTERS)


def executed(call: ToolCall, execution: Execution) -> NewEvent:
    """The output is in the event where it has room there, and its content otherwise."""
    output = execution.output
    text = output.decode(errors="replace")
    body: dict[str, Any] = {
        "command": beginning(str(call.arguments["command"]), _SHOWN_ARGUMENT_CHARACTERS),
        "exit_code": execution.exit_code,
        "summary": ending(text, SUMMARY_CHARACTERS),
        "duration_ms": execution.duration_ms,
    }
    if execution.timed_out:
        body["timed_out"] = True
    whole = {**body, "output": text}
    if text.encode() == output and body_bytes(whole) <= MAX_BODY_BYTES:
        return call.event(EXEC_COMPLETED, whole if output else body, "result")
    return with_output(call.event(EXEC_COMPLETED, body, "result"), output)


def answered(call: ToolCall, summary: str, duration_ms: int, *, is_error: bool = False) -> NewEvent:
    body: dict[str, Any] = {
        "tool": call.tool,
        "summary": one_line(summary, SUMMARY_CHARACTERS),
        "duration_ms": duration_ms,
    }
    if is_error:
        body["is_error"] = True
    return call.event(TOOL_RESULT, body, "result")


def unknown(call: ToolCall, why: str) -> NewEvent:
    """Nobody can tell any more whether the call did what it should."""
    body = {
        "tool": call.tool,
        "summary": one_line(why, SUMMARY_CHARACTERS),
        "is_error": True,
        "unknown": True,
    }
    return call.event(TOOL_RESULT, body, "result")


def message(turn_id: TurnId, text: str, nth: int, *, awaiting_input: bool) -> NewEvent:
    """What the agent tells the user. The nth of the same text in a turn stays the same after a restart."""
    tool = "ask" if awaiting_input else "say"
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    body: dict[str, Any] = {"text": text}
    if awaiting_input:
        body["awaiting_input"] = True
    return offloaded(NewEvent(AGENT_MESSAGE, Level.USER, body, key=f"{turn_id}:{tool}:{digest}:{nth}"))


@dataclass(frozen=True)
class PastCall:
    """A call as the log has it. `outcome` None: unknown; `noted`: the log says that it is."""

    call: ToolCall
    summary: str
    outcome: str | None
    noted: bool


@dataclass(frozen=True)
class Interruption:
    """What earlier attempts of a turn did with tools."""

    calls: Sequence[PastCall] = ()
    said: Sequence[str] = ()

    @property
    def unknown(self) -> Sequence[PastCall]:
        """Calls that may have taken effect or not."""
        return [past for past in self.calls if past.outcome is None]

    def notes(self) -> Sequence[NewEvent]:
        """What the log has to say of calls whose outcome is unknown, and does not say yet."""
        why = "the turn was interrupted while this ran; its outcome is unknown"
        return [unknown(past.call, why) for past in self.unknown if not past.noted]

    def text(self) -> str | None:
        """What the model has to know before it goes on; None: there is nothing to say."""
        effects = [past for past in self.calls if past.call.tool not in _READING]
        done = [past for past in effects if past.outcome is not None]
        open_calls = [past for past in effects if past.outcome is None]
        parts = [
            *_listed("These tool calls were in progress. Whether they took effect is unknown:", open_calls),
            *_listed("These tool calls had ended:", done),
        ]
        if self.said:
            parts.append("You had told the user already:")
            parts += [f"- {one_line(text, ARGUMENTS_CHARACTERS)}" for text in self.said[-_LISTED_CALLS:]]
        if not parts:
            return None
        head = "Your work on this was interrupted, and you may not remember all you did."
        tail = "Look at how things are before you repeat anything."
        return "\n".join([head, *parts, tail])


def interruption(events: Iterable[Event]) -> Interruption:
    """Read what the events of one turn, in their order, say of tool calls and messages so far."""
    calls: dict[str, ToolCall] = {}
    summaries: dict[str, str] = {}
    results: dict[str, Event] = {}
    said: list[str] = []
    for event in events:
        call_id = event.refs.get(_CALL)
        if event.type == AGENT_MESSAGE and event.level is Level.USER:
            said.append(str(event.body.get("text", "")))
        elif isinstance(call_id, str) and event.type == TOOL_CALL and event.turn_id is not None:
            tool = str(event.body.get("tool", ""))
            calls[call_id] = ToolCall(call_id, event.turn_id, tool, _arguments(event.body), event.level)
            summaries[call_id] = str(event.body.get("args_summary", ""))
        elif isinstance(call_id, str) and event.type in (EXEC_COMPLETED, TOOL_RESULT):
            results[call_id] = event
    past = [_past(call, summaries[call.id], results.get(call.id)) for call in calls.values()]
    return Interruption(past, said)


def _arguments(body: Json) -> Json:
    found = body.get("input")
    return cast(Json, found) if isinstance(found, Mapping) else {}


def _past(call: ToolCall, summary: str, result: Event | None) -> PastCall:
    if result is None or result.body.get("unknown"):
        return PastCall(call, summary, None, noted=result is not None)
    if result.type == EXEC_COMPLETED:
        return PastCall(call, summary, f"exit code {result.body.get('exit_code')}", noted=False)
    return PastCall(call, summary, "failed" if result.body.get("is_error") else "done", noted=False)


def _listed(heading: str, calls: Sequence[PastCall]) -> Sequence[str]:
    lines = [
        f"- {past.call.tool}: {past.summary}" + (f" ({past.outcome})" if past.outcome else "")
        for past in calls[-_LISTED_CALLS:]
    ]
    return [heading, *lines] if lines else []
