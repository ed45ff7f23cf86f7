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
    model: StrictStr | None = None
    system_prompt: StrictStr | None = None
    allowed_tools: list[StrictStr] | None = None
    permission_mode: StrictStr | None = None
    max_turns: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = None
    cwd: StrictStr | None = None
    mcp_servers: dict[StrictStr, McpServer] | None = None
    resume: StrictStr | None = None

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
