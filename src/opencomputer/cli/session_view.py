"""A durable session's events as a person reads them. No I/O here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from opencomputer.cli import text
from opencomputer.cli.agent_view import Line
from opencomputer.cli.output import Style
from opencomputer.sdk.answers import is_json_object
from opencomputer.sdk.durable.events import (
    AgentMessage,
    AgentThinking,
    ErrorEvent,
    ExecCompleted,
    PreviewUrl,
    SessionEvent,
    ToolCall,
    ToolResult,
    TurnCompleted,
    TurnStarted,
    UserMessage,
)

_COLUMNS = 120
_OUTPUT_LINES = 6
_RULE = 48
_ENGINES_FIGURES = "agent.result"
"""What a turn cost, as the engine counts; the end of the turn tells it."""
# How the end of a turn is told, and how it looks.
_ENDS: dict[str, tuple[str, Style]] = {
    "completed": ("✓ done", "green"),
    "needs_input": ("? waits for an answer", "yellow"),
    "canceled": ("■ canceled", "yellow"),
    "error": ("✗ failed", "red"),
    "budget_exceeded": ("✗ out of tokens", "red"),
    "deadline_exceeded": ("✗ out of time", "red"),
    "max_turns": ("✗ out of turns", "red"),
}


class SessionView:
    """Turns events into lines, turn by turn. Feed it one session's events in order."""

    def __init__(self) -> None:
        self._turns: list[str] = []
        self._began: dict[str, str] = {}
        self._failures: dict[str, str] = {}
        self._progress = ""

    def lines_of(self, event: SessionEvent) -> Iterator[Line]:
        """The lines that show an event. Control characters are gone from them."""
        match event:
            case TurnStarted():
                yield from self._beginning(event)
            case TurnCompleted():
                yield self._end(event)
            case UserMessage():
                for line in _lines(event.text):
                    yield Line(f"› {line}", ("bold",))
            case AgentMessage():
                yield from self._message(event)
            case AgentThinking():
                yield from (Line(line, ("dim",)) for line in _lines(event.text))
            case ToolCall():
                yield Line(f"● {text.harmless(event.tool)}  {_cut(event.args_summary)}".rstrip(), ("cyan",))
            case ExecCompleted():
                yield from _command(event)
            case ToolResult():
                yield from _output(event.text, ("red",) if event.is_error else ("dim",))
            case ErrorEvent():
                self._failures[event.turn_id or ""] = event.message
                yield Line(_cut(f"Error: {event.message or event.code or event.type}"), ("red",))
            case PreviewUrl():
                yield Line(f"→ {text.harmless(event.url)}", ("cyan",))
            case _ if event.type == _ENGINES_FIGURES:
                pass
            case _:
                told = event.text or event.body.get("sandbox", "")
                yield Line(_cut(f"· {event.type}  {told}").rstrip(), ("dim",))

    def _message(self, event: AgentMessage) -> Iterator[Line]:
        """What an agent says last it has often just said, and it was shown as progress."""
        final = event.level == "user"
        known, self._progress = self._progress, "" if final else event.text
        if final and event.text == known and not event.awaiting_input:
            return
        styles: tuple[Style, ...] = ("yellow",) if event.awaiting_input else ()
        for line in _lines(event.text):
            yield Line(line, styles if final else ("dim",))

    def _beginning(self, event: SessionEvent) -> Iterator[Line]:
        turn = event.turn_id or ""
        if turn not in self._turns:
            self._turns.append(turn)
        self._began[turn] = event.ts
        heading = f"── turn {self._turns.index(turn) + 1} ── {text.harmless(turn)} "
        yield Line("")
        yield Line(heading.ljust(_RULE, "─"), ("dim",))

    def _end(self, event: TurnCompleted) -> Line:
        words, style = _ENDS.get(event.yield_reason, (f"■ {text.harmless(event.yield_reason)}", "yellow"))
        facts = [
            *_seconds(self._began.get(event.turn_id or "", ""), event.ts),
            *_usage(event.body.get("usage")),
        ]
        reason = (event.error or {}).get("message")
        if reason and reason != self._failures.pop(event.turn_id or "", None):
            words = f"{words}: {_cut(reason)}"
        return Line(" · ".join([words, *facts]), (style,))


def log_line(event: SessionEvent) -> str:
    """An event on one line: `[seq] type  text`."""
    said = next((event.body[name] for name in ("text", "message") if event.body.get(name)), None)
    names = ("command", "tool", "yield_reason", "outcome", "summary", "url", "sandbox")
    shown = said or next((event.body[name] for name in names if event.body.get(name)), "")
    return text.harmless(f"[{event.seq}] {event.type}  {shown}").rstrip()


def _command(event: ExecCompleted) -> Iterator[Line]:
    failed = event.exit_code not in (0, None)
    yield from _output(event.summary, ("red",) if failed else ("dim",))
    if failed:
        yield Line(f"  exit code {event.exit_code}", ("red",))


def _output(words: str, styles: tuple[Style, ...]) -> Iterator[Line]:
    lines = _lines(words)
    for line in lines[:_OUTPUT_LINES]:
        yield Line(f"  {_cut(line)}", styles)
    if len(lines) > _OUTPUT_LINES:
        yield Line(f"  {text.more_lines(len(lines) - _OUTPUT_LINES)}", ("dim",))


def _lines(words: str) -> Sequence[str]:
    return [text.harmless(line) for line in words.split("\n")] if words else []


def _seconds(began: str, ended: str) -> Iterator[str]:
    try:
        seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    except (ValueError, TypeError):
        return
    yield f"{max(0.0, seconds):.1f} s"


def _usage(given: object) -> Iterator[str]:
    if not is_json_object(given):
        return
    tokens, cost = given.get("tokens"), given.get("total_cost_usd")
    if isinstance(tokens, int):
        yield f"{tokens} tokens"
    if isinstance(cost, int | float):
        yield f"${cost:.4f}"


def _cut(words: object) -> str:
    harmless = text.harmless(words)
    return harmless if len(harmless) <= _COLUMNS else harmless[: _COLUMNS - 1] + "…"
