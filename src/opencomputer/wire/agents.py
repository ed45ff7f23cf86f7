"""`…/agent`: Claude sessions inside a sandbox (sandbox-wire.md section 9)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr

from opencomputer.wire.model import WireModel


class McpServer(WireModel):
    command: Annotated[StrictStr, Field(min_length=1)]
    args: list[StrictStr] | None = None
    env: dict[StrictStr, StrictStr] | None = None


class StartAgent(WireModel):
    """All optional. Fields besides `prompt` become the runner's `configure` line, just those that are set."""

    prompt: StrictStr | None = None
    """Begins the first turn; without it the agent waits."""
    model: StrictStr | None = None
    """Which model to ask for."""
    system_prompt: StrictStr | None = None
    """In place of the engine's own instructions."""
    allowed_tools: list[StrictStr] | None = None
    """The only built-in tools it has."""
    permission_mode: StrictStr | None = None
    """`bypassPermissions` if nothing is said: the sandbox is the boundary."""
    max_turns: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = None
    """Steps for each prompt."""
    cwd: StrictStr | None = None
    """Where it works."""
    mcp_servers: dict[StrictStr, McpServer] | None = None
    """Tool servers: programs in the sandbox, by name."""
    resume: StrictStr | None = None
    """The `claude_session_id` of a conversation to continue."""

    def configuration(self) -> dict[str, Any]:
        """The fields that a `configure` line carries, by their wire names."""
        return self.model_dump(by_alias=True, exclude_none=True, exclude={"prompt"})


class AgentView(WireModel):
    session_id: str
    sandbox_id: str
    running: bool
    started_at: datetime
    claude_session_id: str | None = None


class Prompt(WireModel):
    text: Annotated[StrictStr, Field(min_length=1)]
