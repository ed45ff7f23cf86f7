"""Parts of scripts for a model that an engine with a session's tools asks."""

from __future__ import annotations

from typing import Any


def tool(name: str, **arguments: str) -> dict[str, Any]:
    """A call of one of the session's tools."""
    return {"tool": f"mcp__oc__{name}", "input": arguments}


def rule(words: str, *replies: list[dict[str, Any]], repeat: bool = False) -> dict[str, Any]:
    """What is answered to a prompt with these words, one reply after the other."""
    return {"when": {"contains": words}, "replies": list(replies), "repeat": repeat}
