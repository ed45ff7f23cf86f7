"""A request's configuration in the words of the Claude Agent SDK."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..agent_runner.environment import engine_environment
from .requests import TurnRequest

SERVER = "oc"
"""What the engine calls the session's tools: `mcp__oc__bash`."""

PLACEHOLDER_KEY = "provided-by-the-node"
_TOOL_MILLISECONDS = 3600 * 1000
_MAX_RESULT_TOKENS = 100_000


def engine_options(turn: TurnRequest, tools_url: str) -> dict[str, Any]:
    """A request's configuration in the SDK's words. What is the same needs no other process."""
    home = home_in(Path(turn.state_dir))
    skilled = any((home / "skills").glob("*/SKILL.md"))
    return {
        "model": turn.model_name,
        "system_prompt": turn.system_prompt,
        "tools": ["Skill"] if skilled else [],
        "allowed_tools": [f"mcp__{SERVER}"],
        "skills": "all" if skilled else [],
        "mcp_servers": {SERVER: {"type": "http", "url": tools_url}},
        "strict_mcp_config": True,
        "permission_mode": "dontAsk",
        "max_turns": turn.max_turns,
        "setting_sources": ["user"],
        "cwd": str(working_folder_in(Path(turn.state_dir))),
        "env": _environment(turn, home),
    }


def home_in(folder: Path) -> Path:
    """Where the engine keeps its own things, skills and transcripts among them."""
    return folder / "claude"


def working_folder_in(folder: Path) -> Path:
    """The engine works nowhere; but its transcripts belong to a place, which must stay the same."""
    return folder / "work"


def _environment(turn: TurnRequest, home: Path) -> dict[str, str]:
    key = str(turn.endpoint.get("auth_env") or "ANTHROPIC_API_KEY")
    variables = {
        **engine_environment(os.environ, os.getuid()),
        "CLAUDE_CONFIG_DIR": str(home),
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "MAX_MCP_OUTPUT_TOKENS": str(_MAX_RESULT_TOKENS),
        "MCP_TOOL_TIMEOUT": str(_TOOL_MILLISECONDS),
        key: os.environ.get(key) or PLACEHOLDER_KEY,
    }
    if base_url := turn.endpoint.get("base_url"):
        variables["ANTHROPIC_BASE_URL"] = str(base_url)
    return variables
