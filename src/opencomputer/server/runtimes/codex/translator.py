"""What the events of `codex exec --json` mean."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from opencomputer.server.contracts.runtimes import BrainLine, Translated
from opencomputer.server.domain.sessions.events import AGENT_MESSAGE, TOOL_CALL, Level, NewEvent
from opencomputer.server.domain.sessions.session import TurnError, Usage
from opencomputer.server.runtimes.model_errors import model_error
from opencomputer.server.runtimes.reading import count, members, words

OWN_SERVER = "oc"
"""How the engine calls the server of the session's own tools, which tell of themselves when they are used."""

_MAX_SUMMARY = 200
_STATUS = re.compile(r"\Aunexpected status (\d{3}) [A-Za-z -]{0,60}: (.*?)(?:, url: \S*)?\Z", re.DOTALL)
# Items that stand for something the engine did by itself, each with what names it.
_FOREIGN = {"command_execution": "command", "file_change": "changes", "web_search": "query"}


class CodexTranslator:
    """See Translator. It remembers what had been used before: the engine tells totals of its conversation."""

    def __init__(self) -> None:
        self._before: Mapping[str, Any] = {}

    def translate(self, line: BrainLine) -> Translated:
        """See Translator."""
        match line.kind:
            case "oc.usage_before":
                self._before = line.message
                return Translated()
            case "oc.step_cap":
                return Translated(step_cap=True)
            case "item.completed":
                return _item(members(line.message.get("item")))
            case "turn.completed":
                return Translated(usage=self._usage(members(line.message.get("usage"))))
            case "turn.failed":
                return Translated(error=_error(members(line.message.get("error")).get("message")))
            case _:
                return Translated()

    def _usage(self, totals: Mapping[str, Any]) -> Usage:
        cached = self._since(totals, "cached_input_tokens")
        written = self._since(totals, "cache_write_input_tokens")
        return Usage(
            # The engine counts all input here, whatever became of it.
            input_tokens=max(0, self._since(totals, "input_tokens") - cached - written),
            output_tokens=self._since(totals, "output_tokens"),
            cache_creation_input_tokens=written,
            cache_read_input_tokens=cached,
        )

    def _since(self, totals: Mapping[str, Any], name: str) -> int:
        return max(0, count(totals.get(name)) - count(self._before.get(name)))


def _item(item: Mapping[str, Any]) -> Translated:
    kind = item.get("type")
    if kind == "agent_message":
        text = words(item.get("text"))
        if not text.strip():
            return Translated()
        return Translated([NewEvent(AGENT_MESSAGE, Level.PROGRESS, {"text": text})], text=text)
    if kind == "mcp_tool_call" and item.get("server") != OWN_SERVER:
        return _call(f"{words(item.get('server'))}.{words(item.get('tool'))}", item.get("arguments"))
    if isinstance(kind, str) and kind in _FOREIGN:
        return _call(kind, item.get(_FOREIGN[kind]))
    return Translated()


def _call(tool: str, arguments: object) -> Translated:
    summary = words(json.dumps(arguments, ensure_ascii=False))[:_MAX_SUMMARY]
    body = {"tool": tool[:_MAX_SUMMARY], "args_summary": summary}
    return Translated([NewEvent(TOOL_CALL, Level.INTERNAL, body)])


def _error(message: object) -> TurnError:
    text = words(message)
    if found := _STATUS.match(text):
        return model_error(int(found.group(1)), found.group(2))
    try:
        # Of requests that were refused for good, the engine passes on the provider's whole document.
        text = words(members(members(json.loads(text)).get("error")).get("message")) or text
    except (ValueError, RecursionError):
        pass
    return model_error(None, text)
