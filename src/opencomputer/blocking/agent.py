# Generated from src/opencomputer/sdk/agent.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.agent`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.agent_session import AgentSession
from opencomputer.blocking.support.threads import off_loop
from opencomputer.blocking.support.twin import Twin, view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opencomputer.sdk import agent as sdk
    from opencomputer.sdk.agent import AgentSessionInfo
    from opencomputer.sdk.agent_session import ErrorCallback, EventCallback
    from opencomputer.sdk.callbacks import ExitCallback, SignalCallback


class Agent(Twin):
    """Starts, attaches to and lists the agent sessions of one sandbox."""

    def start(
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
        return view(
            AgentSession,
            self._run(
                self._original.start(
                    prompt,
                    model,
                    system_prompt,
                    allowed_tools,
                    permission_mode,
                    max_turns,
                    cwd,
                    mcp_servers,
                    off_loop(on_event),
                    off_loop(on_error),
                    resume=resume,
                    on_exit=off_loop(on_exit),
                    on_scrollback_end=off_loop(on_scrollback_end),
                    reconnect=reconnect,
                )
            ),
        )

    def attach(
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
        return view(
            AgentSession,
            self._run(
                self._original.attach(
                    session_id,
                    off_loop(on_event),
                    off_loop(on_error),
                    off_loop(on_exit),
                    off_loop(on_scrollback_end),
                    reconnect=reconnect,
                )
            ),
        )

    def list(self) -> list[AgentSessionInfo]:
        """All agent sessions of the sandbox."""
        return self._run(self._original.list())

    @property
    def _original(self) -> sdk.Agent:
        return cast("sdk.Agent", self._wrapped)
