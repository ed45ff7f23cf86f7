"""An agent's events as a person reads them. No I/O here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from opencomputer.cli import text
from opencomputer.cli.output import Style
from opencomputer.sdk.agent_events import AgentEvent
from opencomputer.sdk.answers import JsonObject, is_json_array, is_json_object

_SUMMARY_COLUMNS = 120
_RESULT_LINES = 6
# What says most about a tool call, in the order in which it is looked for.
_TELLING_INPUTS = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")


@dataclass(frozen=True)
class Line:
    """One line to print, in these styles. Control characters are gone from it."""

    content: str
    styles: tuple[Style, ...] = ()


def lines_of(event: AgentEvent) -> Iterator[Line]:
    """The lines that show an event; none for what only machines need."""
    match event.type:
        case "system":
            yield from _start_lines(event)
        case "assistant":
            for block in _blocks(event):
                yield from _assistant_lines(block)
        case "user":
            for block in _blocks(event):
                yield from _tool_result_lines(block)
        case "result":
            yield from _result_lines(event)
        case "interrupted":
            yield Line("Interrupted.", ("yellow",))
        case "error":
            yield Line(f"Error: {text.harmless(event.get('message', 'unknown'))}", ("red",))
        case _:
            return


def _start_lines(event: AgentEvent) -> Iterator[Line]:
    if event.get("subtype") == "init":
        facts = (event.get("model"), event.get("cwd"))
        yield Line(" · ".join(text.harmless(fact) for fact in facts if fact), ("dim",))


def _blocks(event: AgentEvent) -> list[JsonObject]:
    message = event.get("message")
    content = message.get("content") if is_json_object(message) else event.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if is_json_object(block)] if is_json_array(content) else []


def _assistant_lines(block: JsonObject) -> Iterator[Line]:
    match block:
        case {"type": "text", "text": str(words)}:
            yield from (Line(text.harmless(line)) for line in words.splitlines())
        case {"type": "thinking", "thinking": str(words)}:
            yield from (Line(text.harmless(line), ("dim",)) for line in words.splitlines())
        case {"type": "tool_use", "name": str(name)}:
            yield Line(f"● {text.harmless(name)}  {_summary(block.get('input'))}".rstrip(), ("cyan",))
        case _:
            return


def _summary(given: object) -> str:
    if not is_json_object(given):
        return ""
    telling = next((given[name] for name in _TELLING_INPUTS if given.get(name)), None)
    words = telling if isinstance(telling, str) else json.dumps(given, ensure_ascii=False) if given else ""
    return _cut(text.harmless(words))


def _tool_result_lines(block: JsonObject) -> Iterator[Line]:
    if block.get("type") != "tool_result":
        return
    styles: tuple[Style, ...] = ("red",) if block.get("is_error") else ("dim",)
    lines = _result_text(block.get("content")).splitlines()
    for line in lines[:_RESULT_LINES]:
        yield Line(f"  {_cut(text.harmless(line))}", styles)
    if len(lines) > _RESULT_LINES:
        yield Line(f"  {text.more_lines(len(lines) - _RESULT_LINES)}", ("dim",))


def _result_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not is_json_array(content):
        return ""
    return "\n".join(str(block.get("text", "")) for block in content if is_json_object(block))


def _result_lines(event: AgentEvent) -> Iterator[Line]:
    facts: list[str] = []
    milliseconds, turns, cost = (event.get(key) for key in ("duration_ms", "num_turns", "total_cost_usd"))
    if isinstance(milliseconds, int | float):
        facts.append(f"{milliseconds / 1000:.1f} s")
    if isinstance(turns, int):
        facts.append(f"{turns} turns" if turns != 1 else "1 turn")
    if isinstance(cost, int | float):
        facts.append(f"${cost:.4f}")
    failed = bool(event.get("is_error")) or event.get("subtype") not in (None, "success")
    verdict = f"✗ {text.harmless(event.get('subtype'))}" if failed else "✓ done"
    yield Line(f"{verdict}{' in ' if facts else ''}{', '.join(facts)}", ("red",) if failed else ("green",))


def _cut(words: str) -> str:
    return words if len(words) <= _SUMMARY_COLUMNS else words[: _SUMMARY_COLUMNS - 1] + "…"
