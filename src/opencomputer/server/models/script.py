"""The script a scripted model answers from: its format, and which answer it gives.

A script is a JSON document (docs/concepts/model-gateway.md describes it for its authors):

    {"rules": [{"when": {"contains": "fizzbuzz"}, "replies": [[{"text": "Sure."}], ...]}], "otherwise": [...]}

The first rule that fits the user's last prompt answers it: its first reply goes to the prompt itself, its
second to the request that brings the first reply's tool results, and so on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import cast

from opencomputer.server.contracts.driver import Json
from opencomputer.server.models.conversation import Conversation

MAX_RESULT_CHARACTERS = 4000


class ScriptError(ValueError):
    """The model script cannot be used; the message says where and why."""


@dataclass(frozen=True)
class Text:
    """Say something, `pace_seconds` between two words."""

    text: str
    pace_seconds: float = 0.0


@dataclass(frozen=True)
class ToolUse:
    """Call a tool."""

    name: str
    input: Mapping[str, Json]


@dataclass(frozen=True)
class Wait:
    """Say nothing for a while."""

    seconds: float


@dataclass(frozen=True)
class Failure:
    """Fail as the Messages API does: with a status at the start of an answer, with an event within one."""

    status: int
    kind: str | None
    message: str


@dataclass(frozen=True)
class Hang:
    """Never finish."""


Step = Text | ToolUse | Wait | Failure | Hang
Reply = tuple[Step, ...]


@dataclass(frozen=True)
class Rule:
    """Answers the prompts that contain all of `contains`, in any case, and match `pattern`."""

    contains: tuple[str, ...]
    pattern: re.Pattern[str] | None
    replies: tuple[Reply, ...]
    repeat: bool = False

    def captures(self, prompt: str) -> Sequence[str] | None:
        """The pattern's groups if the rule fits the prompt, else None."""
        lowered = prompt.lower()
        if not all(part.lower() in lowered for part in self.contains):
            return None
        if self.pattern is None:
            return ()
        match = self.pattern.search(prompt)
        return None if match is None else [group or "" for group in match.groups()]


@dataclass(frozen=True)
class Script:
    """Rules, tried in order; the last one fits everything."""

    rules: tuple[Rule, ...]

    def reply_to(self, conversation: Conversation) -> Reply:
        """The steps that answer this request, placeholders filled in."""
        for rule in self.rules:
            captures = rule.captures(conversation.prompt)
            if captures is not None:
                reply = _reply_at(rule, conversation.replies_given)
                return tuple(_fill(step, _values(conversation, captures)) for step in reply)
        return ()


def load_script(path: Path | None) -> Script:
    """Read a script, or the one that comes with the server. Raises ScriptError."""
    try:
        if path is None:
            text = files("opencomputer.server.models").joinpath("default_script.json").read_text("utf-8")
        else:
            text = path.read_text("utf-8")
        document = cast("Json", json.loads(text))
    except (OSError, ValueError) as error:
        raise ScriptError(f"{path or 'default script'}: {error}") from error
    return parse_script(document)


def parse_script(document: Json) -> Script:
    """Check a script document and make it a Script. Raises ScriptError."""
    top = _object(document, "script", {"rules", "otherwise"})
    rules = [
        _rule(entry, f"rules[{number}]") for number, entry in enumerate(_array(top.get("rules", []), "rules"))
    ]
    otherwise = Rule((), None, _replies(top.get("otherwise", []), "otherwise"))
    return Script((*rules, otherwise))


def _rule(value: Json, where: str) -> Rule:
    entry = _object(value, where, {"when", "replies", "repeat"})
    when = _object(entry.get("when"), f"{where}.when", {"contains", "matches"})
    if not when:
        raise ScriptError(f"{where}.when: needs 'contains' or 'matches'")
    contains = when.get("contains", [])
    parts = [contains] if isinstance(contains, str) else _array(contains, f"{where}.when.contains")
    replies = _replies(entry.get("replies"), f"{where}.replies")
    if not replies:
        raise ScriptError(f"{where}.replies: must not be empty")
    return Rule(
        contains=tuple(_string(part, f"{where}.when.contains") for part in parts),
        pattern=_pattern(when["matches"], f"{where}.when.matches") if "matches" in when else None,
        replies=replies,
        repeat=_boolean(entry.get("repeat", False), f"{where}.repeat"),
    )


def _replies(value: Json, where: str) -> tuple[Reply, ...]:
    return tuple(
        tuple(
            _step(step, f"{where}[{number}][{position}]")
            for position, step in enumerate(_array(reply, f"{where}[{number}]"))
        )
        for number, reply in enumerate(_array(value, where))
    )


def _step(value: Json, where: str) -> Step:
    entry = _object(value, where, {"text", "pace_seconds", "tool", "input", "wait_seconds", "error", "hang"})
    match sorted(entry):
        case ["text"] | ["pace_seconds", "text"]:
            pace = _seconds(entry.get("pace_seconds", 0), f"{where}.pace_seconds")
            return Text(_string(entry["text"], f"{where}.text"), pace)
        case ["tool"] | ["input", "tool"]:
            name = _string(entry["tool"], f"{where}.tool")
            return ToolUse(name, _object(entry.get("input", {}), f"{where}.input", None))
        case ["wait_seconds"]:
            return Wait(_seconds(entry["wait_seconds"], f"{where}.wait_seconds"))
        case ["error"]:
            return _failure(entry["error"], f"{where}.error")
        case ["hang"]:
            return Hang()
        case _:
            raise ScriptError(f"{where}: a step is one of text, tool, wait_seconds, error, hang")


def _failure(value: Json, where: str) -> Failure:
    entry = _object(value, where, {"status", "type", "message"})
    status = entry.get("status")
    if not isinstance(status, int) or not 400 <= status <= 599:
        raise ScriptError(f"{where}.status: must be a number from 400 to 599")
    kind = _string(entry["type"], f"{where}.type") if "type" in entry else None
    return Failure(status, kind, _string(entry.get("message", "scripted error"), f"{where}.message"))


def _reply_at(rule: Rule, position: int) -> Reply:
    if rule.repeat:
        return rule.replies[position % len(rule.replies)]
    return rule.replies[position] if position < len(rule.replies) else (Text("Done."),)


def _values(conversation: Conversation, captures: Sequence[str]) -> Mapping[str, str]:
    values = {
        "cwd": conversation.cwd,
        "prompt": conversation.prompt,
        "prompts": "\n".join(f"{n}. {prompt}" for n, prompt in enumerate(conversation.prompts, 1)),
        "result": conversation.result[:MAX_RESULT_CHARACTERS],
    }
    return values | {str(number): text for number, text in enumerate(captures, 1)}


def _fill(step: Step, values: Mapping[str, str]) -> Step:
    if isinstance(step, Text):
        return replace(step, text=_fill_text(step.text, values))
    if isinstance(step, ToolUse):
        filled = cast("Mapping[str, Json]", _fill_json(step.input, values))
        return ToolUse(_fill_text(step.name, values), filled)
    return step


def _fill_json(value: Json, values: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        return _fill_text(value, values)
    if isinstance(value, Mapping):
        return {name: _fill_json(item, values) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [_fill_json(item, values) for item in value]
    return value


def _fill_text(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values.get(match.group(1), match.group(0)), text)


def _object(value: Json, where: str, known: set[str] | None) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise ScriptError(f"{where}: must be an object")
    unknown = sorted(set(value) - known) if known is not None else []
    if unknown:
        raise ScriptError(f"{where}: unknown field {unknown[0]!r}")
    return value


def _array(value: Json, where: str) -> Sequence[Json]:
    if not isinstance(value, list):
        raise ScriptError(f"{where}: must be an array")
    return value


def _string(value: Json, where: str) -> str:
    if not isinstance(value, str):
        raise ScriptError(f"{where}: must be a string")
    return value


def _boolean(value: Json, where: str) -> bool:
    if not isinstance(value, bool):
        raise ScriptError(f"{where}: must be true or false")
    return value


def _seconds(value: Json, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 3600:
        raise ScriptError(f"{where}: must be a number of seconds from 0 to 3600")
    return float(value)


def _pattern(value: Json, where: str) -> re.Pattern[str]:
    try:
        return re.compile(_string(value, where), re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise ScriptError(f"{where}: not a regular expression ({error})") from error
