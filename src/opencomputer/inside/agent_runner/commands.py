"""What may be written to the runner: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]

DEFAULT_MODEL = "claude-sonnet-4-20250514"
DEFAULT_PERMISSION_MODE = "bypassPermissions"
DEFAULT_MAX_TURNS = 50


class BadCommand(Exception):
    """The line is not a command; the message tells the client why."""


@dataclass(frozen=True)
class Configuration:
    """How turns are run. None means the engine's own default; `cwd` None means the home directory."""

    model: str = DEFAULT_MODEL
    system_prompt: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    permission_mode: str = DEFAULT_PERMISSION_MODE
    max_turns: int = DEFAULT_MAX_TURNS
    cwd: str | None = None
    mcp_servers: str = "{}"
    """As a JSON document, so that configurations can be compared and hashed."""


@dataclass(frozen=True)
class Configure:
    """Changes to the configuration: field names of Configuration to new values. `resume` is used once."""

    changes: Mapping[str, Any]
    resume: str | None = None

    def applied_to(self, configuration: Configuration) -> Configuration:
        return replace(configuration, **self.changes)


@dataclass(frozen=True)
class Prompt:
    """Start a turn."""

    text: str
    resume: str | None = None


@dataclass(frozen=True)
class Interrupt:
    """Stop the running turn."""


Command = Configure | Prompt | Interrupt


def parse_command(line: bytes) -> Command:
    """Read one line. Raises BadCommand."""
    try:
        value = cast("Json", json.loads(line))
    except (ValueError, RecursionError) as error:
        raise BadCommand(f"invalid JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadCommand("invalid command: a JSON object is expected")
    kind = value.get("type")
    if kind == "prompt":
        return _prompt(value)
    if kind == "configure":
        return _configure(value)
    if kind == "interrupt":
        return Interrupt()
    raise BadCommand(f"unknown command: {json.dumps(kind)}")


def _prompt(value: Mapping[str, Json]) -> Prompt:
    text = value.get("text")
    if not isinstance(text, str) or not text.strip():
        raise BadCommand("prompt: 'text' must be a non-empty string")
    return Prompt(text, _optional_text(value, "resume"))


def _configure(value: Mapping[str, Json]) -> Configure:
    changes: dict[str, Any] = {}
    for wire_name, (field, read) in _FIELDS.items():
        if wire_name not in value:
            continue
        # null takes a setting back to its default.
        default = Configuration.__dataclass_fields__[field].default
        changes[field] = default if value[wire_name] is None else read(value, wire_name)
    return Configure(changes, _optional_text(value, "resume"))


def _text(value: Mapping[str, Json], name: str) -> str:
    text = value[name]
    if not isinstance(text, str) or not text:
        raise BadCommand(f"'{name}' must be a non-empty string")
    return text


def _optional_text(value: Mapping[str, Json], name: str) -> str | None:
    return None if value.get(name) is None else _text(value, name)


def _texts(value: Mapping[str, Json], name: str) -> tuple[str, ...]:
    texts = value[name]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadCommand(f"'{name}' must be an array of strings")
    return tuple(cast("list[str]", texts))


def _count(value: Mapping[str, Json], name: str) -> int:
    count = value[name]
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise BadCommand(f"'{name}' must be a positive integer")
    return count


def _servers(value: Mapping[str, Json], name: str) -> str:
    servers = value[name]
    if not isinstance(servers, dict) or not all(isinstance(server, dict) for server in servers.values()):
        raise BadCommand(f"'{name}' must map server names to objects")
    return json.dumps(servers, sort_keys=True)


_FIELDS = {
    "model": ("model", _text),
    "systemPrompt": ("system_prompt", _text),
    "allowedTools": ("allowed_tools", _texts),
    "disallowedTools": ("disallowed_tools", _texts),
    "permissionMode": ("permission_mode", _text),
    "maxTurns": ("max_turns", _count),
    "cwd": ("cwd", _text),
    "mcpServers": ("mcp_servers", _servers),
}
