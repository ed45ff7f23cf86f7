"""What messages of the plain kinds mean, which the scripted engine speaks and custom ones may speak."""

from __future__ import annotations

from opencomputer.server.contracts.runtimes import DONE, BrainLine, Translated
from opencomputer.server.domain.sessions.events import (
    AGENT_MESSAGE,
    AGENT_THINKING,
    Level,
    NewEvent,
)
from opencomputer.server.domain.sessions.session import TurnError, Usage
from opencomputer.server.runtimes.reading import count, members, words


class PlainTranslator:
    """See Translator. The kinds are `text`, `thinking`, `result` and `error`; others mean nothing."""

    def translate(self, line: BrainLine) -> Translated:
        """See Translator."""
        text = words(line.message.get("text"))
        match line.kind:
            case "text":
                event = NewEvent(AGENT_MESSAGE, Level.PROGRESS, {"text": text})
                return Translated((event,), text=text)
            case "thinking":
                return Translated((NewEvent(AGENT_THINKING, Level.INTERNAL, {"text": text}),))
            case "result":
                stopped = line.message.get("stopped")
                return Translated(usage=_usage(line.message.get("usage")), step_cap=stopped == "max_steps")
            case "error":
                return Translated(error=_error(line.message))
            case _ if line.kind == DONE and line.message.get("error") is not None:
                return Translated(error=_error(line.message["error"]))
            case _:
                return Translated()


def _usage(value: object) -> Usage:
    counts = members(value)
    return Usage(count(counts.get("input_tokens")), count(counts.get("output_tokens")))


def _error(value: object) -> TurnError:
    error = members(value)
    code = words(error.get("code"))[:100] or "model_error"
    return TurnError(code, words(error.get("message"))[:2000] or "The model failed.")
