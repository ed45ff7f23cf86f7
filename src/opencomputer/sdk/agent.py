"""Claude agents that work inside a sandbox: `sandbox.agent`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.agent_session import (
    AgentCallbacks,
    AgentSession,
    AgentSettings,
    ErrorCallback,
    EventCallback,
)
from opencomputer.sdk.callbacks import ExitCallback, SignalCallback
from opencomputer.sdk.control_plane import Call, get
from opencomputer.sdk.frame_stream import FrameStream

if TYPE_CHECKING:
    from opencomputer.sdk.sandbox_link import SandboxLink


@dataclass(frozen=True)
class AgentSessionInfo:
    """One entry of `agent.list()`."""

    session_id: str
    sandbox_id: str
    running: bool
    started_at: str


class Agent:
    """Starts, attaches to and lists the agent sessions of one sandbox."""

    def __init__(self, link: SandboxLink) -> None:
        self._link = link

    async def start(
        self,
        prompt: str | None = None,
        model: str | None = None,
        system_prompt: str | None = None,
        allowed_tools: Sequence[str] | None = None,
        permission_mode: str | None = None,
        max_turns: int | None = None,
        cwd: str | None = None,
        mcp_servers: Mapping[str, object] | None = None,
        on_event: EventCallback | None = None,
        on_error: ErrorCallback | None = None,
        *,
        resume: str | None = None,
        on_exit: ExitCallback | None = None,
        on_scrollback_end: SignalCallback | None = None,
        reconnect: bool = False,
    ) -> AgentSession:
        """Start an agent and follow it; returns as soon as it is followed, long before it has finished.

        Without a prompt it waits for `send_prompt`. `resume` takes the `claude_session_id` of an earlier
        `turn_complete` event and continues that conversation. `on_error` gets what the agent's process writes
        to its log. With `reconnect` a lost link is opened again.
        """
        settings = AgentSettings(
            model, system_prompt, allowed_tools, permission_mode, max_turns, cwd, mcp_servers, resume
        )
        body = settings.wire() | ({"prompt": prompt} if prompt else {})
        # Not repeated on a network fault: servers keep no idempotency keys for agents, and two would start.
        answer = await self._link.plane.json(Call("POST", self._link.path("agent"), json=body))
        session_id = answers.required_text(answers.json_object(answer), "sessionID")
        callbacks = AgentCallbacks(on_event, on_error, on_exit, on_scrollback_end)
        stream = FrameStream(self._link, session_id, reconnect=reconnect)
        await stream.open()
        return AgentSession(self._link, session_id, stream, callbacks, prompts=1 if prompt else 0)

    async def attach(
        self,
        session_id: str,
        on_event: EventCallback | None = None,
        on_error: ErrorCallback | None = None,
        on_exit: ExitCallback | None = None,
        on_scrollback_end: SignalCallback | None = None,
        *,
        reconnect: bool = False,
    ) -> AgentSession:
        """Follow a session that exists already; the events that the server kept come first."""
        stream = FrameStream(self._link, session_id, reconnect=reconnect)
        await stream.open()
        callbacks = AgentCallbacks(on_event, on_error, on_exit, on_scrollback_end)
        return AgentSession(self._link, session_id, stream, callbacks)

    async def list(self) -> list[AgentSessionInfo]:
        """All agent sessions of the sandbox."""
        items = answers.json_objects(await self._link.plane.json(get(self._link.path("agent"))))
        return [
            AgentSessionInfo(
                session_id=answers.required_text(item, "sessionID"),
                sandbox_id=answers.text(item, "sandboxID"),
                running=answers.flag(item, "running"),
                started_at=answers.text(item, "startedAt"),
            )
            for item in items
        ]
