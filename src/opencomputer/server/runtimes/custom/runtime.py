"""Runtimes of the operator's own: any program that keeps the brain contract (docs/concepts/brains.md)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from opencomputer.server.contracts.runtimes import BrainProgram, SkillFile, Translator
from opencomputer.server.domain.sessions.events import Json
from opencomputer.server.domain.sessions.session import PinnedAgent
from opencomputer.server.runtimes.plain import PlainTranslator
from opencomputer.server.runtimes.prompting import steered

_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_BUILT_IN = frozenset({"claude", "codex", "scripted", "flue"})
_FIELDS = frozenset({"provider", "command", "environment"})

# By provider: what follows the gateway's address, and where engines of that kind look for their key.
_ENDPOINTS: Mapping[str, tuple[str, str]] = {
    "anthropic": ("anthropic", "ANTHROPIC_API_KEY"),
    "openai": ("openai/v1", "OPENAI_API_KEY"),
}


class RuntimesError(ValueError):
    """The file of runtimes cannot be used; the message says where and why."""


@dataclass(frozen=True)
class CustomRuntime:
    """See Runtime. Its brain speaks the plain kinds of messages."""

    name: str
    provider: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    takes_skills: bool = False

    @property
    def providers(self) -> frozenset[str]:
        """See Runtime."""
        return frozenset({self.provider})

    def program(self, agent: PinnedAgent, skills: Sequence[SkillFile]) -> BrainProgram:
        """See Runtime."""
        return BrainProgram(self.command, self.environment)

    def endpoint(self, gateway_url: str) -> Json:
        """See Runtime."""
        path, variable = _ENDPOINTS[self.provider]
        return {"mode": "gateway", "base_url": f"{gateway_url}/{path}", "auth_env": variable}

    def system_prompt(self, agent: PinnedAgent) -> str:
        """See Runtime."""
        return steered(agent)

    def translator(self) -> Translator:
        """See Runtime."""
        return PlainTranslator()


def load_runtimes(path: Path) -> Sequence[CustomRuntime]:
    """The runtimes that a TOML file describes, one table for each. Raises RuntimesError."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RuntimesError(f"{path}: {error}") from error
    return [_runtime(name, table) for name, table in tables.items()]


def _runtime(name: str, value: object) -> CustomRuntime:
    if not _NAME.fullmatch(name) or name in _BUILT_IN:
        raise RuntimesError(
            f"{name}: a runtime's name has up to 32 small letters, digits and hyphens, and is none of "
            f"{', '.join(sorted(_BUILT_IN))}"
        )
    if not isinstance(value, dict):
        raise RuntimesError(f"{name}: must be a table")
    table = cast("Mapping[str, Any]", value)
    if unknown := sorted(set(table) - _FIELDS):
        raise RuntimesError(f"{name}.{unknown[0]}: there is no such field")
    provider = table.get("provider")
    if not isinstance(provider, str) or provider not in _ENDPOINTS:
        raise RuntimesError(f"{name}.provider: must be one of {', '.join(_ENDPOINTS)}")
    command = _texts(table.get("command"))
    if not command or not command[0].startswith("/"):
        raise RuntimesError(f"{name}.command: must be an array of strings that begins with an absolute path")
    return CustomRuntime(name, provider, command, _environment(name, table.get("environment", {})))


def _texts(value: object) -> tuple[str, ...]:
    each = cast("list[object]", value) if isinstance(value, list) else []
    texts = tuple(text for text in each if isinstance(text, str))
    return texts if len(texts) == len(each) else ()


def _environment(name: str, value: object) -> Mapping[str, str]:
    members = cast("Mapping[str, object]", value) if isinstance(value, dict) else {"": None}
    if not all(isinstance(text, str) for text in members.values()):
        raise RuntimesError(f"{name}.environment: must be a table of strings")
    return cast("Mapping[str, str]", members)
