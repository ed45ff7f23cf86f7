"""Which tools a request offers, and how a script that was written for an engine's own tools uses others.

In a durable session an engine has no tools of its own, but the session's, which do the same for other words.
So one script serves both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from opencomputer.server.contracts.driver import Json
from opencomputer.server.models.conversation import Conversation
from opencomputer.server.models.script import Reply, Step, ToolUse

SESSION_CWD = "/workspace"

# An engine's own tools: what the session calls them, and their arguments.
_COUNTERPARTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "Bash": ("bash", {"command": "command"}),
    "Read": ("read", {"path": "file_path"}),
    "Write": ("write", {"path": "file_path", "content": "content"}),
}


@dataclass(frozen=True)
class OfferedTools:
    """The names of a request's tools; those in a namespace are joined with it by `__`."""

    names: frozenset[str]

    @classmethod
    def of(cls, body: Mapping[str, Json]) -> OfferedTools:
        """Read either API's request."""
        names: list[str] = []
        for tool in _objects(body.get("tools")):
            name = str(tool.get("name"))
            inner = _objects(tool.get("tools"))
            names += [f"{name}__{each.get('name')}" for each in inner] if inner else [name]
        return cls(frozenset(names))

    @property
    def are_a_sessions(self) -> bool:
        """They are those of a durable session, which work in other hands than the engine's machine."""
        return "Bash" not in self.names and self._named("bash") is not None

    def fit(self, conversation: Conversation) -> Conversation:
        """The conversation with the folder in which these tools work."""
        return replace(conversation, cwd=SESSION_CWD) if self.are_a_sessions else conversation

    def fitted(self, steps: Reply) -> Reply:
        """The steps with calls of these tools in the place of an engine's own."""
        return tuple(self._fitted(step) for step in steps) if self.are_a_sessions else steps

    def _fitted(self, step: Step) -> Step:
        if not isinstance(step, ToolUse) or step.name in self.names or step.name not in _COUNTERPARTS:
            return step
        tool, arguments = _COUNTERPARTS[step.name]
        name = self._named(tool)
        if name is None:
            return step
        return ToolUse(name, {ours: step.input[own] for ours, own in arguments.items() if own in step.input})

    def _named(self, tool: str) -> str | None:
        return next((name for name in sorted(self.names) if name.endswith(f"__{tool}")), None)


def _objects(value: Json) -> Sequence[Mapping[str, Json]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
