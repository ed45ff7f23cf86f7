"""What the messages of the Claude Agent SDK mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from opencomputer.server.contracts.runtimes import BrainLine, Translated
from opencomputer.server.domain.sessions.events import (
    AGENT_MESSAGE,
    AGENT_RESULT,
    TOOL_CALL,
    Level,
    NewEvent,
)
from opencomputer.server.domain.sessions.session import TurnError, Usage
from opencomputer.server.runtimes.model_errors import model_error
from opencomputer.server.runtimes.reading import count, items, members, texts, words

OWN_TOOLS = "mcp__oc__"
"""How the engine calls the session's own tools, which tell of themselves when they are used."""

_MAX_SUMMARY = 200
_REJECTED = (401, 403)


class ClaudeTranslator:
    """See Translator. Thinking stays with the engine."""

    def translate(self, line: BrainLine) -> Translated:
        """See Translator."""
        match line.kind:
            case "assistant":
                return _assistant(line.message)
            case "result":
                return _result(line.message)
            case "system" if line.message.get("subtype") == "api_retry":
                return _retry(line.message)
            case _:
                return Translated()


def _assistant(message: Mapping[str, Any]) -> Translated:
    if message.get("is_api_error_message") is True:
        # Written by the engine, not by the model. The result says the same.
        return Translated()
    blocks = items(members(message.get("message")).get("content"))
    said = [words(block.get("text")) for block in blocks if block.get("type") == "text"]
    narrated = [text for text in said if text.strip()]
    events = [NewEvent(AGENT_MESSAGE, Level.PROGRESS, {"text": text}) for text in narrated]
    events += [_call(block) for block in blocks if _is_foreign_call(block)]
    return Translated(events, text="\n\n".join(narrated) or None)


def _is_foreign_call(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "tool_use" and not words(block.get("name")).startswith(OWN_TOOLS)


def _call(block: Mapping[str, Any]) -> NewEvent:
    summary = words(json.dumps(block.get("input"), ensure_ascii=False))[:_MAX_SUMMARY]
    body = {"tool": words(block.get("name"))[:_MAX_SUMMARY], "args_summary": summary}
    return NewEvent(TOOL_CALL, Level.INTERNAL, body)


def _result(message: Mapping[str, Any]) -> Translated:
    subtype = words(message.get("subtype"))[:100]
    body = {
        "subtype": subtype,
        "num_turns": count(message.get("num_turns")),
        "duration_ms": count(message.get("duration_ms")),
    }
    step_cap = subtype == "error_max_turns"
    return Translated(
        [NewEvent(AGENT_RESULT, Level.INTERNAL, body)],
        usage=_usage(message),
        step_cap=step_cap,
        error=_error(message) if message.get("is_error") is True and not step_cap else None,
    )


def _usage(message: Mapping[str, Any]) -> Usage:
    usage = members(message.get("usage"))
    return Usage(
        input_tokens=count(usage.get("input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        cache_creation_input_tokens=count(usage.get("cache_creation_input_tokens")),
        cache_read_input_tokens=count(usage.get("cache_read_input_tokens")),
        cost_usd=_cost(message),
    )


def _cost(message: Mapping[str, Any]) -> float | None:
    """What this request took. `total_cost_usd` counts from the start of the engine's process."""
    if "model_usage_since_last_result" not in message:
        return None
    costs = [
        members(each).get("costUSD") for each in members(message["model_usage_since_last_result"]).values()
    ]
    numbers = [cost for cost in costs if isinstance(cost, int | float) and 0 <= cost < 1e9]
    return float(sum(numbers))


def _error(message: Mapping[str, Any]) -> TurnError:
    said = words(message.get("result")) or "; ".join(texts(message.get("errors")))
    return model_error(count(message.get("api_error_status")) or None, said)


def _retry(message: Mapping[str, Any]) -> Translated:
    # The brain gives up at once in this case: no result follows that would tell.
    status = count(message.get("error_status"))
    if status not in _REJECTED:
        return Translated()
    return Translated(error=model_error(status, "The model provider rejected the key."))
